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

/** Metadata of one broker, as versions of the protocol from 9 on write it. */
class Written {
  readonly #parts: Buffer[] = []

  int(bytes: 1 | 2 | 4, value: number): this {
    const part = Buffer.alloc(bytes)
    part.writeIntBE(value, 0, bytes)
    this.#parts.push(part)
    return this
  }

  /** Behind its length and one. */
  text(text: string): this {
    this.#parts.push(Buffer.from([text.length + 1]), Buffer.from(text))
    return this
  }

  get all(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

const [VERSIONS, METADATA] = [18, 3]

function answerTo(key: number, port: number): Buffer {
  if (key === VERSIONS) {
    const known = new Written().int(2, 0).int(1, 3)
    for (const [of, newest] of [
      [VERSIONS, 3],
      [METADATA, 12],
    ] as const)
      known.int(2, of).int(2, 0).int(2, newest).int(1, 0)
    return known.int(4, 0).int(1, 0).all
  }
  const broker = new Written().int(1, 0).int(4, 0).int(1, 2).int(4, 1).text('127.0.0.1').int(4, port).int(1, 0)
  return broker.int(1, 0).text('cluster').int(4, 1).int(1, 1).int(1, 0).all
}

/** Says which brokers there are, to whoever asks for no more. */
async function startBroker() {
  const sockets: Socket[] = []
  const broker = createServer((socket) => {
    sockets.push(socket)
    let got = Buffer.alloc(0)
    socket.on('error', () => undefined)
    socket.on('data', (data) => {
      got = Buffer.concat([got, data])
      while (got.length >= 4 && got.length >= 4 + got.readInt32BE(0)) {
        const [key, correlation] = [got.readInt16BE(4), got.readInt32BE(8)]
        got = got.subarray(4 + got.readInt32BE(0))
        const answer = answerTo(key, (broker.address() as AddressInfo).port)
        const head = Buffer.alloc(8)
        head.writeInt32BE(answer.length + 4, 0)
        head.writeInt32BE(correlation, 4)
        socket.write(Buffer.concat([head, answer]))
      }
    })
  })
  await once(broker.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (broker.address() as AddressInfo).port,
    end: () => {
      broker.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

describe('a broker that is asked whether it works', () => {
  it('is asked each time, and not remembered', async () => {
    const broker = await startBroker()
    const bus = await openKafkaBus({
      ...{ brokers: [`127.0.0.1:${broker.port}`], mechanism: 'PLAIN', tls: false },
      ...{ partitions: 1, replicas: 1, change_topics: false },
    })
    const ping = () => bus.ping?.(AbortSignal.timeout(60_000))
    await ping()
    await ping()
    broker.end()
    await assert.rejects(async () => ping(), { code: 'bus_unavailable' })
    await bus.close()
  })
})
