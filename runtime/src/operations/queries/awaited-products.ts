/**
 * What a statement is to rest on at least: epochs, and the same rows of what its products are made of. It waits for that
 * before anything is decided of its reader: he is shown what he may see when he is answered.
 */
import { foldName } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import { restOnTheSame } from '../../registry/rests-on.ts'
import { accessOrNull, epochNotReached, notConsistent, type ServedProduct } from '../served/served-product.ts'
import type { QueryRequest, StatementCall, Visible } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'
import { requireStillHeld } from './held-rights.ts'
import type { NamedTables } from './named-tables.ts'

export class AwaitedProducts {
  readonly #platform: QueriesDeps
  readonly #call: StatementCall
  readonly #request: QueryRequest
  readonly #names: NamedTables
  /** By `performance.now()`. */
  readonly #endsAtMs: number

  constructor(
    platform: QueriesDeps,
    call: StatementCall,
    asked: { readonly request: QueryRequest; readonly names: NamedTables; readonly endsAtMs: number },
  ) {
    this.#platform = platform
    this.#call = call
    this.#request = asked.request
    this.#names = asked.names
    this.#endsAtMs = asked.endsAtMs
    refuseContradiction(asked.request)
  }

  get waits(): boolean {
    const { atLeastEpoch, consistent, asOf } = this.#request
    return atLeastEpoch !== undefined || (consistent === true && asOf === undefined)
  }

  /**
   * The tables that `look` finds, once they are what was asked for. Throws CONFLICT `epoch_not_reached`,
   * `answer_not_consistent`, QUOTA `too_many_waiting`, PERMISSION `right_ended`, INVALID_DATA `invalid_value`.
   */
  async tables<Found extends { readonly visible: readonly Visible[] }>(look: () => Promise<Found>): Promise<Found> {
    if (this.waits) await this.#wait()
    const found = await look()
    // A copy of the registry's answer may be of a moment before, and what is no product is seen only now.
    for (const { product, epoch } of await this.#wanted()) {
      const seen = found.visible.find(({ name }) => name === nameOf(product))?.made?.epoch
      if (seen !== undefined && seen < epoch) throw epochNotReached(product, { atLeast: epoch, epoch: seen })
    }
    if (this.#request.consistent === true && !isConsistent(found.visible)) {
      throw notConsistent(found.visible.map(({ name }) => name))
    }
    return found
  }

  async #wait(): Promise<void> {
    const wanted = await this.#wanted()
    const readable = await this.#readable()
    const atLeast = new Map(wanted.map(({ product, epoch }) => [product.id, epoch]))
    const isMet = (products: readonly ServedProduct[]) =>
      products.every((product) => (epochOf(product) ?? 0) >= (atLeast.get(product.id) ?? 0)) &&
      (this.#request.consistent !== true || this.#agree(products))
    const outcome = await this.#platform.served.watches.until({
      tenant: this.#call.tenant,
      reader: this.#call.principal,
      productIds: readable.map(({ id }) => id),
      isThere: (products) => isMet([...products.values()]),
      atMostMs: this.#endsAtMs - performance.now(),
      signal: this.#call.signal,
    })
    if (outcome === 'at once') return
    await requireStillHeld(this.#platform, this.#call)
    if (outcome === 'in time') return
    const now = await this.#readable()
    for (const product of now) {
      const epoch = atLeast.get(product.id) ?? 0
      if ((epochOf(product) ?? 0) < epoch) throw epochNotReached(product, { atLeast: epoch, epoch: epochOf(product) })
    }
    if (this.#request.consistent === true && !this.#agree(now)) throw notConsistent(now.map(nameOf))
  }

  /** Of the variants that this reader gets; they are of one epoch all. */
  #agree(products: readonly ServedProduct[]): boolean {
    const made = products.flatMap(({ variants }) => [...variants.values()].slice(0, 1))
    return restOnTheSame(made.map(({ rests }) => rests)) !== null
  }

  async #readable(): Promise<readonly ServedProduct[]> {
    const products = await this.#platform.served.named(this.#call.tenant, this.#names.products)
    const { principal } = this.#call
    const named = products.filter(({ domain, name }) => this.#names.has(domain, name))
    return named.filter((product) => accessOrNull(product, principal, this.#platform.rules) !== null)
  }

  /** Which epochs are asked for. One that he may not read is passed over like one that is not there: no table has its name. */
  async #wanted(): Promise<readonly { readonly product: ServedProduct; readonly epoch: number }[]> {
    const { atLeastEpoch: asked } = this.#request
    if (asked === undefined) return []
    const readable = await this.#readable()
    if (typeof asked === 'number') {
      const [product, ...more] = readable
      if (more.length > 0)
        throw invalid('the statement names several products', 'Write {"<namespace>.<product>": epoch}.')
      return product === undefined ? [] : [{ product, epoch: asked }]
    }
    return Object.entries(asked).flatMap(([written, epoch]) => {
      const [namespace = '', ...rest] = written.split('.')
      if (!this.#names.has(namespace, rest.join('.'))) {
        throw invalid(
          `${JSON.stringify(written.slice(0, 200))} is not named by the statement`,
          'Name its products as <namespace>.<product>.',
        )
      }
      const product = readable.find((one) => foldName(nameOf(one)) === foldName(written))
      return product === undefined ? [] : [{ product, epoch }]
    })
  }
}

/** Whether all that the statement may read rests on the same rows of what it is made of. */
export function isConsistent(visible: readonly Pick<Visible, 'rests'>[]): boolean {
  return restOnTheSame(visible.map(({ rests }) => rests)) !== null
}

const nameOf = ({ domain, name }: Pick<ServedProduct, 'domain' | 'name'>) => `${domain}.${name}`

/** All variants of a product are made in one epoch. */
const epochOf = ({ variants }: ServedProduct): number | null => [...variants.values()][0]?.epoch ?? null

function refuseContradiction({ atLeastEpoch, asOf }: QueryRequest): void {
  if (atLeastEpoch === undefined || asOf === undefined) return
  throw invalid('"as_of" asks for the past, and "at_least_epoch" for what is to come', 'Leave one of them out.')
}

const invalid = (what: string, remedy: string) =>
  new SluiceError('INVALID_DATA', what, { code: 'invalid_value', remedy })
