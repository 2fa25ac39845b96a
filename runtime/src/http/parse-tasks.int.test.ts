/** What is hostile to read is read in a thread: the event loop goes on, and each sender has one thread at most. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { bundleProgram } from '@sluice/engine'
import { SluiceError, type TableSchema } from '@sluice/sdk'
import { Type } from 'typebox'
import { until } from '../../../test/until.ts'
import type { ManifestContext, ServingType } from '../manifest/context.ts'
import { type ExampleName, exampleContext, exampleFiles } from '../manifest/examples.ts'
import { PARSING_HERE, parsingIn } from '../manifest/parsing.ts'
import { MANIFEST_NAMES } from '../manifest/problem.ts'
import { ParseThreads } from '../parsing/parse-threads.ts'
import { defineRoute } from './route.ts'
import { codeOf, startTestServer, type TestServer } from './test-server.ts'

const PROGRAM = new URL('./parse-tasks.ts', import.meta.url)
const GATES = new URL('../parsing/gates.fixture.ts', import.meta.url)

let folder = ''
let program: URL
let threads: ParseThreads
let server: TestServer

const put = defineRoute({
  method: 'PUT',
  path: '/api/v1/things',
  name: 'putThing',
  summary: 'Put',
  tags: ['Test'],
  auth: 'tenant',
  body: Type.Object({ text: Type.String(), more: Type.Optional(Type.Record(Type.String(), Type.Unknown())) }),
  responses: { 200: { description: 'Its length.' } },
  handler: ({ body }) => ({ body: body.text.length }),
})

const upload = defineRoute({
  method: 'POST',
  path: '/api/v1/uploads',
  name: 'upload',
  summary: 'Upload',
  tags: ['Test'],
  auth: 'tenant',
  multipart: { parts: MANIFEST_NAMES, required: ['product'], maxPartBytes: 256 * 1024 },
  responses: { 200: { description: 'The parts.' } },
  handler: ({ body }) => ({
    body: Object.fromEntries(Object.entries(body).map(([name, text]) => [name, text?.length])),
  }),
})

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-threads-'))
  const options = { dir: folder, name: 'parse-tasks.mjs', requiring: PROGRAM.pathname }
  program = pathToFileURL(await bundleProgram(PROGRAM, options))
  threads = new ParseThreads({ program: async () => program, deadlineMs: 600_000 })
  server = await startTestServer([put, upload], { threads })
})

after(async () => {
  await server?.[Symbol.asyncDispose]()
  await threads?.close()
  await rm(folder, { recursive: true, force: true })
})

const send = (text: string): Promise<Response> =>
  server.ask('/api/v1/things', { method: 'PUT', body: text, headers: { 'content-type': 'application/json' } })

const wide = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}`

describe('long bodies', () => {
  it('are answered as short ones are', async () => {
    const long = 'x'.repeat(100_000)
    assert.equal(await (await send(JSON.stringify({ text: long }))).text(), '100000')
    for (const [text, code] of [
      [`{"text":"${long}"`, 'malformed_body'],
      [`{"text":"${long}","text":""}`, 'malformed_body'],
      [`{"text":"${long}","__proto__":1}`, 'malformed_body'],
      [`{"text":"${long}","txt":1}`, 'validation_failed'],
      [`{"text":"${long}","more":${wide(20_001)}}`, 'body_too_large'],
      [wide(19_000), 'validation_failed'],
      ['['.repeat(500_000), 'body_too_large'],
    ] as const) {
      const response = await send(text)
      assert.ok(response.status >= 400 && response.status < 500)
      assert.equal(await codeOf(response), code, text.slice(-40))
    }
  })

  it('of forms are taken apart, and refused part by part', async () => {
    const form = (parts: Readonly<Record<string, string>>): FormData => {
      const made = new FormData()
      for (const [name, text] of Object.entries(parts)) made.append(name, new Blob([text]), `${name}.yaml`)
      return made
    }
    const ask = (parts: Readonly<Record<string, string>>) =>
      server.ask('/api/v1/uploads', { method: 'POST', body: form(parts) })
    const big = '\r\n--'.repeat(50_000)
    assert.deepEqual(await (await ask({ product: big, output: 'é' })).json(), { product: 200_000, output: 1 })
    assert.equal(await codeOf(await ask({ product: big, products: 'x' })), 'validation_failed')
    assert.equal(await codeOf(await ask({ product: 'x'.repeat(256 * 1024 + 1) })), 'body_too_large')
  })
})

/** Of 256 KiB, each of another kind, that cost the most to read. */
const HOSTILE: Readonly<Record<string, string>> = {
  lists: `a: ${'['.repeat(30)}${'1,'.repeat(28_000)}`,
  keys: Array.from({ length: 14_000 }, (_, at) => `key${at}: "v"`).join('\n'),
  broken: '{'.repeat(50_000),
  quoted: `a: "${'\\u0041'.repeat(40_000)}"`,
  anchors: `a: &a [${'x, '.repeat(400)}]\nb: [${'*a, '.repeat(100)}]`,
}

/** An example, and what is told of each endpoint that the plugin's own check is asked of. */
async function example(name: ExampleName, onCheck: (type: string) => unknown) {
  const files = Object.entries(await exampleFiles(name))
  const texts = Object.fromEntries(files.map(([part, bytes]) => [part, Buffer.from(bytes).toString()]))
  const plain = exampleContext(name)
  const get = (type: string): ServingType | undefined => {
    const known = plain.servingTypes.get(type)
    const check = (config: unknown, schema: TableSchema) => {
      onCheck(type)
      return [{ pointer: '', message: `${type} of ${schema.columns.length}, ${JSON.stringify(config).length}` }]
    }
    return known && { ...known, check }
  }
  return { texts, context: { ...plain, servingTypes: { names: plain.servingTypes.names, get } } }
}

const context: ManifestContext = {
  product: { name: 'orders', domain: 'sales' },
  servingTypes: { names: [], get: () => undefined },
}

describe('manifests', () => {
  it('are read in a thread with the same outcome, what plugins say of them included', async () => {
    const parsing = parsingIn(threads)
    const asked: string[] = []
    for (const name of ['minimal', 'customers', 'readings'] as const) {
      const { texts, context: own } = await example(name, (type) => asked.push(type))
      assert.deepEqual(await parsing.parse('acme', texts, own), await PARSING_HERE.parse('acme', texts, own))
      const places = [{ manifest: 'output', path: ['schema', 0, 'name'] }] as const
      assert.deepEqual(await parsing.locate('acme', texts, places), await PARSING_HERE.locate('acme', texts, places))
    }
    assert.ok(asked.length > 0, 'plugins were asked')
  })

  it('that are hostile do not keep the event loop from its turns', async () => {
    const parsing = parsingIn(threads)
    for (const [name, text] of Object.entries(HOSTILE)) {
      const texts = { output: text.slice(0, 256 * 1024) }
      let turns = 0
      let isDone = false
      const parsed = parsing.parse('acme', texts, context).finally(() => {
        isDone = true
      })
      while (!isDone) {
        turns += 1
        await new Promise((resolve) => setImmediate(resolve))
      }
      assert.equal((await parsed).ok, false)
      // Reading on the event loop would leave it the turns before and after.
      assert.ok(turns > 20, `${name}: the event loop had ${turns} turns`)
    }
  })

  it('fail by what a plugin throws, and the thread goes on', async () => {
    const parsing = parsingIn(threads)
    const { texts, context: own } = await example('customers', () => {
      throw new SluiceError('INTERNAL', 'a plugin failed', { code: 'internal_error' })
    })
    await assert.rejects(parsing.parse('acme', texts, own), { message: 'a plugin failed' })
    assert.equal((await parsing.parse('acme', texts, context)).ok, false)
  })
})

describe('threads', () => {
  const slow = {
    texts: { product: (HOSTILE['lists'] as string).slice(0, 20_000) },
    context: { ...context, servingTypes: [], dashboards: null },
  }

  it('are one for each sender, and senders take turns', async () => {
    await using own = disposable(new ParseThreads({ program: async () => GATES, deadlineMs: 600_000 }))
    const task = (key: string) => {
      const gate = new Int32Array(new SharedArrayBuffer(8))
      const done = own.threads.run({ name: 'gate', input: gate, key })
      // Told to whoever lets it go, not where the test has failed before.
      done.catch(() => undefined)
      const leave = () => {
        Atomics.store(gate, 1, 1)
        Atomics.notify(gate, 1)
        return done
      }
      return { hasBegun: () => Atomics.load(gate, 0) === 1, leave }
    }
    const [a1, a2, a3, b, c] = [task('a'), task('a'), task('a'), task('b'), task('c')]
    await until('a and b have a thread each', () => a1.hasBegun() && b.hasBegun())
    await b.leave()
    await until('c has the thread that b left', c.hasBegun)
    await c.leave()
    assert.deepEqual([a2.hasBegun(), a3.hasBegun()], [false, false], 'a has one thread, though another is free')
    const e = task('e')
    await until('e has the free thread', e.hasBegun)
    const d = task('d')
    await a1.leave()
    await until('a, which has waited longest, has its turn', a2.hasBegun)
    await a2.leave()
    await until('d has its turn before a has another', d.hasBegun)
    assert.equal(a3.hasBegun(), false)
    await Promise.all([e.leave(), d.leave(), a3.leave()])
  })

  it('take no more of one sender than a few', async () => {
    await using own = disposable(
      new ParseThreads({ program: async () => program, mostWaiting: 2, deadlineMs: 600_000 }),
    )
    const run = (key: string) => own.threads.run({ name: 'manifests', input: slow, key })
    const taken = [run('a'), run('a'), run('a')]
    await assert.rejects(run('a'), { code: 'too_many_at_once' })
    await Promise.all([...taken, run('b')])
  })

  it('end at their deadline, or out of memory, and others take their place', async () => {
    for (const limits of [{ deadlineMs: 1 }, { memoryMb: 8, deadlineMs: 600_000 }]) {
      await using own = disposable(new ParseThreads({ program: async () => program, ...limits }))
      const bytes = Buffer.from(`{"text":[${'{"a":[1,2]},'.repeat(4_000)}1]}`)
      const input = 'memoryMb' in limits ? slow : { bytes, schemaJson: null, isExact: true }
      const name = 'memoryMb' in limits ? 'manifests' : 'json'
      for (const _ of [1, 2]) {
        await assert.rejects(own.threads.run({ name, input, key: 'a' }), { code: 'input_too_costly' })
      }
    }
  })

  it('end at their processor time, not while others have the processors', async () => {
    const text = Buffer.from(`{"text":[${'{"a":[1,2]},'.repeat(4_000)}1]}`)
    const costly = { name: 'json', input: { bytes: text, schemaJson: null, isExact: true }, key: 'a' }
    await using short = disposable(new ParseThreads({ program: async () => program, deadlineMs: 1, clockMs: 600_000 }))
    await assert.rejects(short.threads.run(costly), { code: 'input_too_costly' })
    const deadlineMs = 3_000
    await using patient = disposable(new ParseThreads({ program: async () => GATES, deadlineMs, clockMs: 600_000 }))
    const gate = new Int32Array(new SharedArrayBuffer(8))
    const waits = patient.threads.run({ name: 'gate', input: gate, key: 'a' })
    await sleep(deadlineMs + 100)
    Atomics.store(gate, 1, 1)
    Atomics.notify(gate, 1)
    await waits
    await using passed = disposable(new ParseThreads({ program: async () => GATES, clockMs: 1 }))
    await assert.rejects(
      passed.threads.run({ name: 'gate', input: new Int32Array(new SharedArrayBuffer(8)), key: 'a' }),
      {
        code: 'input_too_costly',
      },
    )
  })

  it('forget who went away, and end with the server', async () => {
    const own = new ParseThreads({ program: async () => program, deadlineMs: 600_000 })
    const gone = new AbortController()
    const first = own.run({ name: 'manifests', input: slow, key: 'a' })
    const second = own.run({ name: 'manifests', input: slow, key: 'a', signal: gone.signal })
    gone.abort(new Error('gone'))
    await assert.rejects(second, { message: 'gone' })
    await first
    const third = own.run({ name: 'manifests', input: slow, key: 'a' })
    const fourth = own.run({ name: 'manifests', input: slow, key: 'a' })
    const ends = Promise.all([third, fourth].map((it) => assert.rejects(it, { code: 'shutting_down' })))
    await own.close()
    await ends
    await assert.rejects(own.run({ name: 'manifests', input: slow, key: 'a' }), { code: 'shutting_down' })
  })
})

function disposable(own: ParseThreads) {
  return { threads: own, [Symbol.asyncDispose]: () => own.close() }
}
