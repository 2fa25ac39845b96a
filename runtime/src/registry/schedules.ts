/** Schedules of connections and products, with what their ticks and runs have come to. Times are the database's. */
import type { Principal } from '../flow.ts'
import { type Actor, actorOf } from './actor.ts'
import { issuedAtMs } from './application-keys.ts'
import { LOG_SPOOLED } from './log-spool.ts'
import { holdQueue, type RunState, type RunTrigger } from './runs.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

/** What becomes of ticks that nobody saw to: `none` is made up for, all together by `one` run, or `all` one by one. */
export const CATCH_UPS = ['none', 'one', 'all'] as const

interface CatchesUp {
  readonly catchUp: (typeof CATCH_UPS)[number]
}

/** Its ticks are times that are known beforehand. */
export type TimedSchedule = CatchesUp &
  (
    | { readonly every: string; readonly everyMs: number }
    /** Five fields, by the clocks of the time zone (IANA). */
    | { readonly cron: string; readonly timeZone: string }
  )

/** Its ticks are when rows have come, or have grown old. */
export type RowSchedule = CatchesUp &
  (
    | {
        /** `namespace.name` of products: a tick is when each has an epoch that it had not at the tick before. */
        readonly after: readonly string[]
      }
    /** A tick is when the rows are of a read that is so long ago. */
    | { readonly maxAge: string; readonly maxAgeMs: number }
  )

/** Its ticks are when the source has changes; a run of it reads these and nothing else. */
export type ContinuousSchedule = CatchesUp & {
  /** How long a change waits for others at most, where no run is under way. */
  readonly maxDelay: string
  readonly maxDelayMs: number
}

/** Of a product: what follows changes are the connections that it is made of. */
export type ProductSchedule = TimedSchedule | RowSchedule
export type Schedule = ProductSchedule | ContinuousSchedule

export function isContinuous(schedule: Schedule): schedule is ContinuousSchedule {
  return 'maxDelayMs' in schedule
}

export function isTimed(schedule: Schedule): schedule is TimedSchedule {
  return 'everyMs' in schedule || 'cron' in schedule
}

/** Why a tick began no run. */
export const SKIP_REASONS = [
  'run_in_progress',
  'missed',
  'backing_off',
  'tenant_inactive',
  'right_lost',
  'paused',
  'inputs_not_newer',
  'product_gone',
] as const
export type SkipReason = (typeof SKIP_REASONS)[number]

export interface ScheduleRow {
  /** Of the connection or product. */
  readonly id: string
  readonly tenant: string
  readonly connectionId: string | null
  readonly productId: string | null
  readonly schedule: Schedule
  readonly createdBy: Actor
  /** Whether whoever set it may sync, as of the newest token that was seen. */
  readonly maySync: boolean
  readonly since: Date
  readonly tickedAt: Date
  /** Of a schedule that goes by rows: as far as it was known at the last look. */
  readonly nextRunAt: Date
  /** Of a connection with `max_age`: when the newest run that succeeded began to read. */
  readonly readAt: Date | null
  readonly skippedAt: Date | null
  readonly skippedReason: SkipReason | null
}

const COLUMNS = `s.id, s.tenant, s.connection_id as "connectionId", s.product_id as "productId", s.schedule,
  s.created_by as "createdBy", s.may_sync as "maySync", s.since, s.ticked_at as "tickedAt", s.next_run_at as "nextRunAt",
  s.skipped_at as "skippedAt", s.skipped_reason as "skippedReason", case when s.schedule ? 'maxAgeMs' then (
    select r.started_at from runs r where r.connection_id = s.connection_id and r.state = 'succeeded'
    order by r.created_at desc, r.id desc limit 1) end as "readAt"`

/** Who sets a schedule, as the token tells that is shown for it. */
export interface Setter extends Actor {
  readonly tokenIssuedAtMs: number
}

export function setterOf(principal: Principal): Setter {
  return { ...actorOf(principal), tokenIssuedAtMs: issuedAtMs(principal) }
}

export interface NewSchedule
  extends Pick<ScheduleRow, 'id' | 'tenant' | 'connectionId' | 'productId' | 'schedule' | 'since' | 'nextRunAt'> {
  readonly setter: Setter
}

/** False where it is the same already, and goes on as it was. One whose setter has lost the right becomes the setter's. */
export async function setSchedule(tx: Transaction, wanted: NewSchedule): Promise<boolean> {
  const changed = await change(
    tx,
    'setting the schedule',
    `insert into schedules as s (id, tenant, connection_id, product_id, schedule, created_by, since, ticked_at, next_run_at, token_issued_at)
     values ($1, $2, $3, $4, $5, $6, $7, $7, $8, to_timestamp($9::float8 / 1000))
     on conflict (id) do update set schedule = excluded.schedule, created_by = excluded.created_by,
       since = excluded.since, ticked_at = excluded.ticked_at, next_run_at = excluded.next_run_at,
       may_sync = true, token_issued_at = excluded.token_issued_at, skipped_at = null, skipped_reason = null
     where s.schedule is distinct from excluded.schedule or not s.may_sync`,
    [
      wanted.id,
      wanted.tenant,
      wanted.connectionId,
      wanted.productId,
      json(wanted.schedule),
      json(asActor(wanted.setter)),
      wanted.since,
      wanted.nextRunAt,
      wanted.setter.tokenIssuedAtMs,
    ],
  )
  return changed > 0
}

/** Its runs are in that name from now on. */
export async function passSchedule(tx: Transaction, id: string, setter: Setter): Promise<void> {
  await change(
    tx,
    'passing the schedule on',
    `update schedules set created_by = $2, may_sync = true, token_issued_at = to_timestamp($3::float8 / 1000)
     where id = $1 and created_by is distinct from $2::jsonb`,
    [id, json(asActor(setter)), setter.tokenIssuedAtMs],
  )
}

const asActor = ({ issuer, subject }: Setter): Actor => ({ issuer, subject })

/** What a token of the setter's says now, of targets of notifications as well; one that is older than the newest that was seen says nothing. */
export async function refreshSetter(db: Queryable, setter: Principal): Promise<void> {
  if (setter.tenant === null) return
  await change(
    db,
    'following who has set schedules and targets of notifications',
    `with targets as (
       update notification_targets set may_hear = $4, token_issued_at = to_timestamp($5::float8 / 1000)
       where tenant = $1 and created_by->>'subject' = $3 and created_by->>'issuer' = $2
         and token_issued_at <= to_timestamp($5::float8 / 1000)
         and (may_hear, token_issued_at) is distinct from ($4, to_timestamp($5::float8 / 1000)))
     update schedules set may_sync = $4, token_issued_at = to_timestamp($5::float8 / 1000)
     where tenant = $1 and created_by->>'subject' = $3 and created_by->>'issuer' = $2
       and token_issued_at <= to_timestamp($5::float8 / 1000)
       and (may_sync, token_issued_at) is distinct from ($4, to_timestamp($5::float8 / 1000))`,
    [setter.tenant, setter.issuer, setter.subject, setter.isAdmin || setter.isDeveloper, issuedAtMs(setter)],
  )
}

/** The schedule as it was set, and by whom. Null: there is none. */
export function setScheduleOf(
  db: Queryable,
  id: string,
): Promise<{ readonly schedule: Schedule; readonly setter: Setter } | null> {
  return maybeOne(
    db,
    'reading the schedule',
    `select schedule, created_by || jsonb_build_object('tokenIssuedAtMs',
       coalesce(extract(epoch from token_issued_at) * 1000, 0)) as setter from schedules where id = $1`,
    [id],
  )
}

export async function removeSchedule(tx: Transaction, id: string): Promise<boolean> {
  return (await change(tx, 'removing the schedule', 'delete from schedules where id = $1', [id])) > 0
}

export interface LockedSchedule extends ScheduleRow {
  readonly now: Date
  readonly isTenantActive: boolean
  /** One of its target that has not ended. */
  readonly isRunUnderWay: boolean
  /** One that has not begun, and will see all that is there by then. */
  readonly isRunQueued: boolean
  /** The product keeps its content until somebody resumes it. */
  readonly isPaused: boolean
}

/**
 * Kept from others until the transaction ends. What it is of is locked first, as whoever removes that does. Null where
 * there is none.
 */
export async function lockSchedule(tx: Transaction, id: string): Promise<LockedSchedule | null> {
  for (const table of ['connections', 'products']) {
    await many(tx, 'looking at a schedule', `select id from ${table} where id = $1 for key share`, [id])
  }
  await many(tx, 'looking at a schedule', 'select id from schedules where id = $1 for update', [id])
  await holdQueue(tx, id)
  return maybeOne<LockedSchedule>(
    tx,
    'looking at a schedule',
    `select ${COLUMNS}, clock_timestamp() as now, t.status = 'active' as "isTenantActive",
       exists (select from runs r where r.connection_id = s.connection_id and r.state = 'running')
         or exists (select from runs r where r.connection_id = s.connection_id and r.state = 'queued')
         or exists (select from runs r where r.product_id = s.product_id and r.state = 'running')
         or exists (select from runs r where r.product_id = s.product_id and r.state = 'queued') as "isRunUnderWay",
       exists (select from runs r where r.connection_id = s.connection_id and r.state = 'queued')
         or exists (select from runs r where r.product_id = s.product_id and r.state = 'queued') as "isRunQueued",
       coalesce((select p.paused is not null from products p where p.id = s.product_id), false) as "isPaused"
     from schedules s join tenants t on t.slug = s.tenant where s.id = $1`,
    [id],
  )
}

export interface SeenTick {
  readonly tickedAt: Date
  readonly nextRunAt: Date
  /** Null: nothing was left out. */
  readonly skipped: { readonly at: Date; readonly reason: SkipReason } | null
}

export async function noteTick(tx: Transaction, id: string, { tickedAt, nextRunAt, skipped }: SeenTick): Promise<void> {
  await change(
    tx,
    'noting a tick',
    `update schedules set ticked_at = $2, next_run_at = $3, skipped_at = coalesce($4, skipped_at),
       skipped_reason = coalesce($5, skipped_reason) where id = $1`,
    [id, tickedAt, nextRunAt, skipped?.at ?? null, skipped?.reason ?? null],
  )
}

/** Failures one after the other, the newest of them last. */
export interface Failures {
  readonly count: number
  /** When the newest ended; null where there is none. */
  readonly lastAt: Date | null
}

const MOST_FAILURES = 20

/** By schedule: since it was set, and since a run of it succeeded, be it in part; 20 are counted at most. */
export async function failuresOf(
  db: Queryable,
  kind: 'connection' | 'product',
  ids: readonly string[],
): Promise<ReadonlyMap<string, Failures>> {
  const ended = await many<{ id: string; state: RunState; finishedAt: Date }>(
    db,
    'counting failures',
    `select s.id, r.state, r.finished_at as "finishedAt" from schedules s cross join lateral (
       select case when r.result ? 'partial' then 'succeeded' else r.state end as state, r.finished_at, r.created_at, r.id from runs r
       where r.${kind}_id = s.${kind}_id and r.state in ('failed', 'succeeded') and r.created_at >= s.since
         and r.error ->> 'code' is distinct from '${LOG_SPOOLED}'
       order by r.created_at desc, r.id desc limit ${MOST_FAILURES}) r
     where s.id = any($1) order by s.id, r.created_at desc, r.id desc`,
    [ids],
  )
  const failures = [...Map.groupBy(ended, ({ id }) => id)].map(([id, runs]): [string, Failures] => {
    const good = runs.findIndex(({ state }) => state === 'succeeded')
    const count = good === -1 ? runs.length : good
    return [id, { count, lastAt: count === 0 ? null : (runs[0]?.finishedAt ?? null) }]
  })
  return new Map(failures)
}

export const NO_FAILURES: Failures = { count: 0, lastAt: null }

export interface LastRun {
  readonly id: string
  readonly state: RunState
  readonly trigger: RunTrigger
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

export interface Scheduled {
  readonly id: string
  readonly row: ScheduleRow | null
  /** Null where it has none. */
  readonly lastRun: LastRun | null
  readonly failures: Failures
  readonly now: Date
}

/** What is to be told of each connection, or of each product, whether it has a schedule or not. */
export async function scheduledOf(
  db: Queryable,
  kind: 'connection' | 'product',
  ids: readonly string[],
): Promise<ReadonlyMap<string, Scheduled>> {
  const rows = await many<ScheduleRow & { readonly of: string; readonly lastRun: RawRun | null; readonly now: Date }>(
    db,
    'reading schedules',
    `select wanted.id as of, ${COLUMNS}, clock_timestamp() as now, (
       select jsonb_build_object('id', r.id, 'state', r.state, 'trigger', r.trigger, 'createdAt', r.created_at,
         'finishedAt', r.finished_at)
       from runs r where r.${kind}_id = wanted.id
       order by r.created_at desc, r.id desc limit 1) as "lastRun"
     from unnest($1::text[]) as wanted (id) left join schedules s on s.id = wanted.id`,
    [ids],
  )
  const failures = await failuresOf(db, kind, ids)
  const all = rows.map(({ of, lastRun, now, ...row }): Scheduled => {
    const counted = failures.get(of) ?? NO_FAILURES
    return { id: of, row: row.id === null ? null : row, lastRun: lastRun && runOf(lastRun), failures: counted, now }
  })
  return new Map(all.map((scheduled) => [scheduled.id, scheduled]))
}

type RawRun = Omit<LastRun, 'createdAt' | 'finishedAt'> & {
  readonly createdAt: string
  readonly finishedAt: string | null
}

function runOf({ createdAt, finishedAt, ...run }: RawRun): LastRun {
  return { ...run, createdAt: new Date(createdAt), finishedAt: finishedAt === null ? null : new Date(finishedAt) }
}

export const SCHEDULE_STATES = ['set', 'failing', 'right_lost'] as const

export interface ScheduleLoad {
  readonly of: 'connection' | 'product'
  readonly set: number
  /** Whose newest run failed. */
  readonly failing: number
  readonly right_lost: number
}

export function scheduleLoad(db: Queryable): Promise<ScheduleLoad[]> {
  const newest = (kind: string) => `select r.state from runs r where r.${kind}_id = s.${kind}_id
    and r.state in ('failed', 'succeeded') and r.created_at >= s.since order by r.created_at desc, r.id desc limit 1`
  return many<ScheduleLoad>(
    db,
    'reading how many schedules there are',
    `select case when s.connection_id is null then 'product' else 'connection' end as of, count(*) as set,
       count(*) filter (where 'failed' = case when s.connection_id is null then (${newest('product')}) else (${newest('connection')}) end) as failing,
       count(*) filter (where not s.may_sync) as right_lost
     from schedules s group by 1`,
  )
}

/** Names of the tenant's connections whose changes are followed. */
export async function followedConnections(db: Queryable, tenant: string): Promise<ReadonlySet<string>> {
  const rows = await many<{ name: string }>(
    db,
    'reading schedules',
    `select c.name from schedules s join connections c on c.id = s.connection_id
     where s.tenant = $1 and s.schedule ? 'maxDelayMs' limit 10000`,
    [tenant],
  )
  return new Set(rows.map(({ name }) => name))
}
