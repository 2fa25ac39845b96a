/** Which snapshots of a table stay by a ladder: the older they are, the fewer of them. Pure. */
import type { LadderStep, SnapshotLadder } from '../manifest/manifest-set.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** Of tables that are written as changes come, where nobody says otherwise. */
export const CONTINUOUS_LADDER: SnapshotLadder = [
  { forMs: MINUTE_MS, everyMs: null },
  { forMs: HOUR_MS, everyMs: MINUTE_MS },
  { forMs: DAY_MS, everyMs: 15 * MINUTE_MS },
  { forMs: null, everyMs: DAY_MS },
]

/** That a ladder keeps of one table. Those that are held for another reason come beside them. */
export const MOST_SNAPSHOTS = 500

/** How far the last step thins out by itself: spans of so many years hold all there is. */
const WIDEST_MS = 2 ** 50

interface Moment {
  readonly committedAtMs: number
}

/**
 * Those that stay, oldest first as they are given. Time is cut into spans of `every`, by the clock and not by the age of what is
 * in them, and the newest of each span stays. Each step's spans are made up of those of the step before it: so what goes now
 * would have gone later, too, and what a later step is to keep is still there by then, however often this is done meanwhile.
 * Where more than `most` are left, the last step thins out to spans of twice the length, and again; and where it has no more
 * than one to give, the oldest go.
 *
 * @param snapshots by time, oldest first; the newest one always stays
 * @param steps by `forMs`, shortest first; each `everyMs` a multiple of the one before it
 */
export function keptByLadder<Snapshot extends Moment>(
  steps: SnapshotLadder,
  snapshots: readonly Snapshot[],
  nowMs: number,
  most: number = MOST_SNAPSHOTS,
): readonly Snapshot[] {
  let kept = climbed(steps, snapshots, nowMs)
  const last = steps.at(-1)
  let widthMs = Math.max(last?.everyMs ?? SECOND_MS, SECOND_MS)
  while (last !== undefined && kept.length > most && widthMs < WIDEST_MS) {
    widthMs *= 2
    kept = climbed([...steps.slice(0, -1), { ...last, everyMs: widthMs }], snapshots, nowMs)
  }
  return kept.slice(-most)
}

function climbed<Snapshot extends Moment>(
  steps: SnapshotLadder,
  snapshots: readonly Snapshot[],
  nowMs: number,
): readonly Snapshot[] {
  return snapshots.filter((snapshot, at) => {
    const next = snapshots[at + 1]
    if (next === undefined) return true
    const step = stepFor(steps, nowMs - snapshot.committedAtMs)
    if (step === null) return false
    return step.everyMs === null || spanOf(snapshot, step.everyMs) !== spanOf(next, step.everyMs)
  })
}

const spanOf = ({ committedAtMs }: Moment, everyMs: number): number => Math.floor(committedAtMs / everyMs)

/** Null: older than any step speaks of. */
function stepFor(steps: SnapshotLadder, ageMs: number): LadderStep | null {
  return steps.find(({ forMs }) => forMs === null || ageMs <= forMs) ?? null
}
