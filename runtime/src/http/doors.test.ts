import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { until } from '../../../test/until.ts'
import { networkOf } from './address.ts'
import { defineRoute } from './route.ts'
import { startTestServer, type TestServer } from './test-server.ts'

const who = defineRoute({
  method: 'GET',
  path: '/api/v1/who',
  name: 'who',
  summary: 'Who',
  tags: ['Test'],
  auth: 'tenant',
  responses: { 200: { description: 'Who asks.' } },
  handler: ({ principal }) => ({ body: principal.subject }),
})

/** A connection that keeps what it is answered. */
class Visitor {
  readonly socket: Socket
  answer = ''
  isOpen = false
  isGone = false

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1', () => {
      this.isOpen = true
    })
    this.socket.on('data', (chunk) => {
      this.answer += chunk.toString('latin1')
    })
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.isGone = true
    })
  }

  ask(token = 'none'): void {
    this.answer = ''
    this.socket.write(`GET /api/v1/who HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  }

  async asked(token: string): Promise<this> {
    this.ask(token)
    await until('it is answered', () => this.answer.includes('\r\n\r\n'))
    return this
  }
}

async function opened(server: TestServer, count: number): Promise<Visitor[]> {
  const all: Visitor[] = []
  for (let index = 0; index < count; index++) {
    const visitor = new Visitor(server.port)
    await until('it is connected', () => visitor.isOpen)
    all.push(visitor)
  }
  return all
}

/** In a thread of its own: says what it was answered, or why not. */
const SENDER = `
const { connect } = require('node:net')
const { parentPort, workerData: { port, written } } = require('node:worker_threads')
const socket = connect(port, '127.0.0.1', () =>
  socket.write('GET /api/v1/who HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', () => {
    Atomics.store(written, 0, 1)
    Atomics.notify(written, 0)
  }),
)
socket.once('data', (chunk) => parentPort.postMessage(chunk.toString('latin1')))
socket.once('error', ({ code }) => parentPort.postMessage(code))
socket.once('close', () => parentPort.postMessage('closed'))
`

const goneOf = (visitors: readonly Visitor[]): readonly boolean[] => visitors.map(({ isGone }) => isGone)

function close(visitors: readonly Visitor[]): void {
  for (const { socket } of visitors) socket.destroy()
}

describe('connections', () => {
  it('without a first byte end soon, others stay', async () => {
    await using server = await startTestServer([who], {}, { firstByteTimeoutMs: 2_000 })
    const [silent, speaking] = (await opened(server, 2)) as [Visitor, Visitor]
    speaking.socket.write('GET /api/v1/who HTTP/1.1\r\nHost:')
    await until('the silent one is ended', () => silent.isGone || speaking.isGone)
    assert.deepEqual(goneOf([silent, speaking]), [true, false])
    speaking.socket.write(' x\r\n\r\n')
    await until('the other one is answered', () => speaking.answer.startsWith('HTTP/1.1 401'))
    close([speaking])
  })

  it('whose bytes came while the process was held up stay', async () => {
    const firstByteTimeoutMs = 50
    await using server = await startTestServer([who], {}, { firstByteTimeoutMs })
    const written = new Int32Array(new SharedArrayBuffer(4))
    // Accepted, and then held up until the bytes are there and their time is over.
    const holdUp = (message: unknown) => {
      if ((message as { readonly socket: Socket }).socket.localPort !== server.port) return
      Atomics.wait(written, 0, 0)
      for (const untilMs = performance.now() + 2 * firstByteTimeoutMs; performance.now() < untilMs; );
    }
    subscribe('net.server.socket', holdUp)
    const sender = new Worker(SENDER, { eval: true, workerData: { port: server.port, written } })
    const [heard] = await once(sender, 'message')
    unsubscribe('net.server.socket', holdUp)
    await sender.terminate()
    assert.match(heard, /^HTTP\/1\.1 401 /)
  })

  it('of one address are as many as it may have', async () => {
    await using server = await startTestServer([who], {}, { maxConnectionsPerAddress: 3 })
    const token = await server.token()
    const visitors = await opened(server, 3)
    const refused = new Visitor(server.port)
    await until('the fourth is refused', () => refused.isGone)
    for (const visitor of visitors) assert.match((await visitor.asked(token)).answer, /^HTTP\/1\.1 200/)
    close(visitors.slice(0, 1))
    await until('another one has its place', async () => {
      const next = new Visitor(server.port)
      await until('it is settled', () => next.isOpen || next.isGone)
      next.ask(token)
      await until('it is answered or ended', () => next.answer !== '' || next.isGone)
      if (!next.isGone) visitors.push(next)
      return !next.isGone
    })
    close(visitors)
  })

  it('make room when places are rare: the oldest without a token, and nobody who has one', async () => {
    await using server = await startTestServer([who], {}, { maxConnections: 10 })
    const token = await server.token()
    const visitors = await opened(server, 9)
    const [first, second] = visitors as [Visitor, Visitor]
    await first.asked(token)
    await second.asked('of nobody')
    const newest = await opened(server, 2)
    await until('two are ended', () => goneOf(visitors).filter(Boolean).length === 2)
    assert.deepEqual(goneOf(visitors).slice(0, 4), [false, true, true, false])
    for (const visitor of [first, ...newest]) {
      assert.match((await visitor.asked(token)).answer, /^HTTP\/1\.1 200/)
    }
    close([...visitors, ...newest])
  })
})

it('an address of IPv6 counts with its network', () => {
  assert.equal(networkOf('::ffff:10.0.0.1'), '10.0.0.1')
  assert.equal(networkOf('2001:db8:1:2:3::4'), networkOf('2001:db8:1:2:ffff:0:0:1'))
  assert.notEqual(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'))
})
