/** The live demo where there is no terminal: it writes, kills its runtime, goes on, and finds no row that differs. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { until } from './until.ts'

const ROOT = join(import.meta.dirname, '..')
/** Of the suite's environment; on another machine that reader is skipped, and says so. */
const PYTHON = process.env['SLUICE_TEST_ICEBERG_PYTHON']

let folder = ''

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-live-demo-'))
  // Its databases run as another account where the test is run by root.
  await chmod(folder, 0o755)
})
after(() => rm(folder, { recursive: true, force: true }))

interface Demo {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  out(): string
}

function start(seconds: number): Demo {
  const args = [join(ROOT, 'examples/demo/main.ts'), '--live', '--seconds', String(seconds)]
  const env = { ...process.env, TMPDIR: folder, DEMO_PYTHON: PYTHON ?? '/nowhere/python' }
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  return { child, ended, out: () => out }
}

const STORES = ['lookup', 'lookup, masked', 'timeseries', 'realtime', 'analytics']

it('the live demo kills its runtime, and every store has what the source has', async () => {
  const demo = start(12)
  assert.equal(await demo.ended, 0, demo.out())
  const out = demo.out()
  assert.match(out, /^ +time +epoch +commits +p50 fresh +viewer +developer +rows +PyIceberg$/m)
  assert.match(out, /^ +\d+ s +\d+ +[\d,]+ +[\d.–]+(?: s)? +\[redacted\] +\S.* +[\d,]+ +(?:[\d,]+|–)$/m)
  assert.match(out, /^ +kill -9 of the runtime at \d+ s, /m)
  assert.match(out, /^The runtime was killed \(-9\) .*; answered after [\d.]+ s, new rows after [\d.]+ s\.$/m)
  assert.match(out, /^Freshness, from commit to lookup, of all of them: p50 [\d.]+ s, /m)
  assert.match(out, /answers that contradict another: 0;/)
  assert.match(out, /^Compared with the [\d,]+ rows of the source, both ways, all at epoch \d+:$/m)
  const stores = PYTHON === undefined ? STORES : [...STORES, 'the lake']
  const found = [...out.matchAll(/^ {2}(\S.*?) +(\d+) differing rows {2}\(([\d,]+) rows/gm)]
  assert.deepEqual(
    found.map(([, store, count]) => [store, count]),
    stores.map((store) => [store, '0']),
    out,
  )
  assert.ok(
    found.every(([, , , rows]) => Number(rows?.replace(',', '')) > 1000),
    'nothing is equal to nothing',
  )
  assert.equal(out.includes('skipped: the lake by PyIceberg'), PYTHON === undefined)
  assert.deepEqual(await readdir(folder), [], 'it leaves nothing')
})

it('who ends it early is told the differences, too, and nothing is left', async () => {
  const demo = start(3600)
  await until('rows are read', () => demo.child.exitCode !== null || /^ +\d+ s .*\[redacted\]/m.test(demo.out()))
  demo.child.kill('SIGINT')
  assert.equal(await demo.ended, 0, demo.out())
  assert.match(demo.out(), /^The runtime was not killed: it ended before that\.$/m)
  assert.equal(demo.out().match(/ 0 differing rows /g)?.length, PYTHON === undefined ? 5 : 6, demo.out())
  assert.deepEqual(await readdir(folder), [], 'it leaves nothing')
})

it('a second Ctrl-C ends everything at once', async () => {
  const demo = start(3600)
  await until('it writes', () => demo.child.exitCode !== null || /^ +\d+ s /m.test(demo.out()))
  demo.child.kill('SIGINT')
  // What comes sooner counts as the same: npm hands on what the terminal has sent already.
  await new Promise((resolve) => setTimeout(resolve, 600))
  demo.child.kill('SIGINT')
  const code = await demo.ended
  // On a machine that is quick enough the comparison has come by then.
  assert.ok(code === 130 || code === 0, demo.out())
  assert.deepEqual(await readdir(folder), [], 'it leaves nothing')
})
