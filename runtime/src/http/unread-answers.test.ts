/** Long answers whose clients do not read them: how many lie in memory, who waits for them, and when they are given up. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { until } from '../../../test/until.ts'
import type { HttpDeps } from './app.ts'
import { Exchange } from './exchange.ts'
import { FairGate } from './fair-gate.ts'
import { defineRoute } from './route.ts'
import { ANN, startTestServer, type TestServer } from './test-server.ts'

const MIB = 1024 * 1024
/** More than the kernel keeps of a connection whose client does not read. */
const LONG = { text: `${'x'.repeat(100)}ö€`.repeat(90_000) }
const ASKED = 6

async function serve(deps: Partial<HttpDeps>, timeoutMs?: number) {
  const counts = { made: 0 }
  const read = defineRoute({
    method: 'GET',
    path: '/api/v1/reads/{name}',
    name: 'read',
    summary: 'Read',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ name: Type.String() }),
    responses: { 200: { description: 'Rows.' } },
    handler: async ({ params, signal }) => {
      if (params.name === 'short') return { body: 'short' }
      // On a slow machine its time is over before it begins.
      if (params.name === 'late' && !signal.aborted) await once(signal, 'abort')
      counts.made += 1
      return { body: LONG }
    },
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  })
  const open = defineRoute({
    method: 'GET',
    path: '/open',
    name: 'open',
    summary: 'Open to all',
    tags: ['Test'],
    auth: 'none',
    responses: { 200: { description: 'Pages.' } },
    handler: () => ({ body: LONG }),
  })
  const server = await startTestServer([read, open], deps)
  // What it costs is known from here on.
  assert.deepEqual(await (await server.ask('/api/v1/reads/long')).json(), LONG)
  await until('nothing is under way', () => server.app.inFlight === 0)
  counts.made = 0
  return { server, counts }
}

async function asking(server: TestServer, version = '1.1'): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1').pause()
  socket.on('error', () => undefined)
  const token = await server.token()
  socket.write(`GET /api/v1/reads/long HTTP/${version}\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  return socket
}

describe('long answers that nobody reads', () => {
  it('are few of one tenant; it waits for its own readers, and others do not', async () => {
    const { server, counts } = await serve({ maxUnreadBytes: 11 * MIB })
    await using _ = server
    const sockets: Socket[] = []
    for (let count = 0; count < ASKED; count += 1) sockets.push(await asking(server))
    await until('all are under way', () => server.app.inFlight === ASKED)
    await until('as many are made as may lie there', () => counts.made === 2)
    const authorization = `Bearer ${await server.token({ ...ANN, tenant: 'other' })}`
    for (let count = 0; count < 20; count += 1) {
      assert.equal((await server.ask('/api/v1/reads/short', { headers: { authorization } })).status, 200)
    }
    assert.equal(counts.made, 2, 'nothing of the tenant is begun')
    for (const socket of sockets.splice(0, 2)) socket.destroy()
    await until('two more have their turn', () => counts.made === 4)
    for (const socket of sockets) socket.resume()
    await until('all have theirs', () => counts.made === ASKED && server.app.inFlight === 0)
    for (const socket of sockets) socket.destroy()
  })

  it('are given up after a while, in either version of HTTP', async () => {
    const { server, counts } = await serve({ writeIdleMs: 300 })
    await using _ = server
    for (const version of ['1.1', '1.0']) {
      const socket = await asking(server, version)
      await until('it is made', () => counts.made > 0)
      await until('it is given up', () => server.app.inFlight === 0)
      let bytes = 0
      socket.on('data', (chunk) => {
        bytes += chunk.length
      })
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.resume()
      await closed
      assert.ok(bytes < LONG.text.length, 'it did not come whole')
      counts.made = 0
    }
  })

  it('come whole to who reads, one behind the other on one connection', async () => {
    const { server } = await serve({})
    await using _ = server
    const socket = await asking(server)
    const token = await server.token()
    const line = `GET /api/v1/reads/long HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`
    socket.write(line.repeat(2))
    const chunks: Buffer[] = []
    let bytes = 0
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
    })
    socket.resume()
    const body = JSON.stringify(LONG)
    const length = Buffer.byteLength(body)
    await until('three have come', () => bytes > 3 * length)
    socket.destroy()
    const parts = Buffer.concat(chunks).toString('utf8').split('\r\n\r\n')
    assert.deepEqual(
      parts.slice(1).map((part) => part.slice(0, body.length) === body),
      [true, true, true],
    )
  })
})

it('turns are given by what is unread, and by nothing else, whoever waits', async () => {
  const never = () => new AbortController().signal
  const gate = new FairGate(8, 100)
  assert.equal(gate.enter('a', 1, 1, never), undefined)
  gate.keep('a', 101)
  gate.leave('a', 1)
  let hasBegun = false
  const waits = gate.enter('a', 1, 1, never)?.then(() => {
    hasBegun = true
  })
  assert.ok(waits, 'its own waits')
  await gate.enter('b', 1, 1, never)
  gate.leave('b', 1)
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(hasBegun, false)
  assert.ok(gate.isShort('a'))
  assert.ok(!gate.isShort('b'))
  gate.drop('a', 101)
  await waits
  assert.ok(!gate.isShort('a'))
})

describe('readers who take their time', () => {
  const line = async (server: TestServer, name = 'long') =>
    `GET /api/v1/reads/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await server.token()}\r\n\r\n`

  for (const [what, leave] of Object.entries({
    'they go': (socket: Socket) => socket.destroy(),
    'they end what they send, and take nothing': (socket: Socket) => socket.end(),
    'they take nothing': () => undefined,
  })) {
    it(`leave nothing behind where ${what} while answers wait behind another of their connection`, async () => {
      const { server, counts } = await serve({ maxUnreadBytes: 11 * MIB, writeIdleMs: 300 })
      await using _ = server
      const socket = await asking(server)
      socket.write((await line(server)).repeat(2))
      await until('as many are made as may lie there', () => counts.made === 2)
      leave(socket)
      await until('nothing is under way', () => server.app.inFlight === 0)
      assert.equal((await server.ask('/api/v1/reads/short')).status, 200)
      socket.destroy()
    })
  }

  it('keep nobody out, with a token or without', async () => {
    const { server } = await serve({ maxInFlight: ASKED })
    await using _ = server
    const sockets: Socket[] = []
    for (let count = 0; count < ASKED; count += 1) {
      const socket = count % 2 === 0 ? await asking(server) : connect(server.port, '127.0.0.1').pause()
      if (count % 2 === 1) socket.write('GET /open HTTP/1.1\r\nHost: x\r\n\r\n')
      sockets.push(socket)
    }
    await until('all are under way', () => server.app.inFlight === ASKED)
    const { status } = await server.ask('/api/v1/reads/short')
    for (const socket of sockets) socket.destroy()
    assert.equal(status, 200)
    await until('nothing is under way', () => server.app.inFlight === 0)
  })

  it('get an answer that came late whole, as it would have come in one piece', async () => {
    const { server } = await serve({}, 200)
    await using _ = server
    assert.deepEqual(await (await server.ask('/api/v1/reads/late')).json(), LONG)
  })
})

/** An answer that has begun, and has bytes waiting; what became of it. */
function unread(socket: object | null) {
  const cut: string[] = []
  const response = {
    socket,
    headersSent: true,
    destroyed: false,
    writableNeedDrain: true,
    destroy: () => cut.push('cut'),
  }
  const request = { headers: {}, httpVersionMajor: 1, httpVersionMinor: 1, socket: {} }
  const exchange = new Exchange(request as unknown as IncomingMessage, response as unknown as ServerResponse)
  const late = (times: number): readonly string[] => {
    for (let count = 0; count < times; count += 1) {
      assert.ok(count === 0 || exchange.deadlineMs > performance.now())
      exchange.onDeadline()
    }
    return cut
  }
  return { exchange, late, response }
}

describe('an answer of which nothing is taken', () => {
  it('has its whole time from the moment on at which its connection is its own', () => {
    const { late, response } = unread(null)
    late(2)
    response.socket = {}
    assert.deepEqual(late(1), [], 'the answer before it has gone a moment ago')
    assert.deepEqual(late(1), ['cut'])
  })

  it('stays ten times as long where it holds nothing but its bytes, until others wait for their room', () => {
    const { exchange, late } = unread({})
    exchange.awaitTaken(true)
    assert.deepEqual(late(8), [])
    exchange.awaitTaken(true)
    assert.deepEqual(late(9), [], 'what is taken begins it anew')
    assert.deepEqual(late(1), ['cut'])

    const other = unread({})
    other.exchange.awaitTaken(true)
    assert.deepEqual(other.late(3), [])
    other.exchange.isInTheWay = () => true
    assert.deepEqual(other.late(1), ['cut'])
  })

  it('ends with what makes its rows, and at the end of a stream, as soon as before', () => {
    const rows = unread({})
    rows.exchange.awaitTaken(false)
    assert.deepEqual(rows.late(1), ['cut'])
    const live = unread({})
    live.exchange.isLive = true
    live.exchange.awaitTaken(true)
    live.exchange.endBy(performance.now())
    assert.deepEqual(live.late(1), ['cut'])
  })
})
