import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, describe, it } from 'node:test'
import { openKafkaBus } from './bus.ts'

const ACME = { slug: 'acme', events: 'sluice.acme.', changes: 'sluice-changes.acme.' }
const connections: Socket[] = []
/** Resets whoever has begun to log in, as a broker's machine does when the broker was killed. */
const server = createServer((socket) => {
  connections.push(socket)
  socket.on('error', () => undefined)
  socket.once('data', () => socket.resetAndDestroy())
})
await once(server.listen(0, '127.0.0.1'), 'listening')
after(() => server.close())

describe('a broker that ends while clients log in', () => {
  it('fails the call, and nothing else', async () => {
    const bus = await openKafkaBus({
      brokers: [`127.0.0.1:${(server.address() as AddressInfo).port}`],
      username: 'sluice',
      password: 'for-tests-alone',
      mechanism: 'PLAIN',
      tls: false,
      partitions: 1,
      replicas: 1,
      change_topics: false,
    })
    await assert.rejects(bus.provision(ACME, ['sluice.acme.tenant']), { kind: 'TRANSIENT', code: 'bus_unavailable' })
    assert.ok(connections.length > 0)
    await bus.close()
  })
})
