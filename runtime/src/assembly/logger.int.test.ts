import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { Registry } from 'prom-client'
import { LONG_MS } from '../../../test/until.ts'
import { logMetrics } from '../metrics/log.ts'
import type { Order } from './logger.fixture.ts'

/** Far more than pipes and the runtime keep. */
const MANY = 10_000

interface Writer {
  readonly child: ChildProcess
  /** Nothing has been read of it before the first one listens. */
  readonly stderr: Readable
  say(order: Order): Promise<number>
  tell(order: Order): void
}

/** By a pipe with a name, as shells and containers make them (theirs block), or by the socket that Node makes. */
async function writer(context: TestContext, by: 'pipe' | 'socket'): Promise<Writer> {
  const fixture = join(import.meta.dirname, 'logger.fixture.ts')
  const pipe = by === 'pipe' ? blockingPipe(context) : null
  const child = spawn(process.execPath, ['--no-warnings', fixture], {
    stdio: ['ignore', 'ignore', pipe?.write ?? 'pipe', 'ipc'],
  })
  if (pipe) closeSync(pipe.write)
  context.after(() => child.kill('SIGKILL'))
  await once(child, 'message')
  const stderr = pipe?.read ?? child.stderr
  assert.ok(stderr)
  return {
    child,
    stderr,
    tell: (order) => void child.send(order),
    async say(order) {
      const answer = once(child, 'message', { signal: AbortSignal.timeout(LONG_MS / 3) })
      child.send(order)
      return (await answer)[0].dropped
    },
  }
}

function blockingPipe(context: TestContext): { readonly read: Readable; readonly write: number } {
  const folder = mkdtempSync(join(tmpdir(), 'log-'))
  context.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'pipe')
  execFileSync('mkfifo', [path])
  const read = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { read: new Socket({ fd: read, readable: true, writable: false }), write: openSync(path, 'w') }
}

interface Line {
  readonly at?: number
  readonly lines?: number
  readonly msg: string
}

/** Everything, to the end. */
async function linesOf({ stderr }: Writer): Promise<readonly Line[]> {
  let text = ''
  for await (const chunk of stderr) text += chunk
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

const numbersOf = (lines: readonly Line[]) => lines.flatMap(({ at }) => (at === undefined ? [] : [at]))
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at)

for (const by of ['pipe', 'socket'] as const) {
  test(`a process whose log nobody reads goes on, and says what was dropped once somebody does: ${by}`, async (context) => {
    const stalled = await writer(context, by)
    const dropped = await stalled.say({ from: 0, lines: MANY })
    assert.ok(dropped > 0 && dropped < MANY, `${dropped} were dropped`)
    assert.equal(await stalled.say({ from: MANY, lines: 5 }), dropped + 5, 'it still answers')
    stalled.tell({ from: MANY + 5, lines: 0, end: 'exit' })
    const lines = await linesOf(stalled)
    const kept = MANY - dropped
    assert.deepEqual(numbersOf(lines), range(0, kept))
    // The last words were dropped as well, or not, as soon as it was read.
    const gap = lines.find(({ lines: gone }) => gone !== undefined)
    assert.ok(gap?.lines === dropped + 5 || gap?.lines === dropped + 6, JSON.stringify(gap))
    assert.equal(lines.indexOf(gap), kept, 'it stands where the lines are missing')
    assert.equal(lines.length - kept, dropped + 6 - gap.lines + 1)
  })

  test(`what waits when a process ends or crashes comes out in order: ${by}`, async (context) => {
    for (const end of ['exit', 'crash'] as const) {
      const stalled = await writer(context, by)
      assert.equal(await stalled.say({ from: 0, lines: 1_000 }), 0, 'more than the pipe takes, less than is kept')
      stalled.tell({ from: 1_000, lines: 500, end })
      const lines = await linesOf(stalled)
      assert.deepEqual(numbersOf(lines), range(0, 1_500))
      assert.deepEqual([lines.length, lines.at(-1)?.msg], [1_501, 'last words'])
    }
  })

  test(`a process whose log is read no more, because the reader has gone, goes on: ${by}`, async (context) => {
    const left = await writer(context, by)
    left.stderr.destroy()
    await left.say({ from: 0, lines: MANY })
    assert.equal(await left.say({ from: 0, lines: 1 }), 0)
    left.tell({ from: 0, lines: 1, end: 'exit' })
    assert.deepEqual(await once(left.child, 'exit'), [0, null])
  })
}

test('who reads gets every line, once and in order', async (context) => {
  const read = await writer(context, 'pipe')
  const lines = linesOf(read)
  for (let from = 0; from < MANY; from += 500) assert.equal(await read.say({ from, lines: 500 }), 0)
  read.tell({ from: MANY, lines: 0, end: 'exit' })
  assert.deepEqual(numbersOf(await lines), range(0, MANY))
})

test('a process that ends while nobody reads does end', async (context) => {
  const stalled = await writer(context, 'pipe')
  await stalled.say({ from: 0, lines: 1_000 })
  stalled.tell({ from: 0, lines: 1, end: 'exit' })
  assert.deepEqual(await once(stalled.child, 'exit'), [0, null])
})

test('dropped lines are counted, from the first look on', async () => {
  const registry = new Registry()
  let dropped = 0
  logMetrics(registry, { dropped: () => dropped })
  const told = async () => /^sluice_log_lines_dropped_total (\d+)$/m.exec(await registry.metrics())?.[1]
  assert.equal(await told(), '0')
  dropped = 7
  assert.deepEqual([await told(), await told()], ['7', '7'])
})

test('with a pipe as standard error, packages that are links are still found where they lie', (context) => {
  const output = new URL('log-output.ts', import.meta.url).href
  const script = `
    import { createRequire } from 'node:module'
    import { standardError } from '${output}'
    const { resolve } = createRequire('${output}')
    // What is resolved first tells Node that this checkout's folder is no link.
    resolve('@sluice/sdk')
    standardError()
    process.stdout.write(resolve('@sluice/lookup/postgresql'))`
  const pipe = blockingPipe(context)
  const found = execFileSync(process.execPath, ['--no-warnings', '--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', pipe.write],
  })
  closeSync(pipe.write)
  pipe.read.destroy()
  assert.equal(found.toString(), join(import.meta.dirname, '../../../plugins/lookup/postgresql/index.ts'))
})
