/** Reads that ask for an epoch at least, or for products that rest on the same rows: what they wait for, and when it is there. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { restOnTheSame } from '../../registry/rests-on.ts'
import type { ProductWatches } from '../served/product-watches.ts'
import type { ServedProduct } from '../served/served-product.ts'
import type { ReadDeps } from './read-endpoint.ts'
import { type AskedView, type ReadView, viewOf } from './read-view.ts'

/** One product's rows by one of its endpoints. */
export interface AwaitedRead {
  readonly asked: AskedView
  find(): Promise<ServedProduct>
  readonly atLeastEpoch?: number | undefined
}

export interface Awaiting {
  readonly reads: readonly AwaitedRead[]
  readonly isConsistent: boolean
  readonly atMostMs: number
}

export type AwaitDeps = Pick<ReadDeps, 'rules'> & { readonly watches: ProductWatches }

/**
 * Until the copies that these reads are answered from are what was asked for, or will not be in time, which the reads
 * themselves find. Whether it has waited. Throws QUOTA `too_many_waiting`, and the signal's reason.
 */
export async function awaitReads(call: TenantCall, { reads, ...asked }: Awaiting, deps: AwaitDeps): Promise<boolean> {
  const found = await Promise.all(reads.map(async (read) => ({ read, id: await idOf(read) })))
  const readable = found.flatMap(({ read, id }) => (id === null ? [] : [{ read, id }]))
  const isThere = (products: ReadonlyMap<string, ServedProduct>): boolean => {
    const views = readable.flatMap(({ read, id }) => {
      const product = products.get(id)
      return product === undefined ? [] : [viewThere(product, read, call, deps)]
    })
    if (views.includes('to come')) return false
    const made = views.flatMap((view) => (typeof view === 'string' ? [] : [view.served.rests]))
    return !asked.isConsistent || restOnTheSame(made) !== null
  }
  const productIds = [...new Set(readable.map(({ id }) => id))]
  const { tenant, principal: reader, signal } = call
  const outcome = await deps.watches.until({ tenant, reader, productIds, isThere, atMostMs: asked.atMostMs, signal })
  return outcome !== 'at once'
}

/** Null: it cannot be read, which the read says. */
async function idOf({ find }: AwaitedRead): Promise<string | null> {
  try {
    return (await find()).id
  } catch (error) {
    if (isSluiceError(error) && error.kind !== 'INTERNAL') return null
    throw error
  }
}

/** `refused`: there is nothing to wait for. */
function viewThere(
  product: ServedProduct,
  { asked, atLeastEpoch = 0 }: AwaitedRead,
  { principal }: TenantCall,
  { rules }: AwaitDeps,
): ReadView | 'to come' | 'refused' {
  try {
    const view = viewOf(product, principal, asked, rules)
    return view.served.epoch < atLeastEpoch ? 'to come' : view
  } catch (error) {
    if (!isSluiceError(error) || error.kind === 'INTERNAL') throw error
    return PASSING.includes(error.code) ? 'to come' : 'refused'
  }
}

const PASSING: readonly string[] = ['not_materialized', 'store_rebuilding', 'mask_pending']

export type AskedEpochs = number | Readonly<Record<string, number>> | undefined

/** Of each product, as it is named, what is asked for. Throws INVALID_DATA `invalid_value`. */
export function askedEpochs(asked: AskedEpochs, names: readonly string[]): ReadonlyMap<string, number> {
  if (asked === undefined) return new Map()
  const known = new Set(names)
  if (typeof asked === 'number') {
    if (known.size > 1) throw invalid('the request names several products', 'Write {"<namespace>.<product>": epoch}.')
    return new Map([...known].map((name) => [name, asked]))
  }
  const strange = Object.keys(asked).find((name) => !known.has(name))
  if (strange === undefined) return new Map(Object.entries(asked))
  throw invalid(`no item is of ${JSON.stringify(strange.slice(0, 200))}`, 'Name products as the items do.')
}

const invalid = (what: string, remedy: string) =>
  new SluiceError('INVALID_DATA', `"at_least_epoch" cannot be told: ${what}`, { code: 'invalid_value', remedy })
