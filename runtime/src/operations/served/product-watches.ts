/**
 * Readers that wait for a product to come to something. However many wait for one, one watch looks at it: when it is told
 * that something has changed, and by the clock, in case a word was lost or a copy comes, of which nobody tells.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import type { Bell } from '../../jobs/bell.ts'
import { NO_PRODUCT, type ServedProduct } from './served-product.ts'

export interface WatchedProducts {
  find(tenant: string, id: string): Promise<ServedProduct>
  /** Rings when products of the tenant are to be loaded anew, until it is disposed of. */
  changes(tenant: string): Bell & Disposable
}

/** Of a tenant in this runtime, divided among the processes that answer: fewer than the requests that it may have under way. */
export const MOST_WAITING = 50
/** Of these of one subject, so that nobody takes all the places of the others. */
export const MOST_WAITING_OF_ONE = MOST_WAITING / 2
const LOOK_MS = 2_000
/** While stores are given what the lake has. */
const COPIES_LOOK_MS = 250

export interface Awaited {
  readonly tenant: string
  /** Who waits. */
  readonly reader: Pick<Principal, 'issuer' | 'subject'>
  readonly productIds: readonly string[]
  /** Of all of them, as they are now; those that are gone are left out. What it throws ends the wait. */
  isThere(products: ReadonlyMap<string, ServedProduct>): boolean
  readonly atMostMs: number
  readonly signal: AbortSignal
}

export type Outcome = 'at once' | 'in time' | 'too late'

type Told = (product: ServedProduct | Error) => void

export class ProductWatches {
  readonly #products: WatchedProducts
  /** By product id. */
  readonly #watches = new Map<string, Watch>()
  /** By tenant, and by tenant and subject. */
  readonly #waiting = new Map<string, number>()

  readonly #most: number

  /** @param processes of this runtime that answer, which have the places for those who wait together */
  constructor(products: WatchedProducts, processes = 1) {
    this.#products = products
    this.#most = Math.max(2, Math.floor(MOST_WAITING / processes))
  }

  /** How many watch now. */
  get size(): number {
    return this.#watches.size
  }

  /** Whether it was there, and when. Throws the signal's reason, and QUOTA `too_many_waiting`. */
  async until({ tenant, reader, productIds, isThere, atMostMs, signal }: Awaited): Promise<Outcome> {
    signal.throwIfAborted()
    const found = new Map<string, ServedProduct>()
    const gone = new Set<string>()
    const judge = () => found.size + gone.size === productIds.length && isThere(found)
    for (const id of productIds) {
      const product = await this.#products.find(tenant, id).catch(goneOrThrow)
      if (product instanceof Error) gone.add(id)
      else found.set(id, product)
    }
    if (judge()) return 'at once'
    if (atMostMs <= 0) return 'too late'
    const leaves: (() => void)[] = [this.#enter(tenant, reader)]
    try {
      return await new Promise<Outcome>((resolve, reject) => {
        const timer = setTimeout(() => resolve('too late'), atMostMs)
        const onAbort = () => reject(signal.reason as Error)
        signal.addEventListener('abort', onAbort, { once: true })
        leaves.push(
          () => clearTimeout(timer),
          () => signal.removeEventListener('abort', onAbort),
        )
        for (const id of productIds) {
          const told: Told = (product) => {
            try {
              // What is gone is nobody's to wait for: the others are, and who reads it is told of it then.
              if (product instanceof Error) {
                goneOrThrow(product)
                found.delete(id)
                gone.add(id)
              } else {
                gone.delete(id)
                found.set(id, product)
              }
              if (judge()) resolve('in time')
            } catch (error) {
              reject(error)
            }
          }
          leaves.push(this.#watch(tenant, id, told))
        }
      })
    } finally {
      for (const leave of leaves) leave()
    }
  }

  #watch(tenant: string, id: string, told: Told): () => void {
    let watch = this.#watches.get(id)
    if (watch === undefined) {
      const made = new Watch(this.#products, tenant, id)
      this.#watches.set(id, made)
      void made.run().finally(() => {
        if (this.#watches.get(id) === made) this.#watches.delete(id)
      })
      watch = made
    }
    return watch.enter(told, () => this.#watches.delete(id))
  }

  /** Gives what leaves. */
  #enter(tenant: string, { issuer, subject }: Awaited['reader']): () => void {
    const places = [
      { key: JSON.stringify([tenant]), most: this.#most, whose: 'of this tenant' },
      { key: JSON.stringify([tenant, issuer, subject]), most: this.#most / 2, whose: 'of yours' },
    ]
    for (const { key, most, whose } of places) {
      const waiting = this.#waiting.get(key) ?? 0
      if (waiting < most) continue
      throw new SluiceError('QUOTA', `${waiting} reads ${whose} wait for an epoch already`, {
        code: 'too_many_waiting',
        remedy: 'Ask again when others have been answered, or without "at_least_epoch" and "consistent".',
        retryAfterMs: 1_000,
      })
    }
    for (const { key } of places) this.#waiting.set(key, (this.#waiting.get(key) ?? 0) + 1)
    return () => {
      for (const { key } of places) this.#leave(key)
    }
  }

  #leave(key: string): void {
    const waiting = (this.#waiting.get(key) ?? 1) - 1
    if (waiting === 0) this.#waiting.delete(key)
    else this.#waiting.set(key, waiting)
  }
}

/** What finding a product throws that is not there. */
function goneOrThrow(error: unknown): SluiceError {
  if (isSluiceError(error) && error.code === NO_PRODUCT.code) return error
  throw error
}

/** Of one product, for as long as somebody waits. */
class Watch {
  readonly #products: WatchedProducts
  readonly #tenant: string
  readonly #id: string
  readonly #told = new Set<Told>()
  readonly #ended = new AbortController()

  constructor(products: WatchedProducts, tenant: string, id: string) {
    this.#products = products
    this.#tenant = tenant
    this.#id = id
  }

  /** What it gives leaves; whoever is the last to leave ends the watch. */
  enter(told: Told, onEmpty: () => void): () => void {
    this.#told.add(told)
    return () => {
      if (!this.#told.delete(told) || this.#told.size > 0) return
      onEmpty()
      this.#ended.abort()
    }
  }

  async run(): Promise<void> {
    using bell = this.#products.changes(this.#tenant)
    const { signal } = this.#ended
    while (!signal.aborted) {
      bell.clear()
      const found = await this.#look()
      if (found !== null) for (const told of [...this.#told]) told(found)
      const isComing = found !== null && !(found instanceof Error) && hasCopiesToCome(found)
      await bell.heard(isComing ? COPIES_LOOK_MS : LOOK_MS, signal)
    }
  }

  /** Null: it could not be seen now. */
  async #look(): Promise<ServedProduct | Error | null> {
    try {
      return await this.#products.find(this.#tenant, this.#id)
    } catch (error) {
      if (isSluiceError(error, 'TRANSIENT') || !(error instanceof Error)) return null
      return error
    }
  }
}

function hasCopiesToCome({ variants, endpoints }: ServedProduct): boolean {
  const newest = [...variants.values()][0]?.epoch
  if (newest === undefined) return false
  return [...endpoints.values()].some(
    ({ isSettled, targets }) => !isSettled || [...targets.values()].some(({ epoch }) => epoch !== newest),
  )
}
