/** Tenants, their slugs for ever, and the limits of their tier. */
import { SluiceError } from '@sluice/sdk'
import { isUniqueViolation } from '../database/errors.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { TIER_LIMITS, type Tier, type TierLimits } from './tiers.ts'

export const TENANT_STATUSES = ['provisioning', 'active', 'failed', 'deprovisioning'] as const

export type TenantStatus = (typeof TENANT_STATUSES)[number]

export interface Tenant {
  readonly slug: string
  readonly displayName: string
  readonly tier: Tier
  readonly status: TenantStatus
  /** What was provisioned, by kind: schema, bucket, topics, catalog, destination. */
  readonly resources: Readonly<Record<string, unknown>>
  readonly provisionedInMs: number | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

const COLUMNS = `slug, display_name as "displayName", tier, status, resources,
  provisioned_in_ms as "provisionedInMs", created_at as "createdAt", updated_at as "updatedAt"`

/**
 * Takes the slug for good and makes the tenant, in status `provisioning`. Throws CONFLICT `tenant_exists` for a slug
 * that is, or ever was, a tenant's.
 */
export async function createTenant(
  tx: Transaction,
  tenant: { readonly slug: string; readonly displayName: string; readonly tier: Tier },
): Promise<Tenant> {
  try {
    await change(tx, 'taking the slug', 'insert into tenant_slugs (slug) values ($1)', [tenant.slug])
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new SluiceError('CONFLICT', 'the slug is, or was, that of a tenant', {
      code: 'tenant_exists',
      remedy: 'Choose another slug; slugs are never used again.',
      details: { slug: tenant.slug },
      cause: error,
    })
  }
  const created = await one<Tenant>(
    tx,
    'creating the tenant',
    `insert into tenants (slug, display_name, tier) values ($1, $2, $3) returning ${COLUMNS}`,
    [tenant.slug, tenant.displayName, tenant.tier],
  )
  await change(tx, 'creating the tenant', 'insert into policy_versions (tenant) values ($1)', [tenant.slug])
  return created
}

/** False for a registry in which nobody has ever made a tenant. */
export async function hasHadTenants(db: Queryable): Promise<boolean> {
  const { had } = await one<{ had: boolean }>(
    db,
    'looking for tenants',
    'select exists (select from tenant_slugs) as had',
    [],
  )
  return had
}

export function findTenant(db: Queryable, slug: string): Promise<Tenant | null> {
  return maybeOne<Tenant>(db, 'reading the tenant', `select ${COLUMNS} from tenants where slug = $1`, [slug])
}

interface Stored {
  readonly tier: Tier
  readonly bytes: number
}

/**
 * What tenants have in their lakes, and of exports: files that lie there, those that are written now, are kept, or wait to be
 * swept. By slug, of those that there are.
 * @param catalogs what each one's tables of the lake are kept under
 */
export async function storagesOf(
  db: Queryable,
  slugs: readonly string[],
  catalogs: readonly string[],
): Promise<ReadonlyMap<string, Stored>> {
  const found = await many<Stored & { readonly slug: string }>(
    db,
    'counting what is stored',
    `select slug, tier, ((select coalesce(sum(stored_bytes), 0) from lake_storage where catalog_name = asked.catalog)
       + (select coalesce(sum(bytes), 0) from exports where tenant = slug))::bigint as bytes
     from unnest($1::text[], $2::text[]) as asked (tenant_slug, catalog) join tenants on slug = tenant_slug`,
    [slugs, catalogs],
  )
  return new Map(found.map(({ slug, ...stored }) => [slug, stored]))
}

/** Which of these are served now. */
export async function servedTenants(db: Queryable, slugs: readonly string[]): Promise<ReadonlySet<string>> {
  const statement = "select slug from tenants where slug = any($1) and status = 'active'"
  const rows = await many<{ readonly slug: string }>(db, 'looking tenants up', statement, [slugs])
  return new Set(rows.map(({ slug }) => slug))
}

export async function listTenants(db: Queryable, page: PageRequest): Promise<Page<Tenant>> {
  const parameters = pageParameters(page)
  const rows = await many<Tenant>(
    db,
    'listing tenants',
    `select ${COLUMNS} from tenants where $2::timestamptz is null or (created_at, slug) < ($2, $3)
     order by created_at desc, slug desc limit $1`,
    parameters,
  )
  return toPage(rows, parameters, ({ createdAt, slug }) => ({ createdAt, id: slug }))
}

export interface TenantChange {
  readonly displayName?: string
  readonly tier?: Tier
  readonly resources?: Readonly<Record<string, unknown>>
  readonly provisionedInMs?: number
}

/** Null where there is no such tenant. */
export function updateTenant(db: Queryable, slug: string, update: TenantChange): Promise<Tenant | null> {
  return maybeOne<Tenant>(
    db,
    'changing the tenant',
    `update tenants set display_name = coalesce($2, display_name), tier = coalesce($3, tier),
       resources = coalesce($4, resources), provisioned_in_ms = coalesce($5, provisioned_in_ms), updated_at = now()
     where slug = $1 returning ${COLUMNS}`,
    [slug, update.displayName ?? null, update.tier ?? null, json(update.resources), update.provisionedInMs ?? null],
  )
}

const TRANSITIONS: Readonly<Record<TenantStatus, readonly TenantStatus[]>> = {
  provisioning: ['active', 'failed', 'deprovisioning'],
  active: ['deprovisioning'],
  failed: ['provisioning', 'deprovisioning'],
  deprovisioning: [],
}

/**
 * Throws CONFLICT where the tenant is not in a status from which that one can be reached, or somebody is provisioning it
 * at this moment.
 */
export async function setTenantStatus(db: Queryable, slug: string, status: TenantStatus): Promise<Tenant> {
  const from = TENANT_STATUSES.filter((known) => known === status || TRANSITIONS[known].includes(status))
  const tenant = await maybeOne<Tenant>(
    db,
    'changing the tenant',
    `update tenants set status = $2, updated_at = now() where slug = $1 and status = any($3)
       and not (status = 'provisioning' and coalesce(provisioning_until > clock_timestamp(), false))
     returning ${COLUMNS}`,
    [slug, status, from],
  )
  if (tenant) return tenant
  throw new SluiceError('CONFLICT', `the tenant cannot become ${status} now`, {
    code: 'tenant_status_conflict',
    remedy: 'Read the tenant and try again.',
  })
}

/**
 * Removes the tenant and everything of it in the registry but its audit log and its keys: see `destroyTenantKeys`. The
 * slug stays taken. Repeatable.
 */
export async function deleteTenant(tx: Transaction, slug: string): Promise<void> {
  await change(tx, 'removing the tenant', 'delete from tenants where slug = $1', [slug])
  await change(
    tx,
    'removing the tenant',
    'update tenant_slugs set released_at = coalesce(released_at, now()) where slug = $1',
    [slug],
  )
}

export interface TenantUsage {
  readonly products: number
  readonly connections: number
  readonly runningRuns: number
}

export async function tenantUsage(db: Queryable, slug: string): Promise<TenantUsage> {
  return (await tenantsUsage(db, [slug])).get(slug) as TenantUsage
}

/** Of each, by its slug. */
export async function tenantsUsage(db: Queryable, slugs: readonly string[]): Promise<ReadonlyMap<string, TenantUsage>> {
  const found = await many<TenantUsage & { readonly slug: string }>(
    db,
    'counting what tenants use',
    `select slug, (select count(*) from products where tenant = slug and status <> 'retired') as products,
       (select count(*) from connections where tenant = slug) as connections,
       (select count(*) from runs where tenant = slug and state = 'running') as "runningRuns"
     from unnest($1::text[]) as asked (slug)`,
    [slugs],
  )
  return new Map(found.map(({ slug, ...usage }) => [slug, usage]))
}

/**
 * Locks the tenant until the transaction ends, and throws QUOTA `tier_limit_exceeded` where one more would be too many.
 * Whoever counts next sees what this transaction has added.
 */
export async function reserveRoom(tx: Transaction, slug: string, what: 'products' | 'connections'): Promise<void> {
  const { tier } = await lockActiveTenant(tx, slug)
  const limit = TIER_LIMITS[tier][what]
  if (limit === null) return
  const used = (await tenantUsage(tx, slug))[what]
  if (used < limit) return
  throw new SluiceError('QUOTA', `the tier "${tier}" allows ${limit} ${what}, and ${used} are in use`, {
    code: 'tier_limit_exceeded',
    remedy: `Remove one of the ${what}, or ask an administrator for a higher tier.`,
    details: { limit, used, tier },
  })
}

/** For changes that need the tenant to be there and to stay. Others that only refer to it are not held up. */
export async function lockActiveTenant(
  tx: Transaction,
  slug: string,
): Promise<{ readonly tier: Tier; readonly limits: TierLimits }> {
  const tenant = await maybeOne<{ tier: Tier; status: TenantStatus }>(
    tx,
    'locking the tenant',
    'select tier, status from tenants where slug = $1 for no key update',
    [slug],
  )
  if (tenant?.status === 'active') return { tier: tenant.tier, limits: TIER_LIMITS[tenant.tier] }
  throw new SluiceError('CONFLICT', 'the tenant is not active', {
    code: 'tenant_not_active',
    remedy: 'Wait until the tenant is provisioned, or ask an administrator.',
  })
}

/**
 * Whether another tenant's members log in as the tenant's cleared readers do: with `User:{tenant}-cleared`, those of
 * `acme-cleared` as `acme`'s. No such tenant is made any more; there may be one from before.
 */
export async function isClearedLoginTaken(
  db: Queryable,
  tenant: string,
  { reader, cleared }: { readonly reader: string; readonly cleared: string },
): Promise<boolean> {
  const found = await maybeOne<{ slug: string }>(
    db,
    'looking for a login',
    `select slug from tenants
     where slug <> $1 and replace($2, '{tenant}', slug) = replace($3, '{tenant}', $1) limit 1`,
    [tenant, reader, cleared],
  )
  return found !== null
}
