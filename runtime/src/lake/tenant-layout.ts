/** Where tenants' tables lie: each tenant is a warehouse, in a bucket of its own. */
import { mkdir, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from '@sluice/iceberg'

/** The namespace of each tenant for plain tables, which outside engines may make and change. No product can have it. */
export const SANDBOX = 'sandbox'

export const bucketName = (tenant: string): string => `sluice-${tenant}`

/** Of the tenant in Iceberg's SQL catalog. */
export const catalogName = (tenant: string): string => `lakehouse_${tenant}`

/** Null where it is none of a tenant's. */
export function tenantOfCatalog(catalog: string): string | null {
  const none = catalogName('')
  return catalog.startsWith(none) && catalog !== none ? catalog.slice(none.length) : null
}

/** `sluice-acme/acme/sales/orders`. */
export const TENANT_LAYOUT: Layout = {
  bucketOf: bucketName,
  folderOf: (tenant) => `${bucketName(tenant)}/${tenant}`,
  canRename: (namespace) => namespace === SANDBOX,
}

/**
 * Where jobs over a tenant's files write meanwhile. A process of the engine that stays for a tenant's jobs may open this folder, and
 * no other tenant's.
 */
export const tenantScratch = (scratchDirectory: string, tenant: string): string =>
  join(scratchOfTenants(scratchDirectory), bucketName(tenant))

/** Holds those of all tenants, and nothing else. */
export const scratchOfTenants = (scratchDirectory: string): string => join(scratchDirectory, 'tenants')

/** A new empty folder there; the caller removes it. */
export async function newTenantScratch(scratchDirectory: string, tenant: string, prefix: string): Promise<string> {
  const folder = tenantScratch(scratchDirectory, tenant)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return mkdtemp(join(folder, prefix))
}
