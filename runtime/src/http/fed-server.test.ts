/** A server that another listener gives its connections keeps to what one that listens itself does. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineRoute } from './route.ts'
import { createFedServer, type FedOptions } from './server.ts'
import { startTestServer } from './test-server.ts'

const begun = Promise.withResolvers<void>()
const responses = { 200: { description: 'Done.' } }
const common = { method: 'GET', summary: 'x', tags: ['Test'], auth: 'none', responses } as const

const quick = defineRoute({ ...common, path: '/quick', name: 'quick', handler: () => ({ body: 'quick' }) })
const slow = defineRoute({
  ...common,
  path: '/slow',
  name: 'slow',
  async handler() {
    begun.resolve()
    await sleep(300)
    return { body: 'slow' }
  },
})

async function fed(options: FedOptions = {}) {
  const own = await startTestServer([quick, slow])
  const server = createFedServer(own.app, options)
  const listener = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => server.take(socket))
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as { readonly port: number }
  return {
    server,
    join: async (): Promise<Socket> => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      await once(socket, 'connect')
      return socket
    },
    async [Symbol.asyncDispose]() {
      listener.close()
      await server.end(0)
      await own[Symbol.asyncDispose]()
    },
  }
}

const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`

test('who does not come to an end is told so, and who says nothing is let go', async () => {
  await using place = await fed({ headersTimeoutMs: 300, requestTimeoutMs: 600, firstByteTimeoutMs: 200 })
  const [late, silent] = [await place.join(), await place.join()]
  late.write('GET /quick HTTP/1.1\r\nHost: x\r\n')
  assert.match(await text(late), /^HTTP\/1\.1 408 /)
  assert.equal(await text(silent), '')
})

test('what is under way ends in time, and nothing is begun any more', async () => {
  await using place = await fed()
  const [working, idle] = [await place.join(), await place.join()]
  working.write(head('/slow'))
  await begun.promise
  place.server.drain()
  idle.write(head('/quick'))
  const ended = place.server.end(60_000)
  assert.match(await text(idle), /^HTTP\/1\.1 503 [^]*shutting_down/)
  assert.match(await text(working), /^HTTP\/1\.1 200 [^]*"slow"/)
  await ended
})
