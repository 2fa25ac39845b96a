/** Whether the object store is the one that the registry belongs to: looked at at each start, and from time to time. */
import { BUCKET_PROBLEMS } from '@sluice/iceberg'
import { strangeBucket } from '../../lake/registry-catalog.ts'
import { hasHadTenants } from '../../registry/tenants.ts'
import type { TenantsDeps } from './deps.ts'

type Deps = Pick<TenantsDeps, 'lake' | 'logger' | 'pool'>

/**
 * How many buckets of tenants there are beside a registry that has never had one: it was lost, or the store is another's.
 * They are left alone, and a tenant of such a name cannot be made.
 */
export async function unknownBuckets({ lake, logger, pool }: Deps): Promise<number> {
  if (await hasHadTenants(pool)) return 0
  const buckets = await lake.bucketCount()
  if (buckets > 0) {
    logger.warn(
      'the object store has buckets of tenants, and the registry has never had a tenant; they are left alone',
      {
        buckets,
        remedy: 'If they are this installation’s, stop it and put back the registry that belongs to them.',
      },
    )
  }
  return buckets
}

/** True where the tenant's bucket is its own. What is found is kept in the registry: products and readiness say it. */
export async function reviewBucket({ lake, logger, pool }: Deps, tenant: string): Promise<boolean> {
  const before = await strangeBucket(pool, tenant)
  const found = await lake.look(tenant)
  if (found === 'emptied' || found === 'foreign') {
    const { code, message, remedy } = BUCKET_PROBLEMS[found]
    logger.warn(`${message}; nothing is written to it`, { tenant, code, remedy })
    return false
  }
  if (before !== null) {
    logger.info('the bucket of a tenant is the right one again', { tenant })
  }
  return true
}
