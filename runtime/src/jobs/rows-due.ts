/** When schedules tick that go by rows and not by clocks: by what other products have, or by how old the own rows are. */
import { connectionReadAt, offeredReadAt, readAtOf } from '../registry/data-ages.ts'
import { latestEpoch } from '../registry/materializations.ts'
import { followsOf, noteSeen } from '../registry/schedule-follows.ts'
import type { LockedSchedule, RowSchedule, SkipReason } from '../registry/schedules.ts'
import type { Transaction } from '../registry/sql.ts'
import type { NextDue } from './claims.ts'
import { type AgeDue, dueByAge } from './due-times.ts'

export interface RowsDue {
  readonly isDue: boolean
  /** Why a run would change nothing; null where it is not due, or would. */
  readonly lacks: SkipReason | null
  /** As far as it is known. */
  readonly nextRunAt: Date | null
  /** When it is to be looked at again. */
  readonly again: NextDue
  /** What it was due for is seen to. */
  seen(): Promise<void>
}

/** Commits wake whoever waits for them; those of a release that knows no waiting are found so. */
const FOLLOWED_AGAIN_MS = 600_000
/** Reads of inputs wake nobody: with rows that are too old they are looked for. */
const AGE_AGAIN_MS = 30_000

export async function rowsDue(tx: Transaction, row: LockedSchedule, schedule: RowSchedule): Promise<RowsDue> {
  if ('after' in schedule) return followedDue(tx, row.id)
  const due = dueByAge(schedule.maxAgeMs, { ...(await agesOf(tx, row)), now: row.now })
  const again: NextDue =
    due.at !== null && due.at > row.now
      ? { at: due.at }
      : { from: 'end', ms: Math.min(AGE_AGAIN_MS, schedule.maxAgeMs) }
  return { isDue: due.isDue, lacks: due.lacks, nextRunAt: due.at, again, seen: async () => undefined }
}

async function followedDue(tx: Transaction, scheduleId: string): Promise<RowsDue> {
  const follows = await followsOf(tx, scheduleId)
  const isGone = follows.some(({ productId }) => productId === null)
  return {
    isDue: !isGone && follows.every(({ epoch, seenEpoch }) => epoch > seenEpoch),
    lacks: isGone ? 'product_gone' : null,
    nextRunAt: null,
    again: { from: 'end', ms: FOLLOWED_AGAIN_MS },
    seen: () => noteSeen(tx, scheduleId, follows),
  }
}

async function agesOf(
  tx: Transaction,
  { connectionId, productId, now }: LockedSchedule,
): Promise<Pick<AgeDue, 'readAt' | 'offeredAt'>> {
  if (connectionId !== null) return { readAt: await connectionReadAt(tx, connectionId), offeredAt: now }
  const newest = await latestEpoch(tx, productId as string)
  return { readAt: newest && readAtOf(newest), offeredAt: await offeredReadAt(tx, productId as string) }
}
