/** One mutant, and whether a test notices. */
import { runChild } from '../child.ts'
import type { Mutation } from './mutation.ts'
import type { Tests } from './reach.ts'
import type { WorkingCopy } from './working-copy.ts'

/**
 * `caught`: a test failed, or did not end. `missed`: all that come by it passed. `unreached`: no test comes by it.
 * `undecided`: there was no time for all of them.
 */
export type Verdict = 'caught' | 'missed' | 'unreached' | 'undecided'

export interface Trial {
  readonly verdict: Verdict
  /** The test file that failed. */
  readonly by: string | null
}

export interface Limits {
  readonly mutantSeconds: number
  readonly signal: AbortSignal
}

/** A mutant may make a test slower; so many times slower it will never end. */
const SLOWER_TIMES = 5
const START_SECONDS = 60

/** One test file after the other, the nearest first, until one fails. */
export async function tryMutant(
  copy: WorkingCopy,
  mutation: Mutation,
  tests: Tests,
  { mutantSeconds, signal }: Limits,
): Promise<Trial> {
  const deadlineMs = performance.now() + mutantSeconds * 1000
  let passed = 0
  for (const test of tests.candidates(mutation)) {
    if (performance.now() > deadlineMs) return { verdict: 'undecided', by: null }
    const seconds = await tests.secondsBy(test, mutation)
    if (seconds === null) continue
    const options = { cwd: copy.root, timeoutMs: 1000 * (START_SECONDS + SLOWER_TIMES * seconds), signal }
    const mutated = () => runChild(process.execPath, ['test/run.ts', test], options)
    if ((await copy.whileMutated(mutation, mutated)).code !== 0) return { verdict: 'caught', by: test }
    passed += 1
  }
  return { verdict: passed > 0 ? 'missed' : 'unreached', by: null }
}
