import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runChild } from '../child.ts'
import { WorkingCopy } from '../mutations/working-copy.ts'
import type { Outcome, Proof, Request } from '../proof.ts'
import { type Answers, answersOf, type Difference, onlyIn, type Recorded, unsteadyIn } from './comparison.ts'

const ROOT = join(import.meta.dirname, '../..')
const RECORDER = join(import.meta.dirname, 'recorder.ts')
const TESTS = 'acceptance/!(non-interference|schemathesis).{int,stack}.test.ts'
const RUN_MS = 3_600_000
const SHOWN = 40

/** In a process of its own, since each side has its own suites. */
const PROGRAM = `
  const { runSuite } = await import(process.cwd() + '/stack/suite-run.ts')
  const suite = { name: 'answers', servers: ['runtime'], tests: process.argv.slice(1), expectedSeconds: 600 }
  const { failures } = await runSuite(suite, true)
  if (failures) console.error(failures)
  process.exitCode = failures ? 1 : 0`

async function run({ seed, args, signal, say }: Request): Promise<Outcome> {
  const options = { base: { type: 'string', default: 'HEAD' }, tests: { type: 'string', default: TESTS } } as const
  const { base, tests } = parseArgs({ args: [...args], options }).values
  const copy = await WorkingCopy.make(signal, base)
  const record = (root: string) => answersIn(root, tests, seed, signal)
  try {
    const first = await record(copy.root)
    say(`${base}: ${requestsIn(first)} different requests`)
    const second = await record(copy.root)
    const unsteady = unsteadyIn(first, second)
    say(`${base} once more: ${unsteady.size} requests are answered otherwise from run to run`)
    const now = await record(ROOT)
    say(`here: ${requestsIn(now)} different requests`)
    const added = onlyIn(now, [first, second], unsteady)
    const gone = onlyIn(first, [now], unsteady)
    tell('only here', added, say)
    tell(`only in ${base}`, gone, say)
    const compared = [...now.keys()].filter((request) => first.has(request) && !unsteady.has(request)).length
    const figures = { base, tests, compared, unsteady: unsteady.size, added: added.length, gone: gone.length }
    return { holds: compared > 0 && added.length === 0 && gone.length === 0, figures }
  } finally {
    await copy.remove()
  }
}

const requestsIn = (answers: Answers) => answers.size

function tell(where: string, differences: readonly Difference[], say: Request['say']): void {
  for (const { request, answer } of differences.slice(0, SHOWN)) say(`${where}: ${request}\n${answer}`)
}

async function answersIn(root: string, tests: string, seed: number, signal: AbortSignal): Promise<Answers> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-answers-'))
  try {
    const env = {
      NODE_OPTIONS: `--import=${RECORDER}`,
      SLUICE_TEST_ANSWERS: folder,
      SLUICE_TEST_SEED: String(seed),
    }
    const child = ['--input-type=module', '-e', PROGRAM, tests]
    const { code, tail } = await runChild(process.execPath, child, { cwd: root, env, timeoutMs: RUN_MS, signal })
    if (code !== 0) throw new Error(`the tests failed in ${root}, so their answers say nothing:\n${tail}`)
    const files = await readdir(folder)
    const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
    const lines = texts.flatMap((text) => text.split('\n').filter((line) => line !== ''))
    return answersOf(lines.map((line) => JSON.parse(line) as Recorded))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export const answers: Proof = {
  name: 'answers',
  proves:
    'What the acceptance tests ask is answered as by an earlier commit: status, headers and body, but for words for people, ids, times and measures.',
  costs: 'three times the suite acceptance',
  options: ['--base REVISION  the earlier commit (HEAD)', `--tests GLOB      of acceptance/ (${TESTS})`],
  of: ['runtime/src/**/*.ts', 'plugins/**/*.ts', 'sdk/**/*.ts', 'acceptance/**/*.ts', 'prove/answers/*.ts'],
  run,
}
