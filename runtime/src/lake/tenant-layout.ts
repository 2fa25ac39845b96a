/** Where tenants' tables lie: each tenant is a warehouse, in a bucket of its own. */
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
