import { parseArgs } from 'node:util'
import { Random } from '../../conformance-tests/random.ts'
import type { Outcome, Proof, Request } from '../proof.ts'
import { drawMutations } from './draw.ts'
import { movedTo } from './moved.ts'
import { type Mutation, told } from './mutation.ts'
import { Tests } from './reach.ts'
import { type Limits, type Trial, tryMutant, type Verdict } from './trial.ts'
import { WorkingCopy } from './working-copy.ts'

const COUNT = 100
const MUTANT_SECONDS = 240
const NO_SOURCES = /\.(?:test|fixture)\.ts$|(?:^|\/)testing\.ts$/

interface Wish {
  readonly count: number
  readonly files: readonly string[]
  readonly tests: readonly string[]
  readonly base: string | undefined
  readonly leastPercent: number
  readonly mutantSeconds: number
}

interface Tried extends Trial {
  readonly mutation: Mutation
}

function wishOf(args: readonly string[]): Wish {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ files: { ...text, multiple: true }, tests: { ...text, multiple: true }, base: text },
      ...{ count: text, least: text, seconds: text },
    },
  })
  if (values.files === undefined)
    throw new Error('--files GLOB names the sources to mutate; it may be there many times')
  return {
    count: Number(values.count ?? COUNT),
    files: values.files,
    tests: values.tests ?? [],
    base: values.base,
    leastPercent: Number(values.least ?? 0),
    mutantSeconds: Number(values.seconds ?? MUTANT_SECONDS),
  }
}

async function tryAll(
  copy: WorkingCopy,
  mutations: readonly Mutation[],
  wish: Wish,
  request: Request,
): Promise<readonly Tried[]> {
  const tests = new Tests(copy, wish.tests, request)
  const limits: Limits = { mutantSeconds: wish.mutantSeconds, signal: request.signal }
  const tried: Tried[] = []
  for (const mutation of mutations) {
    const trial = await tryMutant(copy, mutation, tests, limits)
    tried.push({ ...trial, mutation })
    const by = trial.by === null ? '' : ` by ${trial.by}`
    request.say(`${tried.length} of ${mutations.length} ${trial.verdict}${by}: ${told(mutation)}`)
  }
  return tried
}

/** What the revision's tests catch of those that today's do not. */
async function caughtBefore(
  copy: WorkingCopy,
  missed: readonly Mutation[],
  wish: Wish & { readonly base: string },
  request: Request,
): Promise<Readonly<Record<'lost' | 'notThere', readonly string[]>>> {
  const before = await WorkingCopy.make(request.signal, wish.base)
  try {
    const texts = new Map<string, string>()
    for (const file of before.matching(['**/*.{ts,js,py,yaml,yml}'])) texts.set(file, await before.read(file))
    const moved = new Map<Mutation, Mutation | null>()
    for (const mutation of missed) {
      const line = (await copy.read(mutation.file)).split('\n')[mutation.line - 1] ?? ''
      moved.set(mutation, movedTo(mutation, line, texts))
    }
    const there = [...moved.values()].filter((mutation) => mutation !== null)
    const tried = await tryAll(before, there, wish, request)
    return {
      lost: tried.filter(({ verdict }) => verdict === 'caught').map(({ mutation, by }) => `${told(mutation)} by ${by}`),
      notThere: [...moved].filter(([, found]) => found === null).map(([mutation]) => told(mutation)),
    }
  } finally {
    await before.remove()
  }
}

async function run(request: Request): Promise<Outcome> {
  const wish = wishOf(request.args)
  const copy = await WorkingCopy.make(request.signal)
  try {
    const files = copy.matching(wish.files).filter((file) => !NO_SOURCES.test(file))
    const mutations = drawMutations({ root: copy.root, files }, wish.count, new Random(request.seed))
    if (mutations.length === 0) throw new Error(`${wish.files.join(', ')}: there is nothing to mutate`)
    const tried = await tryAll(copy, mutations, wish, request)
    const of = (wanted: Verdict) => tried.filter(({ verdict }) => verdict === wanted).map(({ mutation }) => mutation)
    const caught = of('caught').length
    const percent = Math.floor((caught * 100) / tried.length)
    const missed = [...of('missed'), ...of('unreached')]
    const { base } = wish
    const before = base === undefined ? null : await caughtBefore(copy, missed, { ...wish, base }, request)
    const figures = {
      ...{ files: files.length, mutants: tried.length, caught, caughtPercent: percent },
      ...{ missed: of('missed').map(told), unreached: of('unreached').map(told), undecided: of('undecided').map(told) },
      ...(base === undefined || before === null ? {} : { base, ...before }),
    }
    return { holds: percent >= wish.leastPercent && (before?.lost.length ?? 0) === 0, figures }
  } finally {
    await copy.remove()
  }
}

export const mutations: Proof = {
  name: 'mutations',
  proves: 'Tests notice when one token of a source is another; with --base also that none of that was lost since.',
  costs: 'about a minute a mutant at first, and less when the tests have been explored',
  options: [
    '--files GLOB     sources to mutate; may be there many times',
    '--tests GLOB     test files to try; without it those of npm test that name such a source, however far',
    `--count N        so many mutants (${COUNT})`,
    `--seconds N      no further tests of one mutant after so long (${MUTANT_SECONDS}), exploring them included`,
    '--least N        percent that must be caught (0)',
    '--base REVISION  also tries what is not caught on the tests and sources of that commit',
  ],
  of: ['{sdk,runtime,plugins,conformance-tests,packaging,test,deploy}/**/*.{ts,yaml}', 'package-lock.json'],
  run,
}
