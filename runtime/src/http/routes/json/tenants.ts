/** Tenants as JSON. */
import type { TenantDetail } from '../../../operations/tenants/tenants.ts'
import { TIER_LIMITS } from '../../../registry/tiers.ts'
import { iso } from './times.ts'

export function tenantJson({ tenant, usage }: TenantDetail) {
  const limits = TIER_LIMITS[tenant.tier]
  return {
    id: tenant.slug,
    slug: tenant.slug,
    display_name: tenant.displayName,
    tier: tenant.tier,
    status: tenant.status,
    limits: {
      products: limits.products,
      connections: limits.connections,
      concurrent_executions: limits.concurrentExecutions,
      storage_bytes: limits.storageBytes,
    },
    usage: {
      products: usage.products,
      connections: usage.connections,
      running: usage.runningRuns,
      storage_bytes: usage.storageBytes,
    },
    resources: tenant.resources,
    created_at: iso(tenant.createdAt),
    provisioned_in_ms: tenant.provisionedInMs,
  }
}
