/**
 * Begins the runs of schedules. Each schedule is a job that is due at its next tick; the run is queued, and the tick noted, in
 * one transaction that asks for the job's token: a tick begins one run, however many runtimes there are and whichever die.
 */
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { enqueueRun } from '../registry/runs.ts'
import { SCHEDULE_JOB } from '../registry/schedule-job.ts'
import {
  type Failures,
  failuresOf,
  isContinuous,
  isTimed,
  type LockedSchedule,
  lockSchedule,
  NO_FAILURES,
  noteTick,
  type RowSchedule,
  type ScheduleRow,
  type SeenTick,
  type SkipReason,
  type TimedSchedule,
} from '../registry/schedules.ts'
import type { Transaction } from '../registry/sql.ts'
import { backOffMs } from './back-off.ts'
import { forgetJob, type Job, type NextDue, renewJob } from './claims.ts'
import { dueNow, nextTick } from './due-times.ts'
import { rowsDue } from './rows-due.ts'
import type { JobKind } from './worker.ts'

const LEASE_MS = 60_000
/** Of ticks that wait for a run to end. */
const WAIT_MS = 2_000
/** After failures of runs; the job's own is for a registry that does not answer. */
const RUNS_BACK_OFF = { firstMs: 30_000, lastMs: 3_600_000 } as const

export function scheduleTicks(pool: pg.Pool): JobKind {
  return {
    kind: SCHEDULE_JOB,
    failed: 'the run of a schedule could not be queued; it is tried again',
    backOff: { firstMs: 1_000, lastMs: 60_000 },
    work: (job, signal) => inTransaction(pool, (tx) => tick(tx, job), { signal }),
  }
}

/** What has been begun already is not begun again. FENCED where the job is another runtime's. */
export async function tick(tx: Transaction, job: Job): Promise<NextDue> {
  const row = await lockSchedule(tx, job.key)
  if (row === null) {
    await forgetJob(tx, { kind: job.kind, key: job.key })
    return null
  }
  await renewJob(tx, job, LEASE_MS)
  const kind = row.connectionId === null ? 'product' : 'connection'
  const until = openUntil((await failuresOf(tx, kind, [row.id])).get(row.id) ?? NO_FAILURES)
  const { schedule } = row
  if (isContinuous(schedule)) {
    // Another job follows it: this one is left of a schedule of before.
    await forgetJob(tx, { kind: job.kind, key: job.key })
    return null
  }
  return isTimed(schedule) ? tickByTime(tx, row, schedule, until) : tickByRows(tx, row, schedule, until)
}

async function tickByTime(
  tx: Transaction,
  row: LockedSchedule,
  schedule: TimedSchedule,
  until: Date | null,
): Promise<NextDue> {
  const due = dueNow(schedule, row.id, row)
  const reason = due.tick === null ? null : whyNot(row, until)
  // Ticks that are made up for one by one wait; others are let go, for the run under way reads what is there.
  if (schedule.catchUp === 'all' && (reason === 'backing_off' || reason === 'run_in_progress'))
    return waits(reason, until)
  if (due.tick !== null && reason === null) await begin(tx, row)
  const skipped = due.tick !== null && reason !== null ? { at: due.tick, reason } : due.skipped
  const seen: SeenTick = { tickedAt: due.tickedAt, nextRunAt: nextTick(schedule, row.id, due.tickedAt), skipped }
  await noteTick(tx, row.id, seen)
  return { at: seen.nextRunAt }
}

/** What it is due for stays there until a run has begun for it: a run under way may have begun to read before. */
async function tickByRows(
  tx: Transaction,
  row: LockedSchedule,
  schedule: RowSchedule,
  until: Date | null,
): Promise<NextDue> {
  const due = await rowsDue(tx, row, schedule)
  const reason = due.isDue ? whyNot(row, until) : due.lacks
  const isQueued = reason === 'run_in_progress' && row.isRunQueued
  if (!isQueued && (reason === 'backing_off' || reason === 'run_in_progress')) return waits(reason, until)
  if (due.isDue && reason === null) await begin(tx, row)
  // A run that has not begun sees all that is there, and so does the one with which a pause ends.
  if (due.isDue && (reason === null || reason === 'paused' || isQueued)) await due.seen()
  const isTold =
    reason === null || (reason === row.skippedReason && row.skippedAt !== null && row.skippedAt > row.tickedAt)
  await noteTick(tx, row.id, {
    tickedAt: due.isDue && reason === null ? row.now : row.tickedAt,
    nextRunAt: due.nextRunAt ?? row.nextRunAt,
    skipped: isTold || isQueued ? null : { at: row.now, reason },
  })
  return due.again
}

/** A tick that is not let go. */
function waits(reason: SkipReason, until: Date | null): NextDue {
  return reason === 'backing_off' && until !== null ? { at: until } : { from: 'end', ms: WAIT_MS }
}

/** Why a tick begins no run now. */
export function whyNot(
  { isTenantActive, maySync, isPaused, isRunUnderWay, now }: LockedSchedule,
  until: Date | null,
): SkipReason | null {
  if (!isTenantActive) return 'tenant_inactive'
  if (!maySync) return 'right_lost'
  if (isPaused) return 'paused'
  if (isRunUnderWay) return 'run_in_progress'
  return until !== null && until > now ? 'backing_off' : null
}

async function begin(tx: Transaction, { tenant, connectionId, productId, createdBy }: LockedSchedule): Promise<void> {
  const run = { tenant, trigger: 'schedule', createdBy } as const
  await enqueueRun(
    tx,
    connectionId !== null
      ? { ...run, kind: 'ingestion', connectionId }
      : { ...run, kind: 'materialization', productId: productId as string },
  )
}

/** Until when no tick begins a run after failures; null: there was none. */
export function openUntil({ count, lastAt }: Failures): Date | null {
  if (lastAt === null) return null
  return new Date(lastAt.getTime() + backOffMs(count - 1, RUNS_BACK_OFF, () => 0))
}

/** `open` lets no tick begin a run; `half_open` lets the next one try. */
export interface Breaker {
  readonly state: 'closed' | 'open' | 'half_open'
  readonly failures: number
  readonly openUntil: Date | null
}

export function breakerOf(failures: Failures, now: Date): Breaker {
  const until = openUntil(failures)
  if (until === null) return { state: 'closed', failures: 0, openUntil: null }
  const isOpen = until > now
  return { state: isOpen ? 'open' : 'half_open', failures: failures.count, openUntil: isOpen ? until : null }
}

/**
 * When a run begins next: after what the breaker lets go. Null: not while whoever set it may not sync, or when nobody can
 * know it, since other products decide.
 */
export function nextRunAt({ schedule, id, maySync, ...row }: ScheduleRow, { openUntil: until }: Breaker): Date | null {
  if (!maySync || 'after' in schedule || isContinuous(schedule)) return null
  const next = 'maxAgeMs' in schedule ? ageAt(row, schedule.maxAgeMs) : row.nextRunAt
  if (until === null || next >= until) return next
  return isTimed(schedule) ? nextTick(schedule, id, until) : until
}

/** When rows are that old by the newest run that is known of. */
function ageAt({ readAt, nextRunAt: noted }: Pick<ScheduleRow, 'readAt' | 'nextRunAt'>, maxAgeMs: number): Date {
  return readAt === null ? noted : new Date(readAt.getTime() + maxAgeMs)
}
