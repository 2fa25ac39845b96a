/**
 * Jobs in the registry: who may do which, and when. All by the database's clock. A claim raises the job's token, and
 * whatever its holder says later is heard only under that token: of a runtime that lost its lease nothing is.
 */
import { isSluiceError } from '@sluice/sdk'
import { fenced } from '../registry/fences.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from '../registry/sql.ts'

/** A job that one runtime has claimed, until its lease ends; for longer where it is renewed. */
export interface Job {
  readonly kind: string
  readonly key: string
  /** Null: of the platform. */
  readonly tenant: string | null
  readonly token: number
  /** Failures since it was done last; a runtime that died while it did it counts as one. */
  readonly attempts: number
  /** It was taken from a runtime that died, or froze for longer than the lease. */
  readonly isTakenOver: boolean
}

/** Kinds of which one job may be begun now. */
export interface Lane {
  readonly kinds: readonly string[]
  /** Only this job of them. Default: any. */
  readonly key?: string
  /** Default: that of all. */
  readonly leaseMs?: number
}

/** Of each lane the job that has waited longest; none of those that another runtime is claiming right now. */
export function claimJobs(db: Queryable, lanes: readonly Lane[], leaseMs: number): Promise<Job[]> {
  return many<Job>(
    db,
    'claiming jobs',
    `update jobs j set token = j.token + 1, due_at = case when next.taken then j.due_at end,
       attempts = j.attempts + case when next.taken then 1 else 0 end, started_at = clock_timestamp(),
       lease_until = clock_timestamp() + make_interval(secs => next.lease_ms / 1000)
     from (
       select due.*, coalesce(lane."leaseMs", $2::float8) as lease_ms
       from jsonb_to_recordset($1::jsonb) as lane (kinds text[], key text, "leaseMs" float8) cross join lateral (
         select d.kind, d.key, d.lease_until is not null as taken from jobs d
         where d.kind = any(lane.kinds) and (lane.key is null or d.key = lane.key)
           and coalesce(d.lease_until, d.due_at) <= now()
         order by coalesce(d.lease_until, d.due_at) limit 1 for update skip locked
       ) due
     ) next
     where j.kind = next.kind and j.key = next.key
     returning j.kind, j.key, j.tenant, j.token, j.attempts, next.taken as "isTakenOver"`,
    [json(lanes), leaseMs],
  )
}

const HELD = 'kind = $1 and key = $2 and token = $3 and lease_until is not null'
const FREE_LATER = 'lease_until = null, due_at = clock_timestamp() + make_interval(secs => $4::float8 / 1000)'
const heldBy = ({ kind, key, token }: Job) => [kind, key, token] as const

/**
 * Counts the lease anew from now; one that ended, too, while nobody has taken the job. FENCED where it is
 * another runtime's. In a transaction the job is also kept from others until its end.
 */
export async function renewJob(db: Queryable, job: Job, leaseMs: number): Promise<void> {
  const renewed = await change(
    db,
    'renewing the lease of a job',
    `update jobs set lease_until = clock_timestamp() + make_interval(secs => $4::float8 / 1000) where ${HELD}`,
    [...heldBy(job), leaseMs],
  )
  if (renewed === 0) throw fenced()
}

/** When the job is due again; null: when somebody asks for it, or has asked since it was claimed. */
export type NextDue = { readonly from: 'start' | 'end'; readonly ms: number } | { readonly at: Date } | null

/** Done. What was asked for meanwhile is not forgotten. False where the job is another runtime's by now. */
export async function finishJob(db: Queryable, job: Job, next: NextDue): Promise<boolean> {
  const from = next !== null && 'from' in next ? next : null
  const finished = await change(
    db,
    'ending a job',
    `update jobs set lease_until = null, attempts = 0, error_code = null, finished_at = clock_timestamp(),
       due_at = least(due_at, $4::timestamptz,
         case $5 when 'start' then started_at else clock_timestamp() end + make_interval(secs => $6::float8 / 1000))
     where ${HELD}`,
    [...heldBy(job), next !== null && 'at' in next ? next.at : null, from?.from ?? 'end', from?.ms ?? null],
  )
  return finished > 0
}

/** Not done, and to be tried again after so long, whatever was asked for meanwhile. */
export async function failJob(db: Queryable, job: Job, error: unknown, againMs: number): Promise<void> {
  await change(
    db,
    'ending a job',
    `update jobs set attempts = attempts + 1, error_code = $5, finished_at = clock_timestamp(), ${FREE_LATER} where ${HELD}`,
    [...heldBy(job), againMs, isSluiceError(error) ? error.code : 'internal_error'],
  )
}

/** Not begun: runtimes die of it. Each death was counted when the job was taken over. */
export async function delayJob(db: Queryable, job: Job, againMs: number): Promise<void> {
  await change(db, 'delaying a job', `update jobs set ${FREE_LATER} where ${HELD}`, [...heldBy(job), againMs])
}

/** Given up without an outcome, as a runtime does that stops: anybody may begin it at once. */
export async function releaseJob(db: Queryable, job: Job): Promise<void> {
  const statement = `update jobs set lease_until = null, due_at = least(due_at, clock_timestamp()) where ${HELD}`
  await change(db, 'giving a job back', statement, heldBy(job))
}

export interface JobRow {
  readonly kind: string
  readonly key: string
  readonly tenant?: string
}

/** Makes the job where it is not there, due after so long; what is there stays as it is. */
export async function expectJob(db: Queryable, { kind, key, tenant }: JobRow, afterMs: number): Promise<void> {
  await change(
    db,
    'noting a job',
    `insert into jobs (kind, key, tenant, due_at)
     values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8 / 1000)) on conflict (kind, key) do nothing`,
    [kind, key, tenant ?? null, afterMs],
  )
}

/** Makes the job due at that time, whenever it was due before; in the hands of a runtime it is done again then. */
export async function setJobDue(db: Queryable, { kind, key, tenant }: JobRow, at: Date): Promise<void> {
  await change(
    db,
    'noting a job',
    `insert into jobs (kind, key, tenant, due_at) values ($1, $2, $3, $4)
     on conflict (kind, key) do update set due_at = excluded.due_at, attempts = 0, error_code = null`,
    [kind, key, tenant ?? null, at],
  )
}

/** Makes the job due within so long, if it is not due sooner; in the hands of a runtime it is done again then. */
export async function hurryJob(db: Queryable, { kind, key, tenant }: JobRow, afterMs: number): Promise<void> {
  await change(
    db,
    'noting a job',
    `insert into jobs as j (kind, key, tenant, due_at)
     values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8 / 1000))
     on conflict (kind, key) do update set due_at = least(j.due_at, excluded.due_at)`,
    [kind, key, tenant ?? null, afterMs],
  )
}

/** Makes a job due that there is; in the hands of a runtime it is done again. False: there is none. */
export async function hurryNow(db: Queryable, { kind, key }: JobRow): Promise<boolean> {
  const hurried = await change(
    db,
    'asking for a job',
    'update jobs set due_at = least(due_at, clock_timestamp()) where kind = $1 and key = $2',
    [kind, key],
  )
  return hurried > 0
}

/** Makes jobs due that wait for nothing but being asked for. Those that wait for their time, or are done now, are left alone. */
export async function askForJobs(db: Queryable, rows: readonly JobRow[]): Promise<void> {
  if (rows.length === 0) return
  await change(
    db,
    'asking for jobs',
    `insert into jobs as j (kind, key, tenant, due_at)
     select kind, key, tenant, clock_timestamp() from jsonb_to_recordset($1::jsonb) as asked (kind text, key text, tenant text)
     on conflict (kind, key) do update set due_at = excluded.due_at where j.due_at is null and j.lease_until is null`,
    [json(rows)],
  )
}

/**
 * One job of each kind for each active tenant, by kind how often in milliseconds; none for others. New ones are due after
 * `afterMs`; those that are to be done more often than before come sooner.
 */
export async function expectForTenants(
  db: Queryable,
  everyMs: Readonly<Record<string, number>>,
  afterMs: number,
): Promise<void> {
  const kinds = json(everyMs)
  await change(
    db,
    'noting jobs of tenants',
    `insert into jobs (kind, key, tenant, due_at)
     select k.kind, t.slug, t.slug, clock_timestamp() + make_interval(secs => $2::float8 / 1000)
     from tenants t cross join jsonb_object_keys($1::jsonb) k (kind)
     where t.status = 'active' and not exists (select from jobs j where j.kind = k.kind and j.key = t.slug)
     on conflict (kind, key) do nothing`,
    [kinds, afterMs],
  )
  await change(
    db,
    'forgetting jobs of tenants',
    `delete from jobs j where j.kind in (select jsonb_object_keys($1::jsonb)) and j.lease_until is null
       and not exists (select from tenants t where t.slug = j.key and t.status = 'active')`,
    [kinds],
  )
  await change(
    db,
    'noting jobs of tenants',
    `update jobs j set due_at = j.started_at + make_interval(secs => k.ms::float8 / 1000)
     from jsonb_each_text($1::jsonb) k (kind, ms)
     where j.kind = k.kind and j.lease_until is null
       and j.due_at > j.started_at + make_interval(secs => k.ms::float8 / 1000)`,
    [kinds],
  )
}

/** Jobs of the kind that nobody does are begun between so long from now and twice as long: not all of them at once. */
export async function delayJobs(db: Queryable, kind: string, ms: number): Promise<void> {
  await change(
    db,
    'delaying jobs',
    `update jobs
     set due_at = greatest(due_at, clock_timestamp() + (1 + random()) * make_interval(secs => $2::float8 / 1000))
     where kind = $1 and lease_until is null and due_at is not null`,
    [kind, ms],
  )
}

/** Nobody else works on the registry, so no lease of a former process is worth waiting for. */
export async function endJobLeases(db: Queryable): Promise<void> {
  const statement = 'update jobs set lease_until = clock_timestamp() where lease_until > clock_timestamp()'
  await change(db, 'ending leases of jobs', statement)
}

/** No runtime does such jobs any more; what waits for an hour after its time has no runtime that would. */
export async function forgetOrphans(db: Queryable, kind: string): Promise<void> {
  await change(
    db,
    'forgetting jobs',
    `delete from jobs where kind = $1 and coalesce(lease_until, due_at) < clock_timestamp() - interval '1 hour'`,
    [kind],
  )
}

export async function forgetJob(db: Queryable, { kind, key }: JobRow): Promise<void> {
  await change(db, 'forgetting a job', 'delete from jobs where kind = $1 and key = $2', [kind, key])
}

/** Runtimes look at what is due when it is rung here. */
export const JOBS_CHANNEL = 'sluice_jobs'

/** Heard once the transaction has committed. */
export async function ringForJobs(db: Queryable | Transaction): Promise<void> {
  await maybeOne(db, 'announcing jobs', `select pg_notify($1, '')`, [JOBS_CHANNEL])
}

export interface JobLoad {
  readonly kind: string
  /** That nobody does, and that could begin. */
  readonly due: number
  readonly running: number
  /** For more than a minute past their time. */
  readonly late: number
  /** Failed when they were tried last. */
  readonly failing: number
}

export function jobLoad(db: Queryable): Promise<JobLoad[]> {
  return many<JobLoad>(
    db,
    'reading how many jobs there are',
    `select kind, count(*) filter (where lease_until is null and due_at <= now()) as due,
       count(*) filter (where lease_until > now()) as running,
       count(*) filter (where coalesce(lease_until, due_at) < now() - interval '1 minute') as late,
       count(*) filter (where attempts > 0) as failing
     from jobs group by kind`,
  )
}
