/**
 * Begins the runs of schedules. Each schedule is a job that is due at its next tick; the run is queued, and the tick noted, in
 * one transaction that asks for the job's token: a tick begins one run, however many runtimes there are and whichever die.
 */
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { enqueueRun } from '../registry/runs.ts'
import {
  type Failures,
  failuresOf,
  type LockedSchedule,
  lockSchedule,
  NO_FAILURES,
  noteTick,
  type ScheduleRow,
  type SeenTick,
  type SkipReason,
} from '../registry/schedules.ts'
import type { Transaction } from '../registry/sql.ts'
import { backOffMs } from './back-off.ts'
import { forgetJob, type Job, type NextDue, renewJob } from './claims.ts'
import { type Due, dueNow, nextTick } from './due-times.ts'
import type { JobKind } from './worker.ts'

export const SCHEDULE_JOB = 'schedules'

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
  const due = dueNow(row.schedule, row.id, row)
  const kind = row.connectionId === null ? 'product' : 'connection'
  const until = openUntil((await failuresOf(tx, kind, [row.id])).get(row.id) ?? NO_FAILURES)
  const reason = due.tick === null ? null : whyNot(row, until)
  // Ticks that are made up for one by one wait; others are let go, for the run under way reads what is there.
  if (row.schedule.catchUp === 'all' && (reason === 'backing_off' || reason === 'run_in_progress')) {
    return reason === 'backing_off' && until !== null ? { at: until } : { from: 'end', ms: WAIT_MS }
  }
  if (due.tick !== null && reason === null) await begin(tx, row)
  const seen = seenTick(row, due, reason)
  await noteTick(tx, row.id, seen)
  return { at: seen.nextRunAt }
}

function whyNot(
  { isTenantActive, maySync, isRunUnderWay, now }: LockedSchedule,
  until: Date | null,
): SkipReason | null {
  if (!isTenantActive) return 'tenant_inactive'
  if (!maySync) return 'right_lost'
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

function seenTick({ schedule, id }: LockedSchedule, due: Due, reason: SkipReason | null): SeenTick {
  const skipped = due.tick !== null && reason !== null ? { at: due.tick, reason } : due.skipped
  return { tickedAt: due.tickedAt, nextRunAt: nextTick(schedule, id, due.tickedAt), skipped }
}

/** Until when no tick begins a run after failures; null: there was none. */
function openUntil({ count, lastAt }: Failures): Date | null {
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

/** When a run begins next: after what the breaker lets go. Null: not while whoever set it may not sync. */
export function nextRunAt(
  { schedule, id, maySync, nextRunAt: next }: ScheduleRow,
  { openUntil: until }: Breaker,
): Date | null {
  if (!maySync) return null
  return until === null || next >= until ? next : nextTick(schedule, id, until)
}
