/** A mutation run whole: what would be left out must pass on the mutant. */
import { runChild } from '../child.ts'
import { type Mutation, told } from '../mutations/mutation.ts'
import { WorkingCopy } from '../mutations/working-copy.ts'
import type { Figures, Request } from '../proof.ts'
import { affectedBy, type Rests } from './judge.ts'

const RESULT = /^-- (?<suite>[\w-]+): (?<result>passed|FAILED) in \d+ s$/

export interface Whole {
  readonly holds: boolean
  readonly figures: Figures
}

/** Affected suites run too, to tell whether any notices; they may pass, since not every mutant is a defect of theirs. */
export async function runWhole(mutation: Mutation, rests: Rests, request: Request): Promise<Whole> {
  const affected = affectedBy(mutation.file, rests)
  const others = [...rests.keys()].filter((name) => !affected.includes(name))
  const copy = await WorkingCopy.make(request.signal)
  try {
    return await copy.whileMutated(mutation, async () => {
      const failedOthers = await failedOf(copy, others, request)
      const failedAffected = await failedOf(copy, affected, request)
      const figures = { mutation: told(mutation), affected, failedAffected, unaffected: others, failedOthers }
      return { holds: failedOthers.length === 0, figures }
    })
  } finally {
    await copy.remove()
  }
}

/** What does not say that it passed has failed: a run that breaks off says nothing of the rest. */
async function failedOf(
  copy: WorkingCopy,
  suites: readonly string[],
  { signal, say }: Request,
): Promise<readonly string[]> {
  if (suites.length === 0) return []
  const passed = new Set<string>()
  const hear = (line: string) => {
    const { suite, result } = RESULT.exec(line)?.groups ?? {}
    if (suite === undefined) return
    if (result === 'passed') passed.add(suite)
    say(line)
  }
  await runChild(process.execPath, ['stack/run.ts', ...suites], { cwd: copy.root, signal, onLine: hear })
  return suites.filter((name) => !passed.has(name))
}
