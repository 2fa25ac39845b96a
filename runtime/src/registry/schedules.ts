/** Schedules of connections and products, with what their ticks and runs have come to. Times are the database's. */
import type { Principal } from '../flow.ts'
import { type Actor, actorOf } from './actor.ts'
import { issuedAtMs } from './application-keys.ts'
import { holdQueue, type RunState, type RunTrigger } from './runs.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

/** What becomes of ticks that nobody saw to: `none` is made up for, all together by `one` run, or `all` one by one. */
export const CATCH_UPS = ['none', 'one', 'all'] as const

export type Schedule = {
  readonly catchUp: (typeof CATCH_UPS)[number]
} & (
  | { readonly every: string; readonly everyMs: number }
  /** Five fields, by the clocks of the time zone (IANA). */
  | { readonly cron: string; readonly timeZone: string }
)

/** Why a tick began no run. */
export const SKIP_REASONS = ['run_in_progress', 'missed', 'backing_off', 'tenant_inactive', 'right_lost'] as const
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
  readonly nextRunAt: Date
  readonly skippedAt: Date | null
  readonly skippedReason: SkipReason | null
}

const COLUMNS = `s.id, s.tenant, s.connection_id as "connectionId", s.product_id as "productId", s.schedule,
  s.created_by as "createdBy", s.may_sync as "maySync", s.since, s.ticked_at as "tickedAt", s.next_run_at as "nextRunAt",
  s.skipped_at as "skippedAt", s.skipped_reason as "skippedReason"`

export interface NewSchedule
  extends Pick<ScheduleRow, 'id' | 'tenant' | 'connectionId' | 'productId' | 'schedule' | 'since' | 'nextRunAt'> {
  readonly setter: Principal
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
      json(actorOf(wanted.setter)),
      wanted.since,
      wanted.nextRunAt,
      issuedAtMs(wanted.setter),
    ],
  )
  return changed > 0
}

/** What a token of the setter's says now; one that is older than the newest that was seen says nothing. */
export async function refreshSetter(db: Queryable, setter: Principal): Promise<void> {
  if (setter.tenant === null) return
  await change(
    db,
    'following who has set schedules',
    `update schedules set may_sync = $4, token_issued_at = to_timestamp($5::float8 / 1000)
     where tenant = $1 and created_by->>'subject' = $3 and created_by->>'issuer' = $2
       and token_issued_at <= to_timestamp($5::float8 / 1000)
       and (may_sync, token_issued_at) is distinct from ($4, to_timestamp($5::float8 / 1000))`,
    [setter.tenant, setter.issuer, setter.subject, setter.isAdmin || setter.isDeveloper, issuedAtMs(setter)],
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
         or exists (select from runs r where r.product_id = s.product_id and r.state = 'queued') as "isRunUnderWay"
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

/** By schedule: since it was set, and since a run of it succeeded; 20 are counted at most. */
export async function failuresOf(
  db: Queryable,
  kind: 'connection' | 'product',
  ids: readonly string[],
): Promise<ReadonlyMap<string, Failures>> {
  const ended = await many<{ id: string; state: RunState; finishedAt: Date }>(
    db,
    'counting failures',
    `select s.id, r.state, r.finished_at as "finishedAt" from schedules s cross join lateral (
       select r.state, r.finished_at, r.created_at, r.id from runs r
       where r.${kind}_id = s.${kind}_id and r.state in ('failed', 'succeeded') and r.created_at >= s.since
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
