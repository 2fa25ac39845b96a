/**
 * How workers take runs: by a lease that the database's clock ends. Each claim raises the run's token, and the fence of
 * the product it works on, so that whatever a worker does after it lost its lease is refused (FENCED).
 *
 * Locks are always taken in the order tenant, fence, run: a worker commits by locking the fence first, too.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { isSerializationFailure } from '../database/errors.ts'
import { inTransaction } from '../database/pools.ts'
import type { RecordedError } from './deployments.ts'
import { fenced } from './fences.ts'
import { announceRuns, RUN_COLUMNS, type Run, type RunKind } from './runs.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'
import { withTenant } from './tenant-first.ts'
import { TIER_LIMITS } from './tiers.ts'

/** The right to work on a run, until somebody else takes it. */
export interface RunLease {
  readonly runId: string
  readonly tenant: string
  readonly token: bigint
  /** The token of the product's fence; null of a run that raises it for each product that it makes: an ingestion, or what it has left. */
  readonly productToken: bigint | null
}

export interface ClaimedRun {
  readonly run: Run
  readonly lease: RunLease
}

export interface ClaimRequest {
  /** Names the worker in the registry, for people. */
  readonly workerId: string
  /** How long the lease lasts unless it is renewed. */
  readonly leaseMs: number
  /** Default: every kind. */
  readonly kinds?: readonly RunKind[]
  /** By kind the tenants that get no more of it now. Default: none. */
  readonly except?: Readonly<Partial<Record<RunKind, readonly string[]>>>
  /** Tenants that get no more runs now that a wave has left products to. Default: none. */
  readonly exceptLeft?: readonly string[]
}

/** Names this use of advisory locks; the second key is the tenant's hash. */
const CLAIM_LOCK = 730_510
const MAX_TENANTS = 50
const MAX_CANDIDATES = 20
const CLAIM_RETRIES = 3

const CONCURRENCY = JSON.stringify(
  Object.fromEntries(Object.entries(TIER_LIMITS).map(([tier, limits]) => [tier, limits.concurrentExecutions])),
)

/**
 * A run to work on, or null where there is none now. The tenant that has the fewest running comes first, of several the
 * one that has waited longest; in a tenant runs whose lease has ended, then the longest waiting. A tenant has at most as
 * many running of each kind as its tier allows, and begins none when it has used its CPU time; a connection or product has at most one.
 */
export async function claimRun(pool: pg.Pool, request: ClaimRequest, signal?: AbortSignal): Promise<ClaimedRun | null> {
  const options = signal ? { signal } : {}
  for (let attempt = 0; ; attempt++) {
    signal?.throwIfAborted()
    // Mostly there is nothing, which takes no transaction to see.
    const tenants = await tenantsWithWork(pool, request)
    if (tenants.length === 0) return null
    try {
      return await inTransaction(pool, (tx) => claimIn(tx, tenants, request), options)
    } catch (error) {
      if (!isSerializationFailure(error) || attempt === CLAIM_RETRIES) throw error
      await sleep(10 * 2 ** attempt)
    }
  }
}

async function claimIn(tx: Transaction, tenants: readonly string[], request: ClaimRequest): Promise<ClaimedRun | null> {
  for (const tenant of tenants) {
    // One claim at a time counts a tenant's running runs; another tenant's work does not wait for it.
    if (!(await tryLockTenant(tx, tenant))) continue
    for (const candidate of await candidates(tx, tenant, request)) {
      const claimed = await take(tx, candidate, request)
      if (claimed !== null) return claimed
    }
  }
  return null
}

/** A run that may be begun now was written with its moment rounded to milliseconds, up as well as down. */
const CLAIMABLE = `(
  (state = 'queued' and available_at <= clock_timestamp()::timestamptz(3))
  or (state = 'running' and lease_until < clock_timestamp())
)`

/** What the running run `b` is counted among: an ingestion that has come to its transforms is one of these. */
const PLACE = 'coalesce(b.place, b.kind)'

/** Queued runs of a tenant that has used its CPU time wait until it may go on; what has begun is taken up again. */
const MAY_BEGIN = `(r.state = 'running' or not exists (
  select from cpu_budgets c where c.tenant = r.tenant and c.spent_until > clock_timestamp()))`

/** Waves leave slow products to it, and wait for no place that it has: a tenant keeps one for them, where it has two or more. */
const IS_LEFT = `r.input ? 'left'`
const mayBeginLeft = (parameter: string): string => `(not ${IS_LEFT} or (not r.tenant = any(${parameter}::text[])
  and not exists (select from runs b where b.product_id = r.product_id and b.state = 'running' and b.id <> r.id)))`

const notExcepted = (parameter: string): string => `not coalesce(${parameter}::jsonb -> r.kind ? r.tenant, false)`

async function tenantsWithWork(db: Queryable, request: ClaimRequest): Promise<readonly string[]> {
  const rows = await many<{ tenant: string }>(
    db,
    'looking for work',
    `select r.tenant from runs r join tenants t on t.slug = r.tenant
       cross join lateral (
         select count(*) as busy, count(*) filter (where ${PLACE} = 'ingestion') as ingestions,
           count(*) filter (where ${PLACE} = 'materialization') as materializations
         from runs b
         where b.tenant = r.tenant and b.state = 'running' and b.lease_until >= clock_timestamp()
       ) running
     where ${CLAIMABLE} and t.status = 'active' and ($1::text[] is null or r.kind = any($1)) and ${notExcepted('$3')}
       and ${MAY_BEGIN} and ${mayBeginLeft('$4')}
       and (r.state = 'running' or ($2::jsonb ->> t.tier)::int
         > case r.kind when 'ingestion' then running.ingestions else running.materializations end)
     group by r.tenant, running.busy
     order by running.busy, min(r.available_at) limit ${MAX_TENANTS}`,
    [request.kinds ?? null, CONCURRENCY, JSON.stringify(request.except ?? {}), request.exceptLeft ?? []],
  )
  return rows.map(({ tenant }) => tenant)
}

async function tryLockTenant(tx: Transaction, tenant: string): Promise<boolean> {
  const statement = 'select pg_try_advisory_xact_lock($1, hashtext($2)) as locked'
  return (await maybeOne<{ locked: boolean }>(tx, 'looking for work', statement, [CLAIM_LOCK, tenant]))?.locked ?? false
}

interface Candidate {
  readonly id: string
  readonly tenant: string
  readonly token: number
  readonly productId: string | null
  readonly isLeft: boolean
  readonly isExpired: boolean
  readonly cancelRequested: boolean
  readonly isExhausted: boolean
}

/** Under the tenant's lock, so that the counts stay true until the claim is committed. */
function candidates(tx: Transaction, tenant: string, request: ClaimRequest): Promise<Candidate[]> {
  return many<Candidate>(
    tx,
    'looking for work',
    `select r.id, r.tenant, r.token, r.product_id as "productId", ${IS_LEFT} as "isLeft", r.state = 'running' as "isExpired",
       r.cancel_requested as "cancelRequested", r.attempt >= r.max_attempts as "isExhausted"
     from runs r join tenants t on t.slug = r.tenant
     where r.tenant = $1 and ${CLAIMABLE} and t.status = 'active' and ($2::text[] is null or r.kind = any($2))
       and ${notExcepted('$4')} and ${MAY_BEGIN} and ${mayBeginLeft('$5')}
       and (r.state = 'running' or (
         (select count(*) from runs b where b.tenant = $1 and b.state = 'running' and ${PLACE} = r.kind)
           < ($3::jsonb ->> t.tier)::int
         and (not ${IS_LEFT} or (select count(*) from runs b where b.tenant = $1 and b.state = 'running' and b.input ? 'left')
           < greatest(($3::jsonb ->> t.tier)::int - 1, 1))
         and not exists (select from runs b where b.connection_id = r.connection_id and b.state = 'running')
         and not exists (select from runs b where b.product_id = r.product_id and b.state = 'running')))
     order by r.state = 'running' desc, r.available_at, r.created_at, r.id limit ${MAX_CANDIDATES}`,
    [tenant, request.kinds ?? null, CONCURRENCY, JSON.stringify(request.except ?? {}), request.exceptLeft ?? []],
  )
}

async function take(tx: Transaction, candidate: Candidate, request: ClaimRequest): Promise<ClaimedRun | null> {
  if (candidate.isExpired && candidate.cancelRequested) return endExpired(tx, candidate, 'cancelled', null)
  if (candidate.isExpired && candidate.isExhausted) return endExpired(tx, candidate, 'failed', WORKERS_DIED)
  // Whoever makes the product now is not fenced off by what is to come after it.
  const isFencing = candidate.productId !== null && !candidate.isLeft
  const productToken = isFencing ? await raiseFenceNow(tx, candidate.productId as string) : null
  if (productToken === 'busy') return null
  const row = await maybeOne<Run & { token: number }>(
    tx,
    'claiming the run',
    `update runs set state = 'running', place = null, worker_id = $3, token = token + 1, product_token = $5, attempt = attempt + 1,
       lease_until = clock_timestamp() + make_interval(secs => $4::float8 / 1000),
       started_at = coalesce(started_at, clock_timestamp())
     where id = $1 and token = $2 and ${CLAIMABLE} returning ${RUN_COLUMNS}, token`,
    [candidate.id, candidate.token, request.workerId, request.leaseMs, productToken],
  )
  if (row === null) return null
  const { token, ...run } = row
  return { run, lease: { runId: run.id, tenant: run.tenant, token: BigInt(token), productToken } }
}

/** The fence is locked while somebody commits: that run is looked at again later, the claim does not wait. */
async function raiseFenceNow(tx: Transaction, productId: string): Promise<bigint | 'busy'> {
  const row = await maybeOne<{ token: number }>(
    tx,
    'fencing the product',
    `update product_fences set token = token + 1 where product_id = (
       select product_id from product_fences where product_id = $1 for no key update skip locked) returning token`,
    [productId],
  )
  return row === null ? 'busy' : BigInt(row.token)
}

const WORKERS_DIED: RecordedError = {
  code: 'run_attempts_exhausted',
  message: 'the run was given up: every worker that took it stopped before its end',
  remedy: 'Look for crashes in the runtime’s log, often for want of memory, then retry the run.',
}

async function endExpired(
  tx: Transaction,
  candidate: Candidate,
  state: 'failed' | 'cancelled',
  error: RecordedError | null,
): Promise<null> {
  await change(
    tx,
    'ending the run',
    `update runs set state = $3, error = $4, token = token + 1, worker_id = null, lease_until = null,
       finished_at = clock_timestamp()
     where id = $1 and token = $2 and state = 'running' and lease_until < clock_timestamp()`,
    [candidate.id, candidate.token, state, json(error)],
  )
  return null
}

const HELD = `id = $1 and token = $2 and state = 'running'`

/**
 * For the transaction in which a worker commits: locks the run until its end and throws FENCED where the run is no
 * longer this worker's.
 */
export async function checkRun(tx: Transaction, lease: RunLease): Promise<void> {
  // Whoever removes the connection, with its runs, has locked it before them.
  const statement = `${withTenant('(select tenant from runs where id = $1)')},
    source as materialized (select id from connections
      where id = (select connection_id from runs where id = $1) and exists (select from kept) for no key update)
    select id from runs where ${HELD} and exists (select from kept)
      and (connection_id is null or exists (select from source)) for no key update`
  if ((await maybeOne(tx, 'checking the run', statement, [lease.runId, lease.token])) === null) throw fenced()
}

export interface RenewedLease {
  readonly leaseUntil: Date
  /** Somebody wants the run to end: stop, then finish it as cancelled. */
  readonly cancelRequested: boolean
}

/** Counts the lease anew from now. A lease that ended is renewed too while nobody has taken the run. */
export async function renewLease(db: Queryable, lease: RunLease, leaseMs: number): Promise<RenewedLease> {
  const row = await maybeOne<RenewedLease>(
    db,
    'renewing the lease',
    `update runs set lease_until = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
     where ${HELD} returning lease_until as "leaseUntil", cancel_requested as "cancelRequested"`,
    [lease.runId, lease.token, leaseMs],
  )
  if (row === null) throw fenced()
  return row
}

/** The run gives its place up, and waits for one among transforms. FENCED where it is no longer this worker's. */
export async function leavePlace(db: Queryable, lease: RunLease): Promise<void> {
  const statement = `update runs set place = 'none' where ${HELD} returning id`
  if ((await maybeOne(db, 'giving up a place', statement, [lease.runId, lease.token])) === null) throw fenced()
  await announceRuns(db, lease.tenant)
}

/** False where the tenant has as many transforms running as its tier allows, or somebody else counts them right now. */
export async function enterTransforms(pool: pg.Pool, lease: RunLease): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    if (!(await tryLockTenant(tx, lease.tenant))) return false
    const row = await maybeOne(
      tx,
      'taking a place for transforms',
      `update runs set place = 'materialization'
       where ${HELD} and (select ($3::jsonb ->> t.tier)::int from tenants t where t.slug = runs.tenant) > (
         select count(*) from runs b
         where b.tenant = runs.tenant and b.state = 'running' and ${PLACE} = 'materialization' and b.id <> runs.id)
       returning id`,
      [lease.runId, lease.token, CONCURRENCY],
    )
    return row !== null
  })
}

export type RunOutcome =
  | { readonly state: 'succeeded'; readonly result?: Readonly<Record<string, unknown>> }
  | { readonly state: 'failed'; readonly error: RecordedError }
  | { readonly state: 'cancelled' }

/** Ends the run; in the transaction of its last effect where there is one. FENCED where it is no longer this worker's. */
export async function finishRun(db: Queryable, lease: RunLease, outcome: RunOutcome): Promise<Run> {
  const run = await maybeOne<Run>(
    db,
    'ending the run',
    `update runs set state = $3, result = coalesce($4, result), error = $5, worker_id = null, lease_until = null,
       finished_at = clock_timestamp()
     where ${HELD} returning ${RUN_COLUMNS}`,
    [
      lease.runId,
      lease.token,
      outcome.state,
      json(outcome.state === 'succeeded' ? outcome.result : null),
      json(outcome.state === 'failed' ? outcome.error : null),
    ],
  )
  if (run === null) throw fenced()
  await announceRuns(db, run.tenant)
  return run
}

/**
 * Queues the run again for later, or fails it with that error where it was tried often enough, or ends it where somebody
 * wants that. FENCED where it is no longer this worker's.
 */
export async function retryRunLater(
  db: Queryable,
  lease: RunLease,
  error: RecordedError,
  retryAfterMs: number,
): Promise<Run> {
  const run = await maybeOne<Run>(
    db,
    'queueing the run again',
    `update runs set worker_id = null, lease_until = null, error = $3,
       state = case when cancel_requested then 'cancelled' when attempt >= max_attempts then 'failed' else 'queued' end,
       finished_at = case when cancel_requested or attempt >= max_attempts then clock_timestamp() end,
       available_at = clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     where ${HELD} returning ${RUN_COLUMNS}`,
    [lease.runId, lease.token, json(error), retryAfterMs],
  )
  if (run === null) throw fenced()
  await announceRuns(db, run.tenant)
  return run
}

/** Gives the run back untried, for a worker that is told to stop: another may take it at once. */
export async function releaseRun(db: Queryable, lease: RunLease): Promise<void> {
  const row = await maybeOne(
    db,
    'giving the run back',
    `update runs set state = 'queued', worker_id = null, lease_until = null, attempt = greatest(attempt - 1, 0)
     where ${HELD} returning id`,
    [lease.runId, lease.token],
  )
  if (row === null) throw fenced()
  await announceRuns(db, lease.tenant)
}
