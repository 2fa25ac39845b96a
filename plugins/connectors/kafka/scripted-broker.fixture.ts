/** A broker of one topic with one partition that says what a test has written, and a host whose time a test moves. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type ConnectorHost, SluiceError } from '@sluice/sdk'
import { WireReader, WireWriter } from './wire/bytes.ts'

/** By the key of the request; null: it is left without an answer. */
export type Answers = (api: number, message: Buffer) => Buffer | null

export const APIS = { fetch: 1, offsets: 2, metadata: 3, versions: 18, epochs: 23 } as const
export const TOPIC_ID = '01'.repeat(16)

/** Of each request: the least version and the most. */
const KNOWN = [
  [APIS.fetch, 4, 17],
  [APIS.offsets, 1, 9],
  [APIS.metadata, 0, 12],
  [APIS.epochs, 2, 4],
] as const

export const VERSIONS = KNOWN.reduce(
  (to, versions) => versions.reduce((all, one) => all.int16(one), to),
  new WireWriter().int16(0).int32(KNOWN.length),
).done()

/** One topic, one partition, led by a broker at that address. */
export function metadata(host: string, port: number, brokers = 1): Buffer {
  const to = new WireWriter().noTags().int32(0)
  to.uvarint(brokers + 1)
  for (let id = 0; id < brokers; id += 1) to.int32(id).compactString(host).int32(port).uvarint(0).noTags()
  to.compactString('cluster').int32(0)
  to.uvarint(2).int16(0).compactString('orders').uuid(TOPIC_ID).int8(0)
  to.uvarint(2).int16(0).int32(0).int32(0).int32(0).uvarint(1).uvarint(1).uvarint(1).noTags()
  return to.int32(0).noTags().noTags().done()
}

export function offsets(offset: number): Buffer {
  const to = new WireWriter().noTags().int32(0).uvarint(2).compactString('orders').uvarint(2)
  return to.int32(0).int16(0).int64(-1).int64(offset).int32(0).noTags().noTags().noTags().done()
}

/** Whether `offsets` are asked for the first one, or the end. */
export function asksFirst(message: Buffer): boolean {
  return message.readBigInt64BE(message.length - 11) === -2n
}

export function epochEnd(epoch: number, offset: number): Buffer {
  const to = new WireWriter().noTags().int32(0).uvarint(2).compactString('orders').uvarint(2)
  return to.int16(0).int32(0).int32(epoch).int64(offset).noTags().noTags().noTags().done()
}

export function fetched(records: Buffer, { end = 9, throttleMs = 0 } = {}): Buffer {
  const to = new WireWriter().noTags().int32(throttleMs).int16(0).int32(0).uvarint(2).uuid(TOPIC_ID).uvarint(2)
  to.int32(0).int16(0).int64(end).int64(end).int64(0).uvarint(0).int32(-1)
  to.uvarint(records.length + 1).raw(records)
  return to.noTags().noTags().noTags().done()
}

/** What a question for records says. */
export function fetchAsked(message: Buffer): { readonly offset: number; readonly sees: 'committed' | 'all' } {
  const from = new WireReader(message, 8)
  from.nullableString()
  from.tags()
  from.take(16)
  const sees = from.int8() === 0 ? 'all' : 'committed'
  from.take(8 + 1 + 16 + 1 + 8)
  return { sees, offset: from.int64() }
}

const open: { close(): void }[] = []

export function closeBrokers(): void {
  for (const one of open.splice(0)) one.close()
}

/** Returns its port. */
export async function broker(answers: (port: number) => Answers, raw?: (line: Socket) => void): Promise<number> {
  const server = createServer((line) => {
    open.push({ close: () => line.destroy() })
    line.on('error', () => undefined)
    let bytes = Buffer.alloc(0)
    line.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      while (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE()) {
        const message = bytes.subarray(4, 4 + bytes.readInt32BE())
        bytes = bytes.subarray(4 + message.length)
        if (raw !== undefined) return raw(line)
        const answer = answers((server.address() as AddressInfo).port)(message.readInt16BE(), message)
        if (answer !== null)
          line.write(
            new WireWriter()
              .int32(answer.length + 4)
              .raw(message.subarray(4, 8))
              .raw(answer)
              .done(),
          )
      }
    })
  })
  open.push({ close: () => server.close() })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Goes to this machine alone. */
export function hostWith(clock: ConnectorHost['clock'], asked: string[] = []): ConnectorHost {
  return {
    clock,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    metrics: { count() {}, observe() {} },
    randomBytes: (count: number) => new Uint8Array(count),
    faultPoint: async () => undefined,
    network: {
      resolve: async (name: string, port: number) => {
        asked.push(`${name}:${port}`)
        if (name === '127.0.0.1') return { address: name, family: 4 as const }
        throw new SluiceError('PERMISSION', 'not allowed', { code: 'address_refused', remedy: 'Ask.' })
      },
      allowsCleartextPassword: () => false,
    },
  }
}

const MOST_PAUSE_MS = 1000

/** Pauses are over at once, and time has passed by them; deadlines never come. */
export function hurriedClock(): ConnectorHost['clock'] {
  let ms = 0
  return {
    nowMs: () => ms,
    every: (forMs, run) => {
      if (forMs > MOST_PAUSE_MS) return () => undefined
      const over = setImmediate(() => {
        ms += forMs
        run()
      })
      return () => clearImmediate(over)
    },
  }
}
