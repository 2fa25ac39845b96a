import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import { Type } from 'typebox'
import { until, withLimits } from '../../../test/until.ts'
import type { TenantCall } from '../flow.ts'
import { eventStream, formatEvent, type ServerEvent } from './event-stream.ts'
import { refuse } from './problem.ts'
import { defineRoute, type ReplyStream } from './route.ts'
import { ANN, codeOf, startTestServer, type TestServer } from './test-server.ts'

/** What ended the source of the latest stream, so that a test sees that it was closed. */
const source = { closed: 0, pulled: 0 }

async function* batches<Row>(count: number, row: (index: number) => Row, failAt = -1): AsyncGenerator<readonly Row[]> {
  try {
    for (let index = 0; index < count; index++) {
      if (index === failAt) throw new SluiceError('TRANSIENT', 'the store went away', { code: 'store_lost' })
      source.pulled += 1
      yield [row(index), row(index)]
    }
  } finally {
    source.closed += 1
  }
}

async function* silence(signal: AbortSignal): AsyncGenerator<ServerEvent> {
  yield { id: '8', event: 'run.started', data: '{"a":1}' }
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}

async function* flood(): AsyncGenerator<ServerEvent> {
  try {
    for (;;) {
      source.pulled += 1
      yield { data: BIG }
    }
  } finally {
    source.closed += 1
  }
}

const BIG = 'x'.repeat(32 * 1024)

/** A line a row, a chunk a batch. */
function rows(source: AsyncIterable<readonly string[]>): ReplyStream {
  return { contentType: 'application/x-ndjson', chunks: chunksOf(source) }
}

async function* chunksOf(source: AsyncIterable<readonly string[]>): AsyncGenerator<string> {
  for await (const batch of source) yield `${batch.join('\n')}\n`
}

const kinds: Readonly<Record<string, (call: TenantCall) => ReplyStream>> = {
  lines: () => rows(batches(2, (i) => `{"i":${i}}`)),
  failing: () => rows(batches(9, () => '{}', 0)),
  faltering: () => rows(batches(9, () => '{}', 3)),
  breaking: () => rows(batches(9, () => BIG, 5)),
  endless: () => rows(batches(Number.POSITIVE_INFINITY, () => BIG)),
  events: ({ signal, tenant, lastEventId }) =>
    eventStream(lastEventId === '8' ? silence(AbortSignal.abort()) : silence(signal), {
      signal,
      tenant,
      heartbeatMs: 20,
    }),
  flood: (call) => eventStream(flood(), call),
  counted: (call) => eventStream(counted(), call),
}

/** One after another, without a pause. */
async function* counted(): AsyncGenerator<ServerEvent> {
  for (let id = 1; ; id += 1) yield { id: String(id), event: 'row', data: BIG }
}

/** Of each event that came: its id, and what it is. */
function eventsIn(text: string): readonly (readonly [id: string, event: string])[] {
  return [...text.matchAll(/^id: (.*)\nevent: (.*)$/gm)].map(([, id = '', event = '']) => [id, event])
}

/** A client that asks and never reads. */
async function stalled(server: TestServer, path: string): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1').pause()
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await server.token()}\r\n\r\n`)
  return socket
}

/** Nothing more is made, as nobody takes it. */
async function standstill(): Promise<void> {
  for (let before = -1; before !== source.pulled; ) {
    before = source.pulled
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const streams = defineRoute({
  method: 'GET',
  path: '/api/v1/streams/{kind}',
  name: 'stream',
  summary: 'Stream',
  tags: ['Test'],
  auth: 'tenant',
  params: Type.Object({ kind: Type.String() }),
  responses: { 200: { description: 'Rows.' } },
  isLive: true,
  handler: (call) => ({ stream: () => (kinds[call.params.kind] as (call: TenantCall) => ReplyStream)(call) }),
})

describe('streams', () => {
  let server: TestServer
  before(async () => {
    server = await startTestServer([streams])
  })
  after(() => server[Symbol.asyncDispose]())

  const read = (kind: string, init?: RequestInit): Promise<Response> => server.ask(`/api/v1/streams/${kind}`, init)

  it('send what they are made of', async () => {
    const response = await read('lines')
    assert.match(response.headers.get('content-type') ?? '', /application\/x-ndjson/)
    assert.equal(await response.text(), '{"i":0}\n{"i":0}\n{"i":1}\n{"i":1}\n')
  })

  it('answer a problem where the first row fails, and cut what breaks later', async () => {
    const failed = await read('failing')
    assert.equal(failed.status, 503)
    assert.equal(await codeOf(failed), 'store_lost')
    const broken = await read('breaking')
    assert.equal(broken.status, 200)
    await assert.rejects(broken.text(), 'a half answer does not look whole')
  })

  it('answer a failure among the first rows as a problem, not as a cut', async () => {
    const response = await read('faltering')
    assert.equal(response.status, 503)
    assert.equal(await codeOf(response), 'store_lost')
  })

  it('make no row for HEAD', async () => {
    source.pulled = 0
    const response = await read('endless', { method: 'HEAD' })
    assert.equal(response.status, 200)
    assert.equal(source.pulled, 0)
  })

  it('end their source when the client goes', async () => {
    source.closed = 0
    const abort = new AbortController()
    const response = await read('endless', { signal: abort.signal })
    await response.body?.getReader().read()
    abort.abort()
    await until('the source is closed', () => source.closed === 1)
    await until('no request is under way', () => server.app.inFlight === 0)
  })

  it('wait for a client that does not read, instead of filling the memory', async () => {
    source.pulled = 0
    const socket = connect(server.port, '127.0.0.1').pause()
    const token = await server.token()
    socket.write(`GET /api/v1/streams/endless HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
    await until('rows are made', () => source.pulled > 2)
    await standstill()
    assert.ok(source.pulled < 2000, `made ${source.pulled} batches of 64 KiB for nobody`)
    socket.destroy()
    await until('no request is under way', () => server.app.inFlight === 0)
  })

  it('give a place back where their client has taken nothing for a while, live or not', async () => {
    await using other = await startTestServer([streams], { writeIdleMs: 300, maxStreamsPerSubject: 1 })
    for (const kind of ['flood', 'endless']) {
      source.closed = 0
      const socket = await stalled(other, `/api/v1/streams/${kind}`)
      await until('it is under way', () => other.app.inFlight === 1)
      await until('it has been given up', () => other.app.inFlight === 0 && source.closed === 1)
      assert.equal((await other.ask(`/api/v1/streams/${kind}`, { method: 'HEAD' })).status, 200, 'its place is free')
      socket.destroy()
    }
  })

  it('stay with who reads, however long there is nothing but heartbeats', async () => {
    await using other = await startTestServer([streams], { writeIdleMs: 1 })
    const response = await other.ask('/api/v1/streams/events')
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    while (text.split('still here').length < 12) text += Buffer.from((await reader.read()).value ?? []).toString()
    await reader.cancel()
  })

  it('do not keep a server that stops, though their client takes nothing', async () => {
    await using other = await startTestServer([streams])
    const socket = await stalled(other, '/api/v1/streams/flood')
    await standstill()
    await other.server.stop(3_600_000)
    socket.destroy()
  })

  it('send events, heartbeats in between, and say where to go on', async () => {
    const abort = new AbortController()
    const response = await read('events', { signal: abort.signal })
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    while (!/still here[\s\S]*still here/.test(text)) text += Buffer.from((await reader.read()).value ?? []).toString()
    assert.match(text, /^retry: 3000\n\nid: 8\nevent: run\.started\ndata: {"a":1}\n\n: still here\n\n/)
    abort.abort()
    await until('no request is under way', () => server.app.inFlight === 0)
    const resumed = await read('events', { headers: { 'last-event-id': '8' } })
    assert.match(await resumed.text(), /id: 8/)
  })

  it('are few of one subject, and take half of a tenant’s places at most', async () => {
    await using other = await startTestServer([streams], { maxStreamsPerSubject: 2, maxInFlightPerTenant: 6 })
    const open = async (user: string): Promise<Response> => {
      const authorization = `Bearer ${await other.token({ ...ANN, user })}`
      return other.ask('/api/v1/streams/events', { headers: { authorization } })
    }
    const held = [await open('ann'), await open('ann')]
    const more = await open('ann')
    assert.deepEqual([more.status, await codeOf(more)], [429, 'too_many_at_once'])
    held.push(await open('bob'))
    assert.equal((await open('cy')).status, 429, 'the tenant has half of its places left for requests')
    assert.deepEqual(
      held.map(({ status }) => status),
      [200, 200, 200],
    )
    await held[0]?.body?.cancel()
    await until('the place is free', async () => {
      const again = await open('ann')
      if (again.status === 200) held.push(again)
      return again.status === 200
    })
    for (const one of held.slice(1)) await one.body?.cancel()
    await until('no request is under way', () => other.app.inFlight === 0)
  })

  for (const kind of ['events', 'counted']) {
    it(`end with the token that opened them, and say so where the last event was: ${kind}`, async () => {
      await withLimits([1_000, 10_000, 60_000], async (lifeMs) => {
        const token = await server.token(ANN, lifeMs / 1000)
        const response = await read(kind, { headers: { authorization: `Bearer ${token}` } })
        const text = await response.text()
        const [last, problem] = eventsIn(text).slice(-2)
        assert.deepEqual(problem, [last?.[0], 'problem'])
        assert.notEqual(last?.[1], 'problem', 'it is told once')
        const { code, detail, remedy } = JSON.parse(text.slice(text.lastIndexOf('data: ') + 'data: '.length))
        assert.deepEqual([code, typeof detail, typeof remedy], ['right_ended', 'string', 'string'])
        assert.ok(text.endsWith('\n\n'), 'it is whole')
      })
    })
  }

  it('say why they end in the place of what was sent last, whenever that is', async () => {
    for (let last = 0; last < 70; last += 1) {
      for (const pause of [async () => undefined, () => setImmediate()]) {
        const ended = new AbortController()
        const source = async function* (): AsyncGenerator<ServerEvent> {
          for (let id = 1; ; id += 1) {
            await pause()
            if (id === last + 1) ended.abort(refuse('right_ended', 'it is over'))
            yield { id: String(id), event: 'row', data: '{}' }
          }
        }
        const chunks = eventStream(source(), { tenant: 'acme', signal: ended.signal }).chunks[Symbol.asyncIterator]()
        let text = ''
        while (!ended.signal.aborted) text += (await chunks.next()).value ?? ''
        const sent = [...text.matchAll(/^(?:id: (\d+)\n)?event: (\w+)$/gm)].map(([, id = '0', event = '']) => [
          id,
          event,
        ])
        const rows = sent.slice(0, -1)
        assert.deepEqual(
          rows,
          rows.map((_, at) => [String(at + 1), 'row']),
        )
        assert.deepEqual(sent.at(-1), [String(rows.length), 'problem'], `ended behind ${last}`)
        assert.ok(rows.length <= last)
      }
    }
  })

  it('end when the server drains', async () => {
    await using other = await startTestServer([streams])
    const response = await other.ask('/api/v1/streams/events')
    const text = response.text()
    await other.server.stop(60_000)
    assert.deepEqual(eventsIn(await text), [['8', 'run.started']])
  })

  it('keep line breaks of events inside their field', () => {
    assert.equal(
      formatEvent({ id: '1\ndata: x', event: 'a\rb', data: 'one\ntwo' }),
      'id: 1data: x\nevent: ab\ndata: one\ndata: two\n\n',
    )
  })

  it('keep the connection for the next request', async () => {
    const socket = connect(server.port, '127.0.0.1')
    const token = await server.token()
    const request = `GET /api/v1/streams/lines HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.write(request)
    await until('the answer is whole', () => text.endsWith('0\r\n\r\n'))
    socket.write(request)
    await until('the second answer comes', () => text.match(/HTTP\/1\.1 200/g)?.length === 2)
    socket.destroy()
    await once(socket, 'close')
  })
})
