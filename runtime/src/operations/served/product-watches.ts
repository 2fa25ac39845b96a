/**
 * Readers that wait for a product to come to something. However many wait for one, one watch looks at it: when it is told
 * that something has changed, and by the clock, in case a word was lost or a copy comes, of which nobody tells.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { Bell } from '../../jobs/bell.ts'
import type { ServedProduct } from './served-product.ts'

export interface WatchedProducts {
  find(tenant: string, id: string): Promise<ServedProduct>
  /** Rings when products of the tenant are to be loaded anew, until it is disposed of. */
  changes(tenant: string): Bell & Disposable
}

/** Of a tenant in this runtime: fewer than the requests that it may have under way. */
export const MOST_WAITING = 50
const LOOK_MS = 2_000
/** While stores are given what the lake has. */
const COPIES_LOOK_MS = 250

export interface Awaited {
  readonly tenant: string
  readonly productIds: readonly string[]
  /** Of all of them, as they are now. What it throws ends the wait. */
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
  /** By tenant. */
  readonly #waiting = new Map<string, number>()

  constructor(products: WatchedProducts) {
    this.#products = products
  }

  /** How many watch now. */
  get size(): number {
    return this.#watches.size
  }

  /**
   * Whether it was there, and when. Throws the signal's reason, QUOTA `too_many_waiting`, and what finding a product throws
   * that is gone by now.
   */
  async until({ tenant, productIds, isThere, atMostMs, signal }: Awaited): Promise<Outcome> {
    signal.throwIfAborted()
    const found = new Map<string, ServedProduct>()
    const judge = () => found.size === productIds.length && isThere(found)
    for (const id of productIds) found.set(id, await this.#products.find(tenant, id))
    if (judge()) return 'at once'
    if (atMostMs <= 0) return 'too late'
    this.#enter(tenant)
    const leaves: (() => void)[] = [() => this.#leave(tenant)]
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
            if (product instanceof Error) return reject(product)
            found.set(id, product)
            try {
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

  #enter(tenant: string): void {
    const waiting = this.#waiting.get(tenant) ?? 0
    if (waiting >= MOST_WAITING) {
      throw new SluiceError('QUOTA', `${waiting} reads of this tenant wait for an epoch already`, {
        code: 'too_many_waiting',
        remedy: 'Ask again when others have been answered, or without "at_least_epoch" and "consistent".',
        retryAfterMs: 1_000,
      })
    }
    this.#waiting.set(tenant, waiting + 1)
  }

  #leave(tenant: string): void {
    const waiting = (this.#waiting.get(tenant) ?? 1) - 1
    if (waiting === 0) this.#waiting.delete(tenant)
    else this.#waiting.set(tenant, waiting)
  }
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
