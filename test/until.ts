/** Waiting in tests, on machines of any speed. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Far longer than anything takes that is going to happen, and shorter than a test file may take. */
export const LONG_MS = 300_000

const LEAST_PAUSE_MS = 10
const LONGEST_PAUSE_MS = 200
/** Of what a look takes: those who look may not take the processors from what they wait for. */
const PAUSE_PER_LOOK = 8

/** Looks again and again, until it holds. Fails by its name where that has not come about in five minutes. */
export async function until(what: string | (() => string), holds: () => boolean | Promise<boolean>): Promise<void> {
  const startedMs = performance.now()
  for (let lookedMs = startedMs; !(await holds()); lookedMs = performance.now()) {
    const nowMs = performance.now()
    if (nowMs - startedMs > LONG_MS) {
      throw new Error(`it never came about: ${typeof what === 'string' ? what : what()}`)
    }
    await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(LEAST_PAUSE_MS, PAUSE_PER_LOOK * (nowMs - lookedMs))))
  }
}

/**
 * For a limit that one thing must run into and others must not: the scenario runs with the first, and again with a longer
 * one where it failed, since the machine may have been too slow for it. It is the last failure that counts.
 */
export async function withLimits(
  limitsMs: readonly number[],
  scenario: (limitMs: number) => Promise<void>,
): Promise<void> {
  for (const [at, limitMs] of limitsMs.entries()) {
    try {
      return await scenario(limitMs)
    } catch (error) {
      if (at === limitsMs.length - 1) throw error
    }
  }
}
