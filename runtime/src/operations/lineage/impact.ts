/** What is made of a column, through any number of products, and who read that. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { qualified } from '../../manifest/context.ts'
import type { Input, OutputColumn } from '../../manifest/manifest-set.ts'
import { columnsInService, type LinkedProduct } from '../../registry/lineage.ts'
import { type ProductReads, recordedReads } from '../../registry/product-reads.ts'
import { productColumn } from '../../registry/raw-classes.ts'
import { connectionOf } from '../connections/connections.ts'
import type { ColumnOrigin } from '../deploy/column-classes.ts'
import { requireMember } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import type { LineageDeps } from './deps.ts'
import { MAX_MENTIONS, type Place, sightOn } from './lineage.ts'
import { Links, MAX_DEPTH, MAX_NODES, nodeOfProduct } from './links.ts'
import { type Reached, type SpreadProduct, spread } from './spread.ts'
import { walk } from './walk.ts'

export const READ_DAYS = 30
const MAX_READERS = 1_000
const AT_ONCE = 8

export interface ReachedColumn extends Reached, Pick<OutputColumn, 'name' | 'classification'> {
  /** For the caller; null: he may not read the product. */
  readonly masked: boolean | null
}

export interface ReachedProduct {
  readonly product: LinkedProduct
  /** The least of its columns. */
  readonly steps: number
  readonly columns: readonly ReachedColumn[]
  /** Whose reads are on record: those of everybody, or of administrators alone. */
  readonly recorded: 'everybody' | 'administrators'
}

export interface Impact {
  readonly of: Place
  readonly products: readonly ReachedProduct[]
  /** Null for who may not see the audit log. */
  readonly readers: { readonly found: readonly ProductReads[]; readonly isCut: boolean } | null
  readonly truncated: boolean
}

/** Throws INVALID_DATA `unknown_column`. */
export async function impactOfProductColumn(
  platform: LineageDeps,
  call: TenantCall,
  reference: string,
  column: string,
): Promise<Impact> {
  requireMember(call.principal)
  const product = await productOf(platform, call, reference)
  const [own] = await columnsInService<OutputColumn, Input, ColumnOrigin>(platform.pool, call.tenant, [product.id])
  const found = own?.columns.find(({ name }) => name.toLowerCase() === column.toLowerCase())
  if (found === undefined) throw unknownColumn(`${product.domain}.${product.name}`, column)
  const links = new Links(platform, call)
  const full = `${product.domain}.${product.name}`
  await links.find([full])
  return impactOf(platform, call, links, { node: nodeOfProduct({ full }), raw: productColumn(full, found.name) })
}

/** Of a table nothing is asked: one that nothing is made of has no impact. */
export async function impactOfSourceColumn(
  platform: LineageDeps,
  call: TenantCall,
  connection: string,
  { table, column }: { readonly table: string; readonly column: string },
): Promise<Impact> {
  requireMember(call.principal)
  const { name } = await connectionOf(platform, call.tenant, connection)
  const links = new Links(platform, call)
  const node = links.addTable({ connection: name, table })
  return impactOf(platform, call, links, { node, raw: JSON.stringify([name, qualified(table), column.toLowerCase()]) })
}

interface Start {
  readonly node: string
  readonly raw: string
}

async function impactOf(platform: LineageDeps, call: TenantCall, links: Links, { node, raw }: Start): Promise<Impact> {
  const bounds = { depth: MAX_DEPTH, most: MAX_NODES }
  const { found, isCut } = await walk(node, (level) => links.below(level), bounds)
  const linked = [...found.keys()].flatMap((one) => links.product(one) ?? [])
  const { kept, isWhole } = await keptColumns(platform, call, linked)
  const reached = spread(raw, kept)
  const products: ReachedProduct[] = []
  for (const product of linked) {
    call.signal.throwIfAborted()
    const own = kept.find(({ productId }) => productId === product.id)
    const columns = (own?.columns ?? []).flatMap((column) => {
      const how = reached.get(productColumn(product.full, column.name))
      return how === undefined ? [] : [{ name: column.name, classification: column.classification, ...how }]
    })
    if (columns.length > 0) products.push(await reachedProduct(platform, call, product, columns))
  }
  const [, , column = ''] = JSON.parse(raw) as readonly string[]
  return {
    of: { node, column },
    products: products.toSorted((one, other) => one.steps - other.steps),
    readers: await readersOf(platform, call, products),
    truncated: isCut || !isWhole,
  }
}

async function reachedProduct(
  platform: LineageDeps,
  call: TenantCall,
  product: LinkedProduct,
  columns: readonly Omit<ReachedColumn, 'masked'>[],
): Promise<ReachedProduct> {
  const sight = await sightOn(platform, call, product.id)
  const access = sight?.access ?? null
  const masked = (name: string) => (access === null ? null : access.masks.some(({ column }) => column === name))
  return {
    product,
    steps: Math.min(...columns.map(({ steps }) => steps)),
    columns: columns.map((column) => ({ ...column, masked: masked(column.name) })),
    recorded: sight?.classification === 'restricted' ? 'everybody' : 'administrators',
  }
}

interface KeptProduct extends SpreadProduct {
  readonly columns: readonly OutputColumn[]
}

async function keptColumns(platform: LineageDeps, call: TenantCall, products: readonly LinkedProduct[]) {
  const kept: KeptProduct[] = []
  let mentions = 0
  for (let at = 0; at < products.length; at += AT_ONCE) {
    call.signal.throwIfAborted()
    const some = products.slice(at, at + AT_ONCE)
    const ids = some.map(({ id }) => id)
    for (const own of await columnsInService<OutputColumn, Input, ColumnOrigin>(platform.pool, call.tenant, ids)) {
      mentions += mentionsOf(own.origins ?? [])
      if (mentions > MAX_MENTIONS) return { kept, isWhole: false }
      kept.push({ ...own, full: some.find(({ id }) => id === own.productId)?.full ?? '' })
    }
  }
  return { kept, isWhole: true }
}

function mentionsOf(origins: readonly ColumnOrigin[]): number {
  return origins.reduce(
    (sum, { sources, influences = [], grouped = [] }) => sum + 1 + sources.length + influences.length + grouped.length,
    0,
  )
}

/** As the audit log is shown: to developers and administrators of the tenant. */
async function readersOf({ pool }: LineageDeps, call: TenantCall, products: readonly ReachedProduct[]) {
  const { isAdmin, isDeveloper } = call.principal
  if (!isAdmin && !isDeveloper) return null
  const ids = products.map(({ product }) => product.id)
  const found = await recordedReads(pool, call.tenant, ids, { days: READ_DAYS, most: MAX_READERS + 1 })
  return { found: found.slice(0, MAX_READERS), isCut: found.length > MAX_READERS }
}

function unknownColumn(product: string, column: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${product} has no column "${column}" in the version that is in service`, {
    code: 'unknown_column',
    remedy: 'Name a column of the product.',
  })
}
