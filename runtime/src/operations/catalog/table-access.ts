/**
 * Which tables an engine outside may read for whom.
 *
 * A product's table and its twins are tables of their own there. A reader is allowed the one that the REST API
 * would read for it; the others, and every past of a table that today's policy does not show, do not exist for it.
 * So no expression ever has to hide a value: where a mask is asked for all the same, the answer hides the whole value.
 */
import { isSluiceError, type PolicyTable } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { catalogName, SANDBOX } from '../../lake/tenant-layout.ts'
import { lakeTable, productOfTable } from '../../materializer/variants.ts'
import { audited } from '../audit.ts'
import { accessTo, refuseStaleMask } from '../served/served-product.ts'
import type { CatalogDeps } from './deps.ts'
import { visibleTo } from './read.ts'

export type TableAccess = 'none' | 'read'

const FULL_MASK = 'masked'

export function mayUseCatalog(principal: Principal, catalog: string): boolean {
  if (principal.isAdmin) return true
  return principal.tenant !== null && catalog === catalogName(principal.tenant)
}

/** Whether the principal may read the table: all its columns, and all its past that an engine could be asked for. */
export async function tableAccess(platform: CatalogDeps, call: TenantCall, table: PolicyTable): Promise<TableAccess> {
  const { catalog, schema, table: name } = table
  if (isHidden(table) || !mayUseCatalog(call.principal, catalog)) return 'none'
  if (schema === SANDBOX) return isMember(call.principal) ? 'read' : 'none'
  return productAccess(platform, call, schema, name)
}

/** An engine's own view of a table, of its files and its past, or part of one. */
export const isHidden = ({ table }: PolicyTable): boolean => table.includes('$')

const isMember = (principal: Principal): boolean => principal.isAdmin || principal.isDeveloper || principal.isViewer

async function productAccess(
  platform: CatalogDeps,
  call: TenantCall,
  domain: string,
  table: string,
): Promise<TableAccess> {
  const { product: name, variant } = productOfTable(table)
  try {
    const product = await platform.served.find(call.tenant, name, domain)
    if (product.name !== name || product.domain !== domain) return 'none'
    const access = accessTo(product, call.principal, platform.rules, (kept) => product.variants.has(kept))
    const served = product.variants.get(variant)
    if (served === undefined || (variant !== access.variant && variant !== FULL_MASK)) return 'none'
    refuseStaleMask(product, access.masks, served.masks)
    const state = await platform.lake.load(lakeTable(call.tenant, domain, name, variant), { signal: call.signal })
    if (state === null) return 'none'
    // An engine reads any snapshot that the table lists, and does not say which.
    const { hidden } = await visibleTo(platform, call, product, { ...access, variant }, state)
    return hidden === 0 ? 'read' : 'none'
  } catch (error) {
    if (isSluiceError(error) && ['PERMISSION', 'INVALID_DATA', 'CONFLICT'].includes(error.kind)) return 'none'
    throw error
  }
}

/** Reads of products for named individuals are on record, each with its statement’s first question. */
export async function recordRead(platform: CatalogDeps, call: TenantCall, table: PolicyTable): Promise<void> {
  const { product: name } = productOfTable(table.table)
  const found = platform.served.find(call.tenant, name, table.schema)
  // A plain table is no product. Any other failure fails the question, so that nothing is read that is not on record.
  const product = await found.catch((error: unknown) => {
    if (isSluiceError(error, 'INVALID_DATA')) return null
    throw error
  })
  if (product === null) return
  const { audit } = accessTo(product, call.principal, platform.rules, (kept) => product.variants.has(kept))
  if (audit) await audited(platform.pool, call, call.tenant, 'read.trino', { type: 'product', id: product.id })
}
