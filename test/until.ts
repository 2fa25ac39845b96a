/** Waiting in tests, on machines of any speed. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Far longer than anything takes that is going to happen, and shorter than a test file may take. */
export const LONG_MS = 300_000

/** Looks again and again, until it holds. Fails by its name where that has not come about in five minutes. */
export async function until(what: string | (() => string), holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); !(await holds()); await sleep(10)) {
    if (performance.now() - startedMs > LONG_MS) {
      throw new Error(`it never came about: ${typeof what === 'string' ? what : what()}`)
    }
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
