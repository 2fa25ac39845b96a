/** Of what a product is made, and what is made of it: products, tables and columns, as far as the caller is told. */
import { isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { Input, OutputColumn } from '../../manifest/manifest-set.ts'
import type { Classification } from '../../policy/classification.ts'
import { columnsInService, type LinkedProduct } from '../../registry/lineage.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { ColumnOrigin } from '../deploy/column-classes.ts'
import { requireMember } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import { accessOrNull, NO_PRODUCT, type ReadAccess, type ServedProduct } from '../served/served-product.ts'
import { classificationOf } from '../served/upstream-access.ts'
import type { LineageDeps } from './deps.ts'
import { Links, MAX_NODES, nodeOf, placeOf } from './links.ts'
import { valuesOf } from './values.ts'
import { walk } from './walk.ts'

export type Direction = 'upstream' | 'downstream' | 'both'

/** Columns and references to columns of one answer. */
export const MAX_MENTIONS = 50_000
const AT_ONCE = 8

export interface Place {
  readonly node: string
  readonly column: string
}

export interface ColumnLineage {
  readonly name: string
  readonly type: OutputColumn['type']
  readonly classification: string
  /** For the caller; null: he may not read the product. */
  readonly masked: boolean | null
  /** False: nobody knows, or not all of it is there for the caller. */
  readonly known: boolean
  readonly from: readonly (Place & { readonly kind: 'copied' | 'computed' })[]
  /** Those that decide which rows there are, how often, or in which order. */
  readonly influencedBy: readonly Place[]
}

export interface LineageNode {
  readonly node: string
  /** From the product that was asked for; negative: upstream. */
  readonly steps: number
  /** Of a table of a connection null. */
  readonly product: LinkedProduct | null
  readonly table: { readonly connection: string; readonly table: string } | null
  /** Null of tables, and where an answer cannot hold more. */
  readonly columns: readonly ColumnLineage[] | null
}

export interface LineageEdge {
  readonly from: string
  readonly to: string
  /** The alias. */
  readonly input: string
}

export interface Lineage {
  readonly root: string
  readonly nodes: readonly LineageNode[]
  readonly edges: readonly LineageEdge[]
  readonly truncated: boolean
}

export async function lineageOf(
  platform: LineageDeps,
  call: TenantCall,
  reference: string,
  { direction, depth }: { readonly direction: Direction; readonly depth: number },
): Promise<Lineage> {
  requireMember(call.principal)
  const { domain, name } = await productOf(platform, call, reference)
  const links = new Links(platform, call)
  const full = `${domain}.${name}`
  await links.find([full])
  const root = nodeOf({ connection: PRODUCTS, table: full })
  const steps = new Map([[root, 0]])
  let isCut = false
  for (const [way, sign] of [
    ['upstream', -1],
    ['downstream', 1],
  ] as const) {
    if (direction !== 'both' && direction !== way) continue
    const next = (level: readonly string[]) => (way === 'upstream' ? links.above(level) : links.below(level))
    const walked = await walk(root, next, { depth, most: MAX_NODES - steps.size })
    for (const [node, count] of walked.found) steps.set(node, sign * count)
    isCut ||= walked.isCut
  }
  const { columns, isWhole } = await columnsOf(platform, call, links, [...steps.keys()])
  return {
    root,
    nodes: [...steps].map(([node, count]) => ({
      node,
      steps: count,
      product: links.product(node) ?? null,
      table: links.table(node) ?? null,
      columns: columns.get(node) ?? null,
    })),
    edges: [...steps.keys()].flatMap((to) =>
      (links.product(to)?.inputs ?? [])
        .map((input) => ({ from: nodeOf(input), to, input: input.name }))
        .filter(({ from }) => steps.has(from)),
    ),
    truncated: isCut || !isWhole,
  }
}

/** By node, the nearest first, until there are as many as an answer holds. */
async function columnsOf(platform: LineageDeps, call: TenantCall, links: Links, nodes: readonly string[]) {
  const columns = new Map<string, readonly ColumnLineage[]>()
  const products = nodes.flatMap((node) => links.product(node) ?? [])
  let mentions = 0
  for (let at = 0; at < products.length; at += AT_ONCE) {
    call.signal.throwIfAborted()
    const some = products.slice(at, at + AT_ONCE)
    for (const [node, own] of await columnsOfSome(platform, call, links, some)) {
      mentions += own.reduce((sum, { from, influencedBy }) => sum + 1 + from.length + influencedBy.length, 0)
      if (mentions > MAX_MENTIONS) return { columns, isWhole: false }
      columns.set(node, own)
    }
  }
  return { columns, isWhole: true }
}

async function columnsOfSome(
  platform: LineageDeps,
  call: TenantCall,
  links: Links,
  products: readonly LinkedProduct[],
): Promise<readonly (readonly [node: string, columns: readonly ColumnLineage[]])[]> {
  const ids = products.map(({ id }) => id)
  const [kept, sights] = await Promise.all([
    columnsInService<OutputColumn, Input, ColumnOrigin>(platform.pool, call.tenant, ids),
    Promise.all(ids.map((id) => sightOn(platform, call, id))),
  ])
  const upstream = products.flatMap(({ inputs }) => inputs.filter(({ connection }) => connection === PRODUCTS))
  await links.find(upstream.map(({ table }) => table))
  return products.map((product, index) => {
    const node = nodeOf({ connection: PRODUCTS, table: product.full })
    const own = kept.find(({ productId }) => productId === product.id)
    const access = sights[index]?.access ?? null
    // What applications are not told otherwise: members find it in the manifests.
    const isTold = call.principal.key === undefined || access !== null
    const origins = isTold ? (own?.origins ?? []) : []
    const isThere = (place: Place) => !place.node.startsWith('product:') || links.product(place.node) !== undefined
    const columns = own?.columns ?? []
    return [node, columns.map((column) => columnLineage(column, origins, { access, isThere }))]
  })
}

interface Told {
  readonly access: ReadAccess | null
  readonly isThere: (place: Place) => boolean
}

function columnLineage(
  { name, type, classification }: OutputColumn,
  origins: readonly ColumnOrigin[],
  { access, isThere }: Told,
): ColumnLineage {
  const masked = access === null ? null : access.masks.some(({ column }) => column === name)
  const origin = origins.find(({ column }) => column === name)
  const about = { name, type, classification, masked }
  if (origin === undefined || origin.guessed) return { ...about, known: false, from: [], influencedBy: [] }
  const { influences = [], grouped = [], copied = null } = origin
  const from = valuesOf(origin).map((source) => {
    return { ...placeOf(source), kind: copied === source ? ('copied' as const) : ('computed' as const) }
  })
  const deciding = [...new Set([...influences, ...grouped])].map(placeOf)
  const isAll = [...from, ...deciding].every(isThere)
  return { ...about, known: isAll, from: from.filter(isThere), influencedBy: deciding.filter(isThere) }
}

export interface ProductSight {
  /** Null: he may not read it. */
  readonly access: ReadAccess | null
  readonly classification: Classification
}

/** What the caller is shown of a product; null where it is gone meanwhile. */
export async function sightOn(
  { served, rules }: LineageDeps,
  call: TenantCall,
  id: string,
): Promise<ProductSight | null> {
  const product = await served.find(call.tenant, id).catch((error: unknown): ServedProduct | null => {
    if (isSluiceError(error) && error.code === NO_PRODUCT.code) return null
    throw error
  })
  if (product === null) return null
  return { access: accessOrNull(product, call.principal, rules), classification: classificationOf(product) }
}
