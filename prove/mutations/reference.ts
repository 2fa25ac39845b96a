/** Mutants of the reference store, drawn by a seed: how many of them the suite catches, by capability, its own defective stores apart. */
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { LEVELS } from '../../conformance-tests/check.ts'
import { Random } from '../../conformance-tests/random.ts'
import { runChild } from '../child.ts'
import type { Figures, Outcome, Proof, Request } from '../proof.ts'
import { drawMutations } from './draw.ts'
import { applied, type Mutation, told } from './mutation.ts'
import type { ReferenceRun } from './reference-run.ts'

const ROOT = join(import.meta.dirname, '../..')
const SOURCES = join(ROOT, 'conformance-tests/reference')
const COUNT = 60
/** The reference passes in a third of it on a slow machine: what takes longer never ends. */
const MUTANT_MS = 180_000

/** What a source of the reference is for, in the words of the capability table; all others are for every store. */
const PARTS: Readonly<Record<string, string>> = {
  'aggregate.ts': 'operation aggregate',
  'containing.ts': 'declared',
  'digest.ts': 'digest',
}

/** `ended`: no check has found a promise broken, and one was ended by the mutant's own error, or the run was. */
type Verdict = 'caught' | 'ended' | 'missed'

interface Tried {
  readonly mutation: Mutation
  readonly verdict: Verdict
  readonly run: ReferenceRun | null
}

/** The reference by itself: its packages are the checkout's, so that both have one SDK. */
async function copyOfReference(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-reference-'))
  await cp(SOURCES, folder, { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  return folder
}

async function tryOne(folder: string, mutation: Mutation, level: string, request: Request): Promise<Tried> {
  const path = join(folder, mutation.file)
  const text = await readFile(path, 'utf8')
  await writeFile(path, applied(text, mutation))
  try {
    const program = join(import.meta.dirname, 'reference-run.ts')
    let run: ReferenceRun | null = null
    const { code } = await runChild(process.execPath, [program, folder, level, String(request.seed)], {
      ...{ cwd: ROOT, timeoutMs: MUTANT_MS, signal: request.signal },
      onLine(line) {
        if (line.startsWith('{"caughtBy"')) run = JSON.parse(line) as ReferenceRun
      },
    })
    return { mutation, verdict: verdictOf(code, run), run }
  } finally {
    await writeFile(path, text)
  }
}

function verdictOf(code: number | null, run: ReferenceRun | null): Verdict {
  if (code !== 0 || run === null) return 'ended'
  if (run.caughtBy !== null) return 'caught'
  return run.ended.length > 0 ? 'ended' : 'missed'
}

function rates(tried: readonly Tried[]): Figures {
  const byPart = Map.groupBy(tried, ({ mutation }) => PARTS[mutation.file] ?? 'every store')
  return Object.fromEntries(
    [...byPart].map(([part, all]) => [
      part,
      { caught: all.filter(({ verdict }) => verdict === 'caught').length, of: all.length },
    ]),
  )
}

/** How many were found first by a check that needs the capability. */
function finders(tried: readonly Tried[]): Figures {
  const found = tried.flatMap(({ run }) => run?.capabilities ?? [])
  return Object.fromEntries([...Map.groupBy(found, (name) => name)].map(([name, all]) => [name, all.length]))
}

async function run(request: Request): Promise<Outcome> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: [...request.args], options: { count: text, level: text, least: text } })
  const level = values.level ?? 'full'
  if (!LEVELS.some((one) => one === level)) throw new Error(`--level is one of ${LEVELS.join(', ')}`)
  const folder = await copyOfReference()
  try {
    const files = (await readdir(folder)).filter((file) => /^(?!conformance)[^.]*\.ts$/.test(file))
    const mutations = drawMutations({ root: folder, files }, Number(values.count ?? COUNT), new Random(request.seed))
    const tried: Tried[] = []
    for (const mutation of mutations) {
      const one = await tryOne(folder, mutation, level, request)
      tried.push(one)
      const by = one.run?.caughtBy ?? one.run?.ended[0]
      request.say(`${tried.length} of ${mutations.length} ${one.verdict}${by ? ` by ${by}` : ''}: ${told(mutation)}`)
    }
    const of = (wanted: Verdict) =>
      tried.filter(({ verdict }) => verdict === wanted).map(({ mutation }) => told(mutation))
    const percent = Math.floor((of('caught').length * 100) / Math.max(1, tried.length))
    const figures = {
      ...{ level, mutants: tried.length, caught: of('caught').length, caughtPercent: percent },
      ...{ byCapability: rates(tried), foundFirstByChecksOf: finders(tried), missed: of('missed'), ended: of('ended') },
    }
    return { holds: percent >= Number(values.least ?? 0), figures }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export const referenceMutations: Proof = {
  name: 'reference-mutations',
  proves: 'The conformance suite finds the reference store wrong when one token of its sources is another.',
  costs: 'about 10 minutes for 60 mutants; those that nothing finds take half a minute each',
  options: [
    `--count N        so many mutants (${COUNT})`,
    '--level LEVEL    of the suite (full)',
    '--least N        percent that must be caught (0): some mutants mean the same as what they were made of',
  ],
  of: ['{sdk,conformance-tests,prove/mutations}/**/*.ts'],
  run,
}
