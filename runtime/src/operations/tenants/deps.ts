import type { EventBus } from '@sluice/sdk'
import type { CatalogLogins } from '../../catalog/logins.ts'
import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `tenants` work with, and those that they call. */
export interface TenantsDeps extends ProductsDeps {
  readonly catalogLogins: CatalogLogins
  /** Null where events stay in the registry. */
  readonly bus: EventBus | null
  /** Null: as many as there is room for. */
  readonly mostTenants: number | null
  /** The bucket's address, as resources of a tenant name it. */
  bucketUri(tenant: string): string
}
