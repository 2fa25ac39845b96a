import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Random } from '../../conformance-tests/random.ts'
import { currentGraph, restsOn } from '../../stack/selection/rests-on.ts'
import { SUITES } from '../../stack/suites.ts'
import { drawMutations } from '../mutations/draw.ts'
import type { Mutation } from '../mutations/mutation.ts'
import type { Figures, Outcome, Proof, Request } from '../proof.ts'
import { gaps, judge, type Rests, toldMiss } from './judge.ts'
import { type Recording, readRecording, record, recordSuites } from './recording.ts'
import { runWhole, type Whole } from './whole.ts'

const ROOT = join(import.meta.dirname, '../..')
const COUNT = 200
const LEAST_PERCENT = 98
const MAX_TOLD = 50

interface Wish {
  readonly count: number
  readonly whole: number
  readonly file: string
  readonly isToBeRecorded: boolean
  /** Names by SLUICE_TEST_SUITE whose each process is. Empty: the suites are run one after the other. */
  readonly command: readonly string[]
  readonly suites: readonly string[]
}

function wishOf(args: readonly string[]): Wish {
  const text = { type: 'string' } as const
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { record: text, from: text, suite: { ...text, multiple: true }, count: text, whole: text },
  })
  const file = values.record ?? values.from
  if (file === undefined || (values.record !== undefined && values.from !== undefined)) {
    throw new Error('either --record FILE, or --from FILE of an earlier recording')
  }
  return {
    ...{ file, isToBeRecorded: values.record !== undefined, command: positionals },
    suites: values.suite ?? SUITES.map(({ name }) => name),
    ...{ count: Number(values.count ?? COUNT), whole: Number(values.whole ?? 0) },
  }
}

function restsOfSuites(): Rests {
  const graph = currentGraph()
  return new Map(SUITES.map((suite) => [suite.name, new Set(restsOn(suite, graph))]))
}

/** Of files that some suite has opened: a change of any other is no suite's affair. */
function drawn({ bySuite }: Recording, count: number, random: Random): readonly Mutation[] {
  const opened = new Set([...bySuite.values()].flatMap((files) => [...files]))
  const files = [...opened].filter((file) => existsSync(join(ROOT, file))).sort()
  return drawMutations({ root: ROOT, files }, count, random)
}

async function wholeRuns(mutations: readonly Mutation[], rests: Rests, request: Request): Promise<readonly Whole[]> {
  const runs: Whole[] = []
  for (const mutation of mutations) runs.push(await runWhole(mutation, rests, request))
  return runs
}

function figuresOf(recording: Recording, rests: Rests): Figures {
  const missing = gaps(recording, rests)
  return {
    opened: Object.fromEntries([...recording.bySuite].map(([name, files]) => [name, files.size])),
    suitesNotRecorded: SUITES.filter(({ name }) => !recording.bySuite.has(name)).map(({ name }) => name),
    openedAndNotRestedOn: missing.length,
    firstOfThem: missing.slice(0, MAX_TOLD),
    openedByTheRunnerAlone: recording.byNobody.slice(0, MAX_TOLD),
  }
}

async function run(request: Request): Promise<Outcome> {
  const wish = wishOf(request.args)
  if (wish.isToBeRecorded && wish.command.length > 0) await record(wish.file, wish.command, request)
  else if (wish.isToBeRecorded) await recordSuites(wish.file, wish.suites, request)
  const recording = await readRecording(wish.file)
  const rests = restsOfSuites()
  const random = new Random(request.seed)
  const mutations = drawn(recording, wish.count, random)
  if (mutations.length === 0) throw new Error('no suite is named in the recording, so there is nothing to judge')
  const judged = mutations.map((mutation) => judge(mutation, recording, rests))
  const missed = judged.filter(({ leftOut }) => leftOut.length > 0)
  const percent = ((judged.length - missed.length) * 100) / judged.length
  const whole = await wholeRuns(random.shuffled(mutations).slice(0, wish.whole), rests, request)
  const figures = {
    ...{ mutants: judged.length, coveredPercent: Math.floor(percent * 10) / 10, leastPercent: LEAST_PERCENT },
    ...{ misses: missed.map(toldMiss), whole: whole.map((one) => one.figures) },
    ...figuresOf(recording, rests),
  }
  return { holds: percent >= LEAST_PERCENT && whole.every(({ holds }) => holds), figures }
}

export const selection: Proof = {
  name: 'selection',
  proves: 'A suite that has opened a file is run again when a token of that file changes.',
  costs: 'a run of all suites to record it, as root on Linux with Python; seconds where a recording is there',
  options: [
    '--record FILE   runs the suites one after the other, records what each opens, and judges by it',
    '--suite NAME    records this one, and adds it to what FILE has; may be there many times',
    '--record FILE -- COMMAND…   a command whose processes name their suite in SLUICE_TEST_SUITE',
    '--from FILE     judges by an earlier recording',
    `--count N       so many mutants (${COUNT})`,
    '--whole N       so many of them run in all suites: those that would be left out must pass (0; an hour each)',
  ],
  of: ['{stack,test,runtime,sdk,plugins,conformance-tests,acceptance,examples}/**/*.{ts,js,py,yaml}'],
  run,
}
