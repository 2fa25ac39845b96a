/**
 * The Iceberg catalog for readers. Files bypass every mask that is applied later, so that a reader is given the variant
 * of its own clearance under the product's name, and of its history the snapshots that today's policy shows it.
 */
import {
  commented,
  inSnapshot,
  lakeDamage,
  type TableState,
  type VisibleMetadata,
  visibleMetadata,
} from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { lakeTable } from '../../materializer/variants.ts'
import { decideRead, personOf, stricter } from '../../policy/classification.ts'
import { missingMasks, NO_MASKS, rowMasks } from '../../policy/made-masks.ts'
import { masksFor } from '../../policy/masking.ts'
import { epochsOfVariant, listedProducts } from '../../registry/catalog-products.ts'
import { productGrantsOf } from '../../registry/grants.ts'
import { findTenant } from '../../registry/tenants.ts'
import { findVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import { requireMember } from '../permissions.ts'
import { asMadeBy } from '../served/as-made-by.ts'
import { accessTo, type ReadAccess, refuseStaleMask, type ServedProduct } from '../served/served-product.ts'
import { commentsOf } from './column-comments.ts'
import type { CatalogDeps } from './deps.ts'
import { namespaceNotFound, tableNotFound, tableNotMade } from './errors.ts'

export interface LoadedTable {
  /** Null where the file lists snapshots that the reader may not see. */
  readonly metadataLocation: string | null
  readonly metadata: VisibleMetadata['metadata']
  readonly state: TableState
  readonly hidden: number
}

/** Throws `catalog_warehouse_not_found` where the warehouse is another tenant's, or none. */
export function requireWarehouse(call: Pick<TenantCall, 'tenant'>, warehouse: string): void {
  if (warehouse === call.tenant) return
  throw new SluiceError('INVALID_DATA', 'there is no such warehouse for this token', {
    code: 'catalog_warehouse_not_found',
    remedy: 'Name the tenant of the token as the warehouse.',
  })
}

/** The prefix of the tenant's catalog. Throws `catalog_warehouse_not_found`. */
export async function openWarehouse(platform: CatalogDeps, call: TenantCall, warehouse: string): Promise<string> {
  requireWarehouse(call, warehouse)
  if ((await findTenant(platform.pool, call.tenant))?.status !== 'active') requireWarehouse({ tenant: '' }, warehouse)
  return call.tenant
}

/** Namespaces with a table that the caller may load, and the sandbox where it exists. */
export async function namespacesFor(platform: CatalogDeps, call: TenantCall): Promise<readonly string[]> {
  const products = await readableProducts(platform, call, null)
  const names = new Set(products.map((product) => product.domain))
  if (isMember(call) && (await platform.sandbox.properties(call.tenant)) !== null) names.add(SANDBOX)
  return [...names]
}

/** Throws `catalog_namespace_not_found`. */
export async function namespaceFor(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
): Promise<Readonly<Record<string, string>>> {
  if (namespace === SANDBOX && isMember(call)) {
    const properties = await platform.sandbox.properties(call.tenant)
    // Engines make no table where it is not told where.
    if (properties !== null) return { location: platform.sandbox.location(call.tenant), ...properties }
  } else if ((await readableProducts(platform, call, namespace)).length > 0) return {}
  throw namespaceNotFound()
}

/** Names of the tables that the caller may load. Throws `catalog_namespace_not_found`. */
export async function tablesFor(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
): Promise<readonly string[]> {
  if (namespace !== SANDBOX) {
    const products = await readableProducts(platform, call, namespace)
    if (products.length === 0) throw namespaceNotFound()
    return products.map((product) => product.name)
  }
  await namespaceFor(platform, call, namespace)
  return (await platform.lake.tables(call.tenant, SANDBOX)).map((ref) => ref.table)
}

const isMember = ({ principal }: TenantCall): boolean =>
  principal.isAdmin || principal.isDeveloper || principal.isViewer

async function readableProducts(platform: CatalogDeps, call: TenantCall, domain: string | null) {
  const { principal } = call
  const products = await listedProducts(platform.pool, call.tenant, domain)
  const grants = await productGrantsOf(platform.pool, call.tenant, { ...personOf(principal), groups: principal.groups })
  const byProduct = Map.groupBy(grants, (grant) => grant.productId)
  return products.filter((product) => {
    const classification = stricter(product.classification, product.snapshotClassification)
    return decideRead(principal, { id: product.id, classification, isPreview: false }, byProduct.get(product.id) ?? [])
      .allowed
  })
}

/**
 * The table as the caller may see it. Throws `catalog_table_not_found`, PERMISSION `product_forbidden`, CONFLICT
 * `mask_pending` while the copies of a column whose class was raised are being rebuilt.
 */
export async function loadTable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
): Promise<LoadedTable> {
  if (namespace === SANDBOX) return loadSandboxTable(platform, call, table)
  const product = await productNamed(platform, call, namespace, table)
  const access = accessTo(product, call.principal, platform.rules, (variant) => product.variants.has(variant))
  if (product.variants.size === 0) throw tableNotMade(product)
  const served = product.variants.get(access.variant)
  refuseStaleMask(product, access.masks, served?.masks ?? NO_MASKS)
  const ref = lakeTable(call.tenant, namespace, table, access.variant)
  if (served === undefined) throw tableNotFound()
  const state = await platform.lake.load(ref, { signal: call.signal }).catch((error: unknown) => {
    throw inSnapshot(error, served.snapshotId)
  })
  if (state === null) throw lakeDamage('lake_pointer_missing', ref, { path: null, snapshotId: served.snapshotId })
  const visible = await visibleTo(platform, call, product, access, state)
  // The newest snapshot was made under a stricter policy than any that this reader passes.
  if (visible.metadata['current-snapshot-id'] === -1) refuseStaleMask(product, access.masks, NO_MASKS)
  if (access.audit) {
    await audited(platform.pool, call, call.tenant, 'read.iceberg', { type: 'product', id: product.id })
  }
  const metadataLocation = visible.hidden === 0 ? state.location : null
  const metadata = commented(visible.metadata, commentsOf(product, access, served.maskedColumns))
  return { ...visible, metadata, state, metadataLocation }
}

/** Whether the table exists for the caller: what `loadTable` would not refuse as missing. */
export async function tableExists(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
): Promise<void> {
  if (!(await tablesFor(platform, call, namespace)).includes(table)) throw tableNotFound()
}

async function loadSandboxTable(platform: CatalogDeps, call: TenantCall, table: string): Promise<LoadedTable> {
  requireMember(call.principal)
  const state = await platform.lake.load({ warehouse: call.tenant, namespace: SANDBOX, table }, { signal: call.signal })
  if (state === null) throw tableNotFound()
  return { metadataLocation: state.location, metadata: state.metadata, state, hidden: 0 }
}

async function productNamed(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
): Promise<ServedProduct> {
  try {
    const product = await platform.served.find(call.tenant, table, namespace)
    // A product is found by its id, too; the catalog knows names only.
    if (product.name === table && product.domain === namespace) return product
  } catch (error) {
    if (!isSluiceError(error) || error.code !== 'product_not_found') throw error
  }
  throw tableNotFound()
}

/**
 * The table with those of its snapshots that the stricter of today's policy and that of their time shows to the reader,
 * masks as they are. What no epoch of the product made is shown to nobody.
 */
export async function visibleTo(
  platform: CatalogDeps,
  call: TenantCall,
  product: ServedProduct,
  access: ReadAccess,
  { metadata }: TableState,
): Promise<VisibleMetadata> {
  const listed = metadata.snapshots.map((snapshot) => String(snapshot['snapshot-id']))
  const epochs = await epochsOfVariant(platform.pool, product.id, access.variant, listed)
  const policies = new Map<string, Awaited<ReturnType<typeof policyOf>>>()
  const seen = new Map<string, boolean>()
  for (const { version, snapshotId, ...epoch } of epochs) {
    const policy = policies.get(version) ?? (await policyOf(platform, call, product, version))
    policies.set(version, policy)
    const made = rowMasks(epoch, access.variant, policy.columns)
    seen.set(snapshotId, policy.allowed && missingMasks(policy.masks, made).length === 0)
  }
  return visibleMetadata(metadata, seen)
}

async function policyOf(platform: CatalogDeps, call: TenantCall, product: ServedProduct, version: string) {
  const then = (await findVersion<ManifestSet>(platform.pool, product.id, version))?.normalised
  if (then === undefined) return NOTHING
  const both = asMadeBy(product, then, platform.rules)
  const classification = stricter(both.classification, both.snapshotClassification)
  const decision = decideRead(call.principal, { ...product, classification }, product.grants)
  if (!decision.allowed) return NOTHING
  const masks = masksFor(both.columns, decision.clearClasses, platform.rules)
  return { allowed: true, masks, columns: then.output.columns }
}

const NOTHING = { allowed: false, masks: [], columns: [] } as const
