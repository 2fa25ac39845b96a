/** What is known of products' dashboards, and whose turn it is to see to them. */
import type { RecordedError } from '../registry/deployments.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from '../registry/sql.ts'

/** A variant that the dashboard server may have, and the roles that may read it there. */
export interface AppliedVariant {
  readonly variant: string
  readonly roles: readonly string[]
}

export interface DashboardState {
  readonly productId: string
  readonly tenant: string
  readonly state: 'pending' | 'ok' | 'failed'
  readonly digest: string | null
  readonly applied: readonly AppliedVariant[]
  readonly error: RecordedError | null
  /** Failures since the last success. */
  readonly attempts: number
  readonly updatedAt: Date
}

/** A product whose dashboards one process sees to for the length of a lease. */
export interface ClaimedDashboards extends DashboardState {
  readonly wish: number
  /** The tenant's, read before the product is: what changes meanwhile is seen the next time. */
  readonly currentPolicy: number
}

const COLUMNS = `d.product_id as "productId", d.tenant, d.state, d.digest, d.applied, d.error, d.attempts,
  d.updated_at as "updatedAt"`

/**
 * The product, its version in service or its rows have changed, or it is gone: its dashboards are seen to again. With the
 * caller's transaction, so that no change is forgotten. Nothing happens for products that never had dashboards. `anew`
 * repeats what seems to be done already, for what somebody changed in the dashboard server itself.
 */
export async function wishDashboards(tx: Transaction, productId: string, options: { readonly anew?: boolean } = {}) {
  await change(
    tx,
    'noting dashboards',
    `insert into product_dashboards (product_id, tenant)
     select p.id, p.tenant from products p
     join product_versions v on v.product_id = p.id and v.version = p.current_version
     where p.id = $1 and p.preview_of is null and v.normalised #>> '{serving,visualization,enabled}' = 'true'
     on conflict (product_id) do nothing`,
    [productId],
  )
  await change(
    tx,
    'noting dashboards',
    `update product_dashboards set state = 'pending', error = null, attempts = 0, next_retry_at = clock_timestamp(),
       wish = wish + 1, digest = case when $2 then null else digest end, updated_at = now() where product_id = $1`,
    [productId, options.anew ?? false],
  )
}

/** All dashboards are seen to again: what else than the registry they are made by, the configuration, may be another. */
export async function reviewDashboards(db: Queryable) {
  await change(db, 'reviewing dashboards', 'update product_dashboards set policy_version = -1')
}

export function dashboardState(db: Queryable, productId: string): Promise<DashboardState | null> {
  const statement = `select ${COLUMNS} from product_dashboards d where product_id = $1`
  return maybeOne<DashboardState>(db, 'reading the state of dashboards', statement, [productId])
}

/** The kind of the jobs that see to dashboards; their key is the product. */
export const DASHBOARDS_JOB = 'dashboards'

/** Changed, or with a retry that is due, or made by another policy than the tenant's is now. Of `c` and `p`. */
const IS_DUE = `(c.next_retry_at <= clock_timestamp() or c.state = 'ok')
  and (c.state <> 'ok' or c.policy_version <> coalesce(p.version, 0))`

/**
 * Of each tenant the product that is to be seen to and has waited longest; none of tenants of which one is being seen to,
 * or is about to be, and none whose job waits.
 */
export function dashboardsDue(
  db: Queryable,
  limit: number,
): Promise<{ readonly productId: string; readonly tenant: string }[]> {
  return many(
    db,
    'looking for dashboards',
    `select distinct on (c.tenant) c.product_id as "productId", c.tenant from product_dashboards c
       left join policy_versions p on p.tenant = c.tenant
     where ${IS_DUE} and not exists (
       select from product_dashboards other where other.tenant = c.tenant and other.lease_until > clock_timestamp()
     ) and not exists (
       select from jobs j where j.kind = $2 and j.tenant = c.tenant and (
         j.lease_until is not null or j.due_at <= clock_timestamp() or j.key = c.product_id and j.due_at is not null)
     )
     order by c.tenant, c.next_retry_at limit $1`,
    [limit, DASHBOARDS_JOB],
  )
}

/**
 * Takes the product where its turn has come; null where it has not, or where one of the tenant is being seen to. One of a
 * tenant at a time, because products share the roles of their tenant; also beside releases that have no jobs for it.
 */
export async function claimDashboards(
  tx: Transaction,
  productId: string,
  leaseMs: number,
): Promise<ClaimedDashboards | null> {
  await change(tx, 'claiming dashboards', 'lock table product_dashboards in share update exclusive mode')
  return maybeOne<ClaimedDashboards>(
    tx,
    'claiming dashboards',
    `update product_dashboards d
     set lease_until = clock_timestamp() + make_interval(secs => $1::float8 / 1000)
     from (
       select c.product_id, coalesce(p.version, 0) as version from product_dashboards c
       left join policy_versions p on p.tenant = c.tenant
       where c.product_id = $2 and ${IS_DUE} and not exists (
         select from product_dashboards other
         where other.tenant = c.tenant and other.lease_until > clock_timestamp()
       )
     ) due
     where d.product_id = due.product_id
     returning ${COLUMNS}, d.wish, due.version as "currentPolicy"`,
    [leaseMs, productId],
  )
}

/** Before anything is changed outside: what may be there from now on. */
export async function intendDashboards(db: Queryable, productId: string, applied: readonly AppliedVariant[]) {
  const statement = `update product_dashboards set applied = $2, digest = null, state = 'pending' where product_id = $1`
  await change(db, 'recording dashboards', statement, [productId, json(applied)])
}

export interface FinishedDashboards {
  readonly digest: string
  readonly applied: readonly AppliedVariant[]
  /** Not all of it could be made yet: looked at again after so many milliseconds. */
  readonly againMs: number | null
}

export async function finishDashboards(db: Queryable, claimed: ClaimedDashboards, done: FinishedDashboards) {
  await change(
    db,
    'recording dashboards',
    `update product_dashboards set lease_until = null, digest = case when wish = $2 then $3 end, applied = $4,
       policy_version = $5, attempts = 0, updated_at = now(),
       error = null,
       state = case when wish = $2 and $6::float8 is null then 'ok' else 'pending' end,
       next_retry_at = case when wish = $2 then clock_timestamp() + make_interval(secs => coalesce($6::float8, 0) / 1000)
         else next_retry_at end
     where product_id = $1`,
    [claimed.productId, claimed.wish, done.digest, json(done.applied), claimed.currentPolicy, done.againMs],
  )
}

export async function failDashboards(db: Queryable, claimed: ClaimedDashboards, error: RecordedError, retryMs: number) {
  await change(
    db,
    'recording dashboards',
    `update product_dashboards set lease_until = null, attempts = attempts + 1, updated_at = now(),
       state = case when wish = $2 then 'failed' else 'pending' end, error = case when wish = $2 then $3::jsonb end,
       next_retry_at = case when wish = $2 then clock_timestamp() + make_interval(secs => $4::float8 / 1000)
         else next_retry_at end
     where product_id = $1`,
    [claimed.productId, claimed.wish, json(error), retryMs],
  )
}

/** Given up by its process without an outcome: whose turn it is may take it at once. */
export async function releaseDashboards(db: Queryable, productId: string): Promise<void> {
  const statement = 'update product_dashboards set lease_until = null where product_id = $1'
  await change(db, 'recording dashboards', statement, [productId])
}

/** Nothing of the product is left. Kept where somebody has wished for it meanwhile. */
export async function forgetDashboards(db: Queryable, claimed: ClaimedDashboards): Promise<void> {
  await change(db, 'forgetting dashboards', 'delete from product_dashboards where product_id = $1 and wish = $2', [
    claimed.productId,
    claimed.wish,
  ])
}
