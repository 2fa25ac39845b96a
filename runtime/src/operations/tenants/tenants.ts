/** Tenants: provisioned all or nothing, and removed fence first, keys last. */

import type { StorageRoom } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { busTenant } from '../../events/bus-tenant.ts'
import { appendEvent, dropTopics, provisionTopics } from '../../events/outbox.ts'
import type { AuthenticatedCall } from '../../flow.ts'
import { bucketName, catalogName } from '../../lake/tenant-layout.ts'
import { afterWriters } from '../../materializer/product-lock.ts'
import { dropTenantCopies, requireReachable } from '../../materializer/store-copies.ts'
import { faultOf } from '../../plugins/store-probes.ts'
import { rotateSecretKey } from '../../registry/connection-secrets.ts'
import { endpointsLeaving } from '../../registry/endpoint-states.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { deployedProducts } from '../../registry/products.ts'
import {
  beginProvisioning,
  disturbProvisioning,
  endProvisioning,
  PROVISIONING_LEASE_MS,
  type ProvisioningLease,
  renewProvisioning,
  takeAbandoned,
} from '../../registry/provisioning.ts'
import type { Transaction } from '../../registry/sql.ts'
import { lockForRemoval } from '../../registry/tenant-first.ts'
import { createTenantKeys, destroyTenantKeys, rotateMasterKey } from '../../registry/tenant-keys.ts'
import {
  deleteTenant,
  findTenant,
  listTenants,
  setTenantStatus,
  storagesOf,
  type Tenant,
  type TenantUsage,
  tenantsUsage,
  tenantUsage,
  updateTenant,
} from '../../registry/tenants.ts'
import { TIER_LIMITS, type Tier } from '../../registry/tiers.ts'
import { audited } from '../audit.ts'
import { releaseOfTenant } from '../connections/captures.ts'
import { openWith } from '../connections/connections.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import type { TenantsDeps } from './deps.ts'

const SLUG = /^[a-z](?:[a-z0-9]|-(?!-)){1,37}[a-z0-9]$/

/** Throws INVALID_DATA `invalid_slug`, CONFLICT `tenant_exists`; a tenant whose provisioning failed, or was abandoned, may be created again. */
export async function provisionTenant(
  platform: TenantsDeps,
  call: AuthenticatedCall,
  wanted: { readonly slug: string; readonly displayName: string; readonly tier: Tier },
  keep: Keep<TenantDetail>,
): Promise<TenantDetail> {
  if (!SLUG.test(wanted.slug) || wanted.slug.length < 3) {
    throw new SluiceError('INVALID_DATA', 'the slug is not valid', {
      code: 'invalid_slug',
      remedy: 'Use 3 to 39 lower-case letters, digits and single hyphens, beginning with a letter, not ending in "-".',
    })
  }
  if (platform.bus?.admits(wanted.slug) === false) {
    throw new SluiceError('INVALID_DATA', 'a tenant of this name would read what another tenant has in clear', {
      code: 'invalid_slug',
      remedy: 'Use another slug, or name cleared readers so that no slug is like them, as User:{tenant}--cleared.',
    })
  }
  const startedAt = performance.now()
  const lease = await beginProvisioning(platform.pool, wanted, platform.mostTenants)
  return whileRenewing(platform, lease, async () => {
    try {
      const resources = await provisionResources(platform, lease)
      return await inTransaction(platform.pool, async (tx) => {
        const provisionedInMs = Math.round(performance.now() - startedAt)
        await endProvisioning(tx, lease, 'active')
        const tenant = (await updateTenant(tx, wanted.slug, { resources, provisionedInMs })) as Tenant
        await appendEvent(tx, {
          tenant: wanted.slug,
          kind: 'tenant',
          name: 'provisioned',
          subject: wanted.slug,
          traceparent: call.traceparent,
        })
        await audited(tx, call, wanted.slug, 'tenant.create', { type: 'tenant', id: wanted.slug })
        const detail = { tenant, usage: { ...(await tenantUsage(tx, wanted.slug)), storageBytes: 0 } }
        await keep(tx, detail)
        return detail
      })
    } catch (error) {
      await giveUp(platform, lease).catch((failure: unknown) => tell(platform, lease, failure))
      throw error
    }
  })
}

/** A lease that cannot be renewed shows at the next step, which checks it. */
async function whileRenewing<T>(platform: TenantsDeps, lease: ProvisioningLease, work: () => Promise<T>): Promise<T> {
  const renew = () => renewProvisioning(platform.pool, lease).catch(() => undefined)
  const renewal = setInterval(renew, PROVISIONING_LEASE_MS / 3)
  try {
    return await work()
  } finally {
    clearInterval(renewal)
  }
}

/** Every step is idempotent. */
async function provisionResources(
  platform: TenantsDeps,
  lease: ProvisioningLease,
): Promise<Readonly<Record<string, unknown>>> {
  const { slug } = lease
  await checkStores(platform)
  const topics = await inTransaction(platform.pool, async (tx) => {
    await renewProvisioning(tx, lease)
    await createTenantKeys(tx, platform.masters, slug)
    return provisionTopics(tx, slug)
  })
  await platform.bus?.provision(busTenant(slug), topics)
  await renewProvisioning(platform.pool, lease)
  await platform.lake.provision(slug)
  return {
    schema: { name: '{namespace}', tables: '{product}', row_security: 'forced on tenant_id' },
    bucket: bucketName(slug),
    topics,
    catalog: catalogName(slug),
    destination: `${platform.bucketUri(slug)}/${slug}/raw_{connection}/{table}/`,
  }
}

/** A store whose login could bypass row security takes no tenant. */
async function checkStores(platform: TenantsDeps): Promise<void> {
  const signal = AbortSignal.timeout(20_000)
  for (const { type, store } of platform.plugins.servingTypes()) {
    const fault = await faultOf(store, signal)
    if (fault === null) continue
    throw new SluiceError('TRANSIENT', `the ${type} store is not ready for tenants: ${fault}`, {
      code: 'store_unavailable',
      remedy: 'Correct the store’s logins and settings, then create the tenant again.',
    })
  }
}

/** Of a tenant that has become another's, what this one may have made too late is theirs to undo. */
async function giveUp(platform: TenantsDeps, lease: ProvisioningLease): Promise<void> {
  try {
    await undoProvisioning(platform, lease)
  } catch (error) {
    if (!isConflict(error)) throw error
    if (await disturbProvisioning(platform.pool, lease.slug)) return
    // Nobody makes a tenant of that name any more.
    for (const step of stepsBack(platform, lease.slug)) await step()
  }
}

function stepsBack(platform: TenantsDeps, slug: string): readonly (() => Promise<void>)[] {
  return [
    () => platform.lake.drop(slug),
    async () => platform.bus?.drop(busTenant(slug)),
    () => inTransaction(platform.pool, (tx) => dropTopics(tx, slug)),
    () => destroyTenantKeys(platform.pool, slug),
  ]
}

/**
 * Removes what was provisioned; the tenant may be created again then. Where a step fails the tenant is left abandoned, so
 * that somebody tries again. Throws CONFLICT `tenant_status_conflict` where the lease was lost.
 */
async function undoProvisioning(platform: TenantsDeps, lease: ProvisioningLease): Promise<void> {
  let isUndone = true
  for (const step of stepsBack(platform, lease.slug)) {
    await renewProvisioning(platform.pool, lease)
    await step().catch((error: Error) => {
      isUndone = false
      tell(platform, lease, error)
    })
  }
  await endProvisioning(platform.pool, lease, isUndone ? 'failed' : 'provisioning')
}

function tell(platform: TenantsDeps, { slug }: ProvisioningLease, error: unknown): void {
  const said = error instanceof Error ? error.message : String(error)
  platform.logger.error('undoing a half provisioned tenant failed; it is tried again', { tenant: slug, error: said })
}

/**
 * Undoes what was begun by those who died meanwhile; the tenant may be created again then. One that cannot be undone is
 * told of, and keeps nobody from the others.
 */
export async function undoAbandoned(platform: TenantsDeps): Promise<void> {
  const seen: string[] = []
  for (let next = await takeAbandoned(platform.pool, seen); next; next = await takeAbandoned(platform.pool, seen)) {
    const lease = next
    seen.push(lease.slug)
    await whileRenewing(platform, lease, () => undoProvisioning(platform, lease)).catch((error: unknown) =>
      tell(platform, lease, error),
    )
  }
}

/** Throws INVALID_DATA `tenant_not_found`. */
export async function requireTenant({ pool }: Pick<TenantsDeps, 'pool'>, slug: string): Promise<void> {
  if ((await findTenant(pool, slug)) === null) throw notFound('tenant')
}

export async function tenantDetail(platform: TenantsDeps, slug: string): Promise<TenantDetail> {
  const tenant = await findTenant(platform.pool, slug)
  if (!tenant) throw notFound('tenant')
  return withUsage(platform, tenant)
}

/** Limits of a lower tier hold for what comes; nothing that is there is taken away. */
export async function changeTenant(
  platform: TenantsDeps,
  call: AuthenticatedCall,
  slug: string,
  change: { readonly displayName?: string; readonly tier?: Tier },
): Promise<TenantDetail> {
  const tenant = await inTransaction(platform.pool, async (tx) => {
    if (!(await findTenant(tx, slug))) throw notFound('tenant')
    await audited(tx, call, slug, 'tenant.update', { type: 'tenant', id: slug }, { ...change })
    return updateTenant(tx, slug, change)
  })
  if (!tenant) throw notFound('tenant')
  return withUsage(platform, tenant)
}

/** A new key for the secrets of the tenant's connections; how many were sealed anew. May be repeated at any time. */
export async function rotateTenantKey(platform: TenantsDeps, call: AuthenticatedCall, slug: string): Promise<number> {
  return inTransaction(platform.pool, async (tx) => {
    if (!(await findTenant(tx, slug))) throw notFound('tenant')
    const resealed = await rotateSecretKey(tx, platform.masters, slug)
    await audited(tx, call, slug, 'tenant.rotate_key', { type: 'tenant', id: slug }, { resealed })
    return resealed
  })
}

/** A new master key for all tenants' keys; how many were wrapped anew. Throws CONFIG `master_key_file_unwritable`. */
export async function rotateMaster(
  platform: TenantsDeps,
  call: AuthenticatedCall,
): Promise<{ readonly keyId: string; readonly rewrapped: number }> {
  return inTransaction(platform.pool, async (tx) => {
    const rewrapped = await rotateMasterKey(tx, platform.masters)
    const keyId = platform.masters.currentId
    await audited(tx, call, null, 'platform.rotate_master_key', { type: 'master_key', id: keyId }, { rewrapped })
    return { keyId, rewrapped }
  })
}

/** A page of tenants, each with what it uses. */
export async function tenantPage(platform: TenantsDeps, request: PageRequest): Promise<Page<TenantDetail>> {
  const { items, next } = await listTenants(platform.pool, request)
  return { items: await withUsages(platform, items), next }
}

async function withUsage(platform: TenantsDeps, tenant: Tenant): Promise<TenantDetail> {
  return (await withUsages(platform, [tenant]))[0] as TenantDetail
}

/** By as many statements for a thousand of them as for one. */
async function withUsages({ pool }: TenantsDeps, tenants: readonly Tenant[]): Promise<TenantDetail[]> {
  const slugs = tenants.map(({ slug }) => slug)
  const usages = await tenantsUsage(pool, slugs)
  const stored = await storagesOf(pool, slugs, slugs.map(catalogName))
  return tenants.map((tenant) => {
    const storageBytes = tenant.status === 'active' ? (stored.get(tenant.slug)?.bytes ?? 0) : 0
    return { tenant, usage: { ...(usages.get(tenant.slug) as TenantUsage), storageBytes } }
  })
}

export interface TenantDetail {
  readonly tenant: Tenant
  readonly usage: TenantUsage & { readonly storageBytes: number }
}

/** For all of the tenant's products together: none of them is written by others after that. */
const WRITERS_MS = 20_000

/**
 * Stops writers, removes every copy, then the keys. Repeatable after a failure.
 * @param abandon types of endpoints whose rows may stay where their plugin is not loaded
 * Throws CONFIG `store_missing`.
 */
export async function removeTenant(
  platform: TenantsDeps,
  call: AuthenticatedCall,
  slug: string,
  confirm: string | undefined,
  abandon: readonly string[] = [],
): Promise<void> {
  if (!(await findTenant(platform.pool, slug))) throw notFound('tenant')
  if (confirm !== slug) {
    throw new SluiceError('INVALID_DATA', 'deleting a tenant has to be confirmed', {
      code: 'confirmation_missing',
      remedy: `Send ?confirm=${slug}.`,
    })
  }
  const abandoned = await requireReachable({ tenant: slug, productId: null }, abandon, platform)
  await setTenantStatus(platform.pool, slug, 'deprovisioning')
  await platform.pool.query(
    'update product_fences set token = token + 1 where product_id in (select id from products where tenant = $1)',
    [slug],
  )
  await platform.pool.query(
    "update runs set cancel_requested = true where tenant = $1 and state in ('queued', 'running')",
    [slug],
  )
  await endpointsLeaving(platform.pool, slug, null)
  const untilMs = performance.now() + WRITERS_MS
  for (const { id } of await deployedProducts(platform.pool, slug)) {
    await afterWriters(platform.pool, id, untilMs - performance.now(), call.signal, async () => undefined)
  }
  const open: Parameters<typeof releaseOfTenant>[2] = (connection, settings) => openWith(platform, connection, settings)
  const keptAtSources = await releaseOfTenant(platform, slug, open, call.signal)
  await dropTenantCopies(slug, platform)
  await platform.catalogLogins.revoke(slug)
  await platform.lake.drop(slug)
  await platform.bus?.drop(busTenant(slug))
  await inTransaction(platform.pool, async (tx) => {
    await forgetTenant(tx, slug)
    await audited(tx, call, slug, 'tenant.delete', { type: 'tenant', id: slug }, { abandoned, keptAtSources })
  })
  await destroyTenantKeys(platform.pool, slug)
  platform.served.drop(slug)
}

/** All that the registry has of it but its audit log and its keys. */
export async function forgetTenant(tx: Transaction, slug: string): Promise<void> {
  await lockForRemoval(tx, slug)
  await dropTopics(tx, slug)
  await deleteTenant(tx, slug)
}

/**
 * What the tenant may still store. Throws QUOTA `tier_limit_exceeded` where that is nothing, and so does who writes more than that: the run
 * fails, and nothing that is there is lost.
 */
export async function checkStorage(platform: TenantsDeps, slug: string): Promise<StorageRoom> {
  const stored = (await storagesOf(platform.pool, [slug], [catalogName(slug)])).get(slug)
  if (stored === undefined) throw notFound('tenant')
  const limit = TIER_LIMITS[stored.tier].storageBytes
  const exceeded = () => storageExceeded(stored.tier, limit)
  if (stored.bytes >= limit) throw exceeded()
  return { bytes: limit - stored.bytes, exceeded }
}

/** How much is in use is for who may read it all. */
function storageExceeded(tier: Tier, limit: number): SluiceError {
  return new SluiceError('QUOTA', `the tier "${tier}" allows ${limit} bytes of storage, and that is not enough`, {
    code: 'tier_limit_exceeded',
    remedy: 'Remove products, snapshots or exports, or ask an administrator for a higher tier.',
    details: { limit },
  })
}

export const isConflict = (error: unknown): boolean => isSluiceError(error, 'CONFLICT')
