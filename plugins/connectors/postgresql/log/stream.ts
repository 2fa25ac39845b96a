/**
 * The receiving end of START_REPLICATION: the log's messages, whole, one after the other. Takes the place of the
 * driver's parser while they flow; holds no more than a bounded queue and the one message that is on its way.
 */
import type { Connection, Submittable } from 'pg'

export type LogItem =
  | { readonly kind: 'data'; readonly body: Buffer }
  | { readonly kind: 'alive'; readonly end: bigint }

const COPY_DATA = 0x64
const SKIPPED = new Set(['W', 'N', 'S', 'A'].map((type) => type.charCodeAt(0)))
const HEADER_BYTES = 5
const HIGH_WATER_BYTES = 1 << 20
const MAX_QUEUED = 4096
/** A row of the log is held whole; one that is larger would not pass the later stages either. */
const MAX_MESSAGE_BYTES = 64 << 20
const XLOG_HEADER_BYTES = 25
const ALIVE_BYTES = 18

export class LogStream implements Submittable, AsyncIterable<LogItem> {
  readonly #sql: string
  readonly #queue: LogItem[] = []
  #queuedBytes = 0
  #wake: (() => void) | null = null
  #finish: { readonly error: unknown } | null = null
  #connection: Connection | null = null
  #driver: ((chunk: Buffer) => void) | null = null
  #parts: Buffer[] = []
  #partBytes = 0
  /** How many bytes there must be before anything can be read from them. */
  #needed = HEADER_BYTES

  constructor(sql: string) {
    this.#sql = sql
  }

  get running(): boolean {
    return this.#finish === null
  }

  submit(connection: Connection): void {
    this.#connection = connection
    this.#driver = connection.stream.listeners('data')[0] as (chunk: Buffer) => void
    connection.stream.on('data', this.#onData)
    connection.stream.off('data', this.#driver)
    connection.query(this.#sql)
  }

  /** Says that we live, and asks where the server stands; confirms nothing. */
  ping(): void {
    if (!this.running || this.#driver === null) return
    const message = Buffer.alloc(HEADER_BYTES + 34)
    message[0] = COPY_DATA
    message.writeInt32BE(38, 1)
    message[HEADER_BYTES] = 0x72
    message[message.length - 1] = 1
    this.#connection?.stream.write(message)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<LogItem> {
    for (;;) {
      const item = this.#queue.shift()
      if (item !== undefined) {
        this.#release(item)
        yield item
      } else if (this.#finish) {
        throw this.#finish.error
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }

  handleError(error: unknown): void {
    this.#giveBack()
    this.#end(error)
  }

  handleCommandComplete(): void {
    this.#end(new Error('the server sent an end of its log, which has none'))
  }

  handleReadyForQuery(): void {
    this.#end(new Error('the server sent an end of its log, which has none'))
  }

  readonly #onData = (data: Buffer): void => {
    this.#parts.push(data)
    this.#partBytes += data.length
    if (this.#partBytes < this.#needed) return
    const chunk = this.#parts.length === 1 ? data : Buffer.concat(this.#parts)
    this.#parts = []
    this.#partBytes = 0
    try {
      const rest = this.#unpack(chunk)
      if (rest !== null && rest.length > 0) {
        this.#parts.push(rest)
        this.#partBytes = rest.length
      }
    } catch (error) {
      this.#end(error)
      this.#connection?.stream.destroy()
      return
    }
    if (this.#queuedBytes > HIGH_WATER_BYTES || this.#queue.length > MAX_QUEUED) this.#connection?.stream.pause()
  }

  /** What is left, which is less than `#needed`; null where the driver has taken over. */
  #unpack(chunk: Buffer): Buffer | null {
    let at = 0
    for (;;) {
      this.#needed = HEADER_BYTES
      if (chunk.length - at < HEADER_BYTES) return chunk.subarray(at)
      const type = chunk[at] ?? 0
      if (type !== COPY_DATA && !SKIPPED.has(type)) {
        this.#giveBack(chunk.subarray(at))
        return null
      }
      const length = chunk.readUInt32BE(at + 1)
      if (length < 4 || length > MAX_MESSAGE_BYTES) throw new Error('the server sent a message that is too long')
      this.#needed = length + 1
      if (chunk.length - at < this.#needed) return chunk.subarray(at)
      if (type === COPY_DATA) this.#take(chunk.subarray(at + HEADER_BYTES, at + this.#needed))
      at += this.#needed
    }
  }

  #take(body: Buffer): void {
    if (body[0] === 0x77 && body.length > XLOG_HEADER_BYTES) {
      this.#push({ kind: 'data', body: body.subarray(XLOG_HEADER_BYTES) })
    } else if (body[0] === 0x6b && body.length === ALIVE_BYTES) {
      this.#push({ kind: 'alive', end: body.readBigUInt64BE(1) })
      if (body[ALIVE_BYTES - 1] === 1) this.ping()
    } else {
      throw new Error('the server sent no message of a log')
    }
  }

  #giveBack(rest?: Buffer): void {
    const stream = this.#connection?.stream
    const driver = this.#driver
    if (!stream || !driver) return
    this.#driver = null
    stream.on('data', driver)
    stream.off('data', this.#onData)
    stream.resume()
    if (rest && rest.length > 0) driver(rest)
  }

  #push(item: LogItem): void {
    this.#queue.push(item)
    this.#queuedBytes += bytesOf(item)
    this.#notify()
  }

  #release(item: LogItem): void {
    this.#queuedBytes -= bytesOf(item)
    const low = this.#queuedBytes < HIGH_WATER_BYTES / 2 && this.#queue.length < MAX_QUEUED / 2
    if (low && this.#connection?.stream.isPaused()) this.#connection.stream.resume()
  }

  #end(error: unknown): void {
    this.#finish ??= { error }
    this.#notify()
  }

  #notify(): void {
    this.#wake?.()
    this.#wake = null
  }
}

function bytesOf(item: LogItem): number {
  return item.kind === 'data' ? item.body.length : ALIVE_BYTES
}
