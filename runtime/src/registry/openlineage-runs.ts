/**
 * What an OpenLineage endpoint is to be told: of each run and product that it began, and how it ended. A row goes when its
 * end has been told. That a run has begun is noted before its work, its epoch in the transaction of the commit, and every
 * other end by looking at runs that have ended: so none is missed, whoever dies when.
 */
import type { RecordedError } from './deployments.ts'
import type { RunState } from './runs.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

/** The kind of the jobs that tell it, each under its tenant. */
export const OPENLINEAGE_JOB = 'openlineage'

export type RunEnd = 'COMPLETE' | 'FAIL' | 'ABORT'

/** A run, and one of the products that it makes. */
export interface ProductRun {
  readonly tenant: string
  readonly productId: string
  readonly runId: string
}

export interface NamedProductRun extends ProductRun {
  /** `namespace.name` */
  readonly product: string
}

/** Repeatable: the first call says when it began. Of a run that has ended, by whoever lost it, nothing is noted. */
export async function noteBegun(
  db: Queryable,
  { tenant, runId, productId, product }: NamedProductRun,
  version: string | null,
): Promise<void> {
  await change(
    db,
    'noting a run for OpenLineage',
    `insert into openlineage_runs as o (tenant, run_id, product_id, product, version)
     select $1, $2, $3, $4, $5 where exists (select from runs where id = $2 and state = 'running')
     on conflict (run_id, product_id) do update set version = coalesce(excluded.version, o.version) where o.ended is null`,
    [tenant, runId, productId, product, version],
  )
  await askToTell(db, tenant)
}

/** In the transaction that commits the epoch. */
export async function noteCommitted(
  tx: Transaction,
  { tenant, runId, productId, product }: NamedProductRun,
  made: { readonly version: string; readonly committedAt: Date },
): Promise<void> {
  await change(
    tx,
    'noting an epoch for OpenLineage',
    `insert into openlineage_runs (tenant, run_id, product_id, product, version, ended, ended_at, begun_at)
     values ($1, $2, $3, $4, $5, 'COMPLETE', $6, least(clock_timestamp(), $6))
     on conflict (run_id, product_id) do update set version = excluded.version, ended = excluded.ended,
       ended_at = excluded.ended_at`,
    [tenant, runId, productId, product, made.version, made.committedAt],
  )
  await askToTell(tx, tenant)
}

/** Soon; later where the endpoint does not answer. */
export async function askToTell(db: Queryable, tenant: string): Promise<void> {
  await change(
    db,
    'asking for OpenLineage events',
    `insert into jobs as j (kind, key, tenant, due_at) values ($1, $2, $2, clock_timestamp())
     on conflict (kind, key) do update set due_at = least(j.due_at, excluded.due_at) where j.attempts = 0`,
    [OPENLINEAGE_JOB, tenant],
  )
}

/** A run that has ended, and of whose product no end is noted yet. */
export interface UnendedRun extends ProductRun {
  readonly isOfProduct: boolean
  /** Null: the run is not kept any more. */
  readonly state: RunState | null
  readonly error: RecordedError | null
  readonly result: Readonly<Record<string, unknown>> | null
  readonly finishedAt: Date | null
}

export function unendedRuns(db: Queryable, tenant: string, limit: number): Promise<UnendedRun[]> {
  return many<UnendedRun>(
    db,
    'looking for runs that have ended',
    `select o.tenant, o.run_id as "runId", o.product_id as "productId", r.state, r.error, r.result,
       r.finished_at as "finishedAt", coalesce(r.product_id = o.product_id, false) as "isOfProduct"
     from openlineage_runs o left join runs r on r.id = o.run_id
     where o.tenant = $1 and o.ended is null and (r.id is null or r.state in ('succeeded', 'failed', 'cancelled'))
     order by o.position limit $2`,
    [tenant, limit],
  )
}

export async function noteEnded(
  db: Queryable,
  { runId, productId, finishedAt }: Pick<UnendedRun, 'runId' | 'productId' | 'finishedAt'>,
  end: { readonly ended: RunEnd; readonly error: RecordedError | null },
): Promise<void> {
  await change(
    db,
    'noting the end of a run for OpenLineage',
    `update openlineage_runs set ended = $3, error = $4, ended_at = greatest(begun_at, coalesce($5, clock_timestamp()))
     where run_id = $1 and product_id = $2 and ended is null`,
    [runId, productId, end.ended, json(end.error), finishedAt],
  )
}

export interface WaitingRun extends NamedProductRun {
  readonly version: string | null
  readonly begunAt: Date
  /** False: that it began waits to be told. Else it is its end. */
  readonly isBeginTold: boolean
  readonly ended: RunEnd | null
  readonly endedAt: Date | null
  readonly error: RecordedError | null
  readonly refusals: number
}

/** The oldest of the tenant of which something is to be told; null: none. */
export function nextWaiting(db: Queryable, tenant: string): Promise<WaitingRun | null> {
  return maybeOne<WaitingRun>(
    db,
    'reading what OpenLineage is to be told',
    `select tenant, run_id as "runId", product_id as "productId", product, version, begun_at as "begunAt",
       begin_told_at is not null as "isBeginTold", ended, ended_at as "endedAt", error, refusals
     from openlineage_runs where tenant = $1 and (begin_told_at is null or ended is not null) order by position limit 1`,
    [tenant],
  )
}

/** Of its beginning or, where that was told before, of its end: then the row goes. */
export async function noteTold(db: Queryable, { runId, productId, isBeginTold }: WaitingRun): Promise<void> {
  const statement = isBeginTold
    ? 'delete from openlineage_runs where run_id = $1 and product_id = $2'
    : 'update openlineage_runs set begin_told_at = clock_timestamp(), refusals = 0 where run_id = $1 and product_id = $2'
  await change(db, 'noting what OpenLineage was told', statement, [runId, productId])
}

export async function noteRefused(db: Queryable, { runId, productId }: ProductRun): Promise<void> {
  const statement = 'update openlineage_runs set refusals = refusals + 1 where run_id = $1 and product_id = $2'
  await change(db, 'noting what OpenLineage refused', statement, [runId, productId])
}

/** Removes runs of which something has waited for too long, and the oldest of too many. Returns how many of each. */
export async function dropWaiting(
  db: Queryable,
  tenant: string,
  { hours, most }: { readonly hours: number; readonly most: number },
): Promise<{ readonly tooOld: number; readonly tooMany: number }> {
  const waiting = 'tenant = $1 and (begin_told_at is null or ended is not null)'
  const tooOld = await change(
    db,
    'removing what OpenLineage was not told',
    `delete from openlineage_runs where ${waiting} and coalesce(ended_at, begun_at) < clock_timestamp() - make_interval(hours => $2)`,
    [tenant, hours],
  )
  const tooMany = await change(
    db,
    'removing what OpenLineage was not told',
    `delete from openlineage_runs where position in (
       select position from openlineage_runs where ${waiting} order by position desc offset $2) and tenant = $1`,
    [tenant, most],
  )
  return { tooOld, tooMany }
}

/** Tenants of which something is to be told, or a run has ended whose end is not noted. */
export async function tenantsToTell(db: Queryable): Promise<readonly string[]> {
  const rows = await many<{ readonly tenant: string }>(
    db,
    'looking for what OpenLineage is to be told',
    `select distinct o.tenant from openlineage_runs o left join runs r on r.id = o.run_id
     where o.begin_told_at is null or o.ended is not null or r.id is null or r.state in ('succeeded', 'failed', 'cancelled')`,
  )
  return rows.map(({ tenant }) => tenant)
}

/** Nobody is to be told any more. */
export async function forgetOpenLineage(db: Queryable): Promise<void> {
  await change(db, 'forgetting OpenLineage', 'delete from openlineage_runs')
  await change(db, 'forgetting OpenLineage', 'delete from jobs where kind = $1 and lease_until is null', [
    OPENLINEAGE_JOB,
  ])
}

export interface OpenLineageLoad {
  /** Runs of which something is to be told. */
  readonly waiting: number
  /** Seconds that the oldest of it has waited; 0: nothing waits. */
  readonly lagSeconds: number
}

export async function openLineageLoad(db: Queryable): Promise<OpenLineageLoad> {
  const found = await maybeOne<OpenLineageLoad>(
    db,
    'reading what waits for OpenLineage',
    `select count(*)::float8 as waiting,
       coalesce(greatest(0, extract(epoch from clock_timestamp() - min(case when begin_told_at is null then begun_at else ended_at end))), 0)::float8
         as "lagSeconds"
     from openlineage_runs where begin_told_at is null or ended is not null`,
  )
  return found ?? { waiting: 0, lagSeconds: 0 }
}

/** Of a version the columns' origins, as it was judged; null where they were not kept. */
export async function originsOfVersion<Origin>(
  db: Queryable,
  productId: string,
  version: string,
): Promise<readonly Origin[] | null> {
  const statement = 'select origins from product_versions where product_id = $1 and version = $2'
  return (
    (await maybeOne<{ origins: readonly Origin[] | null }>(db, 'reading lineage', statement, [productId, version]))
      ?.origins ?? null
  )
}
