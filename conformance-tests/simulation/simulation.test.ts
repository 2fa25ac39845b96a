import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { CheckFailure } from '../check.ts'
import { main } from '../command.ts'
import { Random } from '../random.ts'
import { Redactor } from '../redaction.ts'
import { start } from '../reference/conformance.ts'
import { recordOf } from '../run-record.ts'
import { SABOTEURS } from '../saboteurs/index.ts'
import { runSuite, type SuiteOptions } from '../suite.ts'
import { ACTS, everyAct, parseSchedule, randomSchedule, type Schedule } from './schedule.ts'
import { shrunk } from './shrink.ts'

test('a schedule is the same for the same seed, and as it was once it has been kept', () => {
  const schedule = randomSchedule(new Random(7), 20)
  assert.deepEqual(randomSchedule(new Random(7), 20), schedule)
  assert.notDeepEqual(randomSchedule(new Random(8), 20), schedule)
  assert.deepEqual(parseSchedule(JSON.parse(JSON.stringify(schedule))), schedule)
  assert.deepEqual(new Set(everyAct(new Random(1)).steps.map(({ act }) => act)), new Set(ACTS))
})

test('what is no schedule is not taken for one', () => {
  const [step] = randomSchedule(new Random(1), 1).steps
  for (const steps of [null, {}, [{ ...step, act: 'dance' }], [{ ...step, point: -1 }], [{ ...step, repeats: 1 }]]) {
    assert.equal(parseSchedule({ steps }), null)
  }
})

test('a failing schedule is cut to what fails of it', async () => {
  const schedule = { steps: [...randomSchedule(new Random(3), 9).steps, ...everyAct(new Random(4)).steps] }
  const fails = async ({ steps }: Schedule) => {
    const acts = steps.map(({ act }) => act)
    const first = acts.indexOf('crash')
    return first >= 0 && acts.lastIndexOf('zombie') > first
  }
  assert.ok(await fails(schedule))
  const { steps } = await shrunk(schedule, fails)
  assert.deepEqual(
    steps.map(({ act, changes, additions, deletes, repeats }) => [act, changes, additions, deletes, repeats]),
    [
      ['crash', 0, 0, 0, false],
      ['zombie', 0, 0, 0, false],
    ],
  )
})

test('a store that fails is given with the schedule, and the command plays it again', async (t) => {
  const plugin = SABOTEURS.find(({ name }) => name === 'takes an older epoch')?.plugin as SuiteOptions['plugin']
  const results = await runSuite({ plugin, start, only: ['72'] })
  const [{ error } = {}] = results
  assert.ok(error instanceof CheckFailure)
  assert.ok((error.parts.schedule?.steps.length ?? 99) <= 2, error.message)

  const folder = await mkdtemp(join(tmpdir(), 'sluice-replay-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const facts = {
    plugin: 'reference/memory',
    version: '1',
    sdk: '1',
    suite: '1',
    level: 'core',
    seed: 1,
    date: '',
    replay: '',
  } as const
  await writeFile(join(folder, 'conformance.json'), JSON.stringify(recordOf(facts, results, new Redactor())))
  const saboteurs = JSON.stringify(new URL('../saboteurs/index.ts', import.meta.url).href)
  const fixture = JSON.stringify(new URL('../reference/conformance.ts', import.meta.url).href)
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(
    join(folder, 'index.js'),
    `import { SABOTEURS } from ${saboteurs}
export default SABOTEURS.find(({ name }) => name === 'takes an older epoch').plugin`,
  )
  await writeFile(join(folder, 'conformance.js'), `export { start } from ${fixture}`)
  const lines: string[] = []
  const output = { line: (text: string) => lines.push(text), problem: (text: string) => lines.push(text) }
  assert.equal(await main([folder, '--replay', join(folder, 'conformance.json')], output), 1)
  assert.match(lines.join('\n'), /FAILED +72 .*\n.*CONFLICT was applied/)
  assert.match(await readFile(join(folder, 'conformance.json'), 'utf8'), /"act":"reorder"/)
})
