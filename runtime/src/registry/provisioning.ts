/**
 * Who may provision a tenant, or undo that: one owner at a time, by a lease that the database's clock ends. What an owner
 * does after it lost its lease is refused, so nobody cleans up after the living, and the dead leave nothing for good.
 */
import { randomUUID } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { change, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { createTenant, type TenantStatus } from './tenants.ts'

export interface ProvisioningLease {
  readonly slug: string
  readonly owner: string
}

/** Renewed three times as often, so only what has ended or stands still loses it. */
export const PROVISIONING_LEASE_MS = 60_000

const UNTIL = `clock_timestamp() + make_interval(secs => ${PROVISIONING_LEASE_MS / 1000})`
/** A release without leases made the tenant where there is none: it had as long as its requests may take. */
const HAS_ENDED = `coalesce(provisioning_until, updated_at + interval '10 minutes') <= clock_timestamp()`
const HELD = `slug = $1 and provisioning_owner = $2 and status = 'provisioning'`

/**
 * Makes the tenant, in status `provisioning`, and the caller its owner; or the owner of one whose provisioning has failed
 * or was abandoned. Throws CONFLICT `tenant_exists`, also while somebody else provisions it, and CONFIG `walls_missing`
 * where there are as many as there may be.
 */
export async function beginProvisioning(
  pool: pg.Pool,
  tenant: Parameters<typeof createTenant>[1],
  mostTenants: number | null = null,
): Promise<ProvisioningLease> {
  const owner = randomUUID()
  return inTransaction(pool, async (tx) => {
    if (mostTenants !== null) await checkRoom(tx, tenant.slug, mostTenants)
    const again = await change(
      tx,
      'creating the tenant',
      `update tenants set status = 'provisioning', display_name = $2, tier = $3, updated_at = now(),
         provisioning_owner = $4, provisioning_until = ${UNTIL}
       where slug = $1 and (status = 'failed' or status = 'provisioning' and ${HAS_ENDED})`,
      [tenant.slug, tenant.displayName, tenant.tier, owner],
    )
    if (again === 0) {
      await createTenant(tx, tenant)
      await change(
        tx,
        'creating the tenant',
        `update tenants set provisioning_owner = $2, provisioning_until = ${UNTIL} where slug = $1`,
        [tenant.slug, owner],
      )
    }
    return { slug: tenant.slug, owner }
  })
}

/** Of several at once one comes first. */
async function checkRoom(tx: Transaction, slug: string, mostTenants: number): Promise<void> {
  await change(tx, 'counting tenants', 'lock table tenants in share row exclusive mode', [])
  if ((await tenantsBeside(tx, slug)) < mostTenants) return
  throw new SluiceError('CONFIG', 'this machine lacks walls between tenants, and has one tenant already', {
    code: 'walls_missing',
    remedy: 'Use a kernel with Landlock and seccomp, or set walls: not_required where all tenants trust each other.',
  })
}

/** How many there are, in whatever state, beside the one of that slug. */
export async function tenantsBeside(db: Queryable, slug: string): Promise<number> {
  const { count } = await one<{ count: number }>(
    db,
    'counting tenants',
    'select count(*)::integer as count from tenants where slug <> $1',
    [slug],
  )
  return count
}

/** A tenant whose owner has died, now the caller's to undo; null where there is none, or none but those. */
export async function takeAbandoned(db: Queryable, except: readonly string[]): Promise<ProvisioningLease | null> {
  const owner = randomUUID()
  const row = await maybeOne<{ slug: string }>(
    db,
    'looking for abandoned tenants',
    `update tenants set provisioning_owner = $1, provisioning_until = ${UNTIL} where slug = (
       select slug from tenants where status = 'provisioning' and ${HAS_ENDED} and slug <> all ($2)
       order by slug limit 1 for update skip locked) returning slug`,
    [owner, except],
  )
  return row && { slug: row.slug, owner }
}

/** For a registry that no other process works on: no lease of a former one is worth waiting for. */
export async function endProvisioningLeases(db: Queryable): Promise<void> {
  await change(
    db,
    'ending leases',
    `update tenants set provisioning_until = '-infinity' where status = 'provisioning'`,
    [],
  )
}

/**
 * Throws CONFLICT `tenant_status_conflict` where the lease was lost. In a transaction, the tenant stays the caller's until
 * that ends.
 */
export async function renewProvisioning(db: Queryable, lease: ProvisioningLease): Promise<void> {
  const statement = `update tenants set provisioning_until = ${UNTIL} where ${HELD}`
  if ((await change(db, 'renewing the lease', statement, [lease.slug, lease.owner])) === 0) throw lost()
}

/**
 * Ends the provisioning, or its undoing, as the caller has to; in status `provisioning` it is abandoned, for whoever
 * comes next. Throws CONFLICT `tenant_status_conflict` where the lease was lost.
 */
export async function endProvisioning(
  db: Queryable,
  lease: ProvisioningLease,
  status: Extract<TenantStatus, 'active' | 'failed' | 'provisioning'>,
): Promise<void> {
  const ended = await change(
    db,
    'changing the tenant',
    `update tenants set updated_at = now(), provisioning_owner = null, provisioning_disturbed = false,
       (status, provisioning_until) = (select case when again then 'provisioning' else $3 end,
         case when again then '-infinity'::timestamptz end
         from (select $3 = 'provisioning' or $3 = 'failed' and provisioning_disturbed as again) wanted)
     where ${HELD}`,
    [lease.slug, lease.owner, status],
  )
  if (ended === 0) throw lost()
}

/**
 * For an owner that lost its lease and may have made something since: what was undone is undone once more. False where
 * the tenant is gone for good, or going, so that nobody else does.
 */
export async function disturbProvisioning(db: Queryable, slug: string): Promise<boolean> {
  const disturbed = await change(
    db,
    'changing the tenant',
    `update tenants set
       provisioning_disturbed = status = 'provisioning',
       provisioning_until = case status when 'failed' then '-infinity' else provisioning_until end,
       status = case status when 'failed' then 'provisioning' else status end
     where slug = $1 and status <> 'deprovisioning'`,
    [slug],
  )
  return disturbed > 0
}

function lost(): SluiceError {
  return new SluiceError('CONFLICT', 'somebody else has taken over the tenant, or removes it', {
    code: 'tenant_status_conflict',
    remedy: 'Read the tenant and try again.',
  })
}
