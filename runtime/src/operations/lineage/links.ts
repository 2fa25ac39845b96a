/** Tables and products as nodes of one graph, found step by step, as far as they are there for the caller. */
import type { TenantCall } from '../../flow.ts'
import { DEFAULT_SCHEMA, qualified } from '../../manifest/context.ts'
import { isInScope } from '../../policy/classification.ts'
import {
  asSource,
  type LinkedProduct,
  type LinkedSource,
  linkedProducts,
  productsMadeOfAny,
} from '../../registry/lineage.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { LineageDeps } from './deps.ts'

/** Nodes of one answer. */
export const MAX_NODES = 200
export const MAX_DEPTH = 20

/** `product:crm.people`, `table:shop/public.people`. */
export function nodeOf({ connection, table }: LinkedSource): string {
  return connection === PRODUCTS ? `product:${table}` : `table:${connection}/${qualified(table)}`
}

export const nodeOfProduct = (product: Pick<LinkedProduct, 'full'>): string => nodeOf(asSource(product))

/** The node and the column of a raw column, as `rawColumn` names it. */
export function placeOf(raw: string): { readonly node: string; readonly column: string } {
  const [connection, table, column] = JSON.parse(raw) as readonly [string, string, string]
  return { node: nodeOf({ connection, table }), column }
}

/** What is known so far. Products outside of a key's scope are not there, and no way leads through them. */
export class Links {
  readonly #platform: Pick<LineageDeps, 'pool'>
  readonly #call: TenantCall
  readonly #products = new Map<string, LinkedProduct>()
  readonly #tables = new Map<string, LinkedSource>()
  /** Names that were looked for, whether or not there is a product. */
  readonly #asked = new Set<string>()

  constructor(platform: Pick<LineageDeps, 'pool'>, call: TenantCall) {
    this.#platform = platform
    this.#call = call
  }

  product(node: string): LinkedProduct | undefined {
    return this.#products.get(node)
  }

  table(node: string): LinkedSource | undefined {
    return this.#tables.get(node)
  }

  /** Whether the node is known to be there. */
  has(node: string): boolean {
    return this.#products.has(node) || this.#tables.has(node)
  }

  addTable(source: LinkedSource): string {
    const node = nodeOf(source)
    this.#tables.set(node, { ...source, table: qualified(source.table) })
    return node
  }

  /** @param full `namespace.name` */
  async find(names: readonly string[]): Promise<void> {
    const missing = names.filter((full) => !this.#asked.has(full))
    for (const full of missing) this.#asked.add(full)
    for (const product of await linkedProducts(this.#platform.pool, this.#call.tenant, missing)) this.#add(product)
  }

  #add(product: LinkedProduct): void {
    this.#asked.add(product.full)
    if (isInScope(this.#call.principal, product.id)) this.#products.set(nodeOfProduct(product), product)
  }

  /** What these nodes are made of. */
  async above(nodes: readonly string[]): Promise<readonly string[]> {
    const inputs = nodes.flatMap((node) => this.product(node)?.inputs ?? [])
    await this.find(inputs.filter(({ connection }) => connection === PRODUCTS).map(({ table }) => table))
    for (const input of inputs.filter(({ connection }) => connection !== PRODUCTS)) this.addTable(input)
    return inputs.map(nodeOf).filter((node) => this.has(node))
  }

  /** What is made of these nodes. */
  async below(nodes: readonly string[]): Promise<readonly string[]> {
    this.#call.signal.throwIfAborted()
    const sources = nodes.flatMap((node) => this.#namesOf(node))
    const ids = this.#call.principal.key?.products ?? null
    // Of those that are found already some come again.
    const bounds = { most: 2 * MAX_NODES + 2, ids: ids === null ? null : [...ids] }
    const products = await productsMadeOfAny(this.#platform.pool, this.#call.tenant, sources, bounds)
    for (const product of products) this.#add(product)
    return products.map(nodeOfProduct)
  }

  /** As inputs may write it. */
  #namesOf(node: string): readonly LinkedSource[] {
    const product = this.product(node)
    if (product !== undefined) return [asSource(product)]
    const table = this.table(node)
    if (table === undefined) return []
    const [schema, ...rest] = table.table.split('.')
    return [table, ...(schema === DEFAULT_SCHEMA ? [{ ...table, table: rest.join('.') }] : [])]
  }
}
