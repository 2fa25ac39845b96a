/** Which products there are for an agent, and what they are. */
import type { TenantCall } from '../../flow.ts'
import { deployedProducts } from '../../registry/products.ts'
import { requireMember } from '../permissions.ts'
import { productDetail } from '../products/product-detail.ts'
import { findReadable } from '../reads/read-keys.ts'
import { accessOrNull, productHidden, type ServedProduct } from '../served/served-product.ts'
import type { AgentFindings } from './agent-call.ts'
import { BoundedAnswer, shortened } from './bounded-answer.ts'
import type { AgentsDeps } from './deps.ts'

const MAX_FOUND = 50
const AT_ONCE = 8
const MAX_LISTED = 1_000

export interface AskedSearch {
  readonly text?: string
  /** `namespace.name` of the last product of the answer before. */
  readonly after?: string
}

/** In the order of their names, those alone that the agent may read. */
export async function searchProducts(
  platform: AgentsDeps,
  call: TenantCall,
  { text = '', after = '' }: AskedSearch,
): Promise<AgentFindings> {
  requireMember(call.principal)
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const candidates = (await deployedProducts(platform.pool, call.tenant))
    .filter(({ previewOf }) => previewOf === null)
    .map((product) => ({ ...product, full: `${product.domain}.${product.name}` }))
    .filter(({ full, description }) => {
      const said = `${full} ${description}`.toLowerCase()
      return full > after && words.every((word) => said.includes(word))
    })
    .toSorted((left, right) => (left.full < right.full ? -1 : 1))
  const found: (typeof candidates)[number][] = []
  for (let at = 0; at < candidates.length && found.length <= MAX_FOUND; at += AT_ONCE) {
    call.signal.throwIfAborted()
    const some = candidates.slice(at, at + AT_ONCE)
    const isReadable = await Promise.all(some.map(({ id }) => mayRead(platform, call, id)))
    found.push(...some.filter((_, index) => isReadable[index]))
  }
  const answer = new BoundedAnswer()
  const listed = found.slice(0, MAX_FOUND).map(({ full, description, classification }) => ({
    product: full,
    description: shortened(description),
    classification,
  }))
  const shown = answer.addList('products', listed)
  const isWhole = shown === found.length
  const next = isWhole
    ? 'Call describe_product with one of these names. These are all that there are for you.'
    : 'There are more: narrow text, or call again with after = the last product here.'
  return { answer: answer.finish(next), rows: 0, products: listed.slice(0, shown).map(({ product }) => product) }
}

async function mayRead({ served, rules }: AgentsDeps, call: TenantCall, id: string): Promise<boolean> {
  return accessOrNull(await served.find(call.tenant, id), call.principal, rules) !== null
}

/** Throws `product_not_found`, of one that may not be read, too; or CONFLICT `ambiguous_product`. */
export async function productForAgent(
  { served, rules }: AgentsDeps,
  call: TenantCall,
  reference: string,
): Promise<ServedProduct> {
  const find = served.find.bind(served)
  const product = await findReadable(reference, call, { find, rules })
  if (accessOrNull(product, call.principal, rules) === null) throw productHidden()
  return product
}

export async function describeProduct(
  platform: AgentsDeps,
  call: TenantCall,
  reference: string,
): Promise<AgentFindings> {
  requireMember(call.principal)
  const product = await productForAgent(platform, call, reference)
  const detail = await productDetail(platform, call, product.id)
  const full = `${product.domain}.${product.name}`
  const answer = new BoundedAnswer()
  answer.add('product', full)
  answer.add('description', shortened(detail.product.description))
  answer.add('classification', product.classification)
  answer.add('version', detail.product.currentVersion)
  answer.add('freshness', detail.freshness)
  const checks = (detail.quality?.result as { readonly checks?: readonly CheckSaid[] } | null | undefined)?.checks ?? []
  const failed = checks.filter(({ passed }) => !passed).map(({ name, dimension }) => ({ check: name, dimension }))
  answer.add('quality', { score: detail.quality?.score ?? null, checks: checks.length, failed: failed.slice(0, 20) })
  answer.add('contract', {
    owner: detail.owner,
    write_mode: detail.content?.write_mode ?? null,
    keeps_missing_rows: detail.content?.keeps_missing ?? null,
    freshness_objective_s: detail.freshness.objective_s,
    availability_objective_percent: detail.availability.objective_percent,
    endpoints: detail.endpoints.map(({ type, state }) => ({ type, state })),
  })
  answer.addList('lineage', detail.lineage.inputs.slice(0, 50))
  const columns = detail.schema.slice(0, MAX_LISTED).map(({ description, classification, mask, ...column }) => ({
    ...column,
    class: classification,
    masked_for_you: mask,
    ...(description ? { description: shortened(description) } : {}),
  }))
  const shown = answer.addList('columns', columns)
  const next =
    shown === detail.schema.length
      ? 'Call sample_rows to see some rows, or query with SQL over this name. Masked columns hold masks, in filters too.'
      : `Only ${shown} of ${detail.schema.length} columns fit: query information_schema.columns for the others.`
  return { answer: answer.finish(next), rows: 0, products: [full] }
}

type CheckSaid = { readonly name: string; readonly dimension: string; readonly passed: boolean }
