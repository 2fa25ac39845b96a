/** From a schedule that fails to a shorter one that still does. */
import { isDeepStrictEqual } from 'node:util'
import type { Schedule, Step } from './schedule.ts'

/** So many trials at most: each is a run of the store. */
const MAX_TRIALS = 200

/**
 * The shortest schedule that was found to fail too: steps are left out, first many and then one by one, and what is
 * left of them is made smaller.
 */
export async function shrunk(schedule: Schedule, fails: (schedule: Schedule) => Promise<boolean>): Promise<Schedule> {
  let best = schedule
  let trials = 0
  const improve = async (candidate: Schedule): Promise<boolean> => {
    if (trials >= MAX_TRIALS) return false
    trials += 1
    if (!(await fails(candidate))) return false
    best = candidate
    return true
  }
  for (let size = Math.ceil(best.steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < best.steps.length; ) {
      const without = { steps: best.steps.toSpliced(from, size) }
      if (without.steps.length === 0 || !(await improve(without))) from += size
    }
  }
  for (let index = 0; index < best.steps.length; index += 1) {
    for (const simplify of SIMPLER) {
      const step = best.steps[index]
      const simpler = step && { ...step, ...simplify }
      if (simpler && !isDeepStrictEqual(step, simpler)) await improve({ steps: best.steps.with(index, simpler) })
    }
  }
  return best
}

const SIMPLER: readonly Partial<Step>[] = [
  { changes: 0 },
  { additions: 0 },
  { deletes: 0 },
  { point: 0 },
  { repeats: false },
]
