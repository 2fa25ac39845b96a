/**
 * The receiving end of START_REPLICATION: the log's messages, whole, one after the other. Holds no more than its
 * queue and the one message that is on its way.
 */
import { OutOfTime } from '../../server/deadline.ts'
import { COPY_DATA, HEADER_BYTES, Receiver } from '../receiver.ts'

export type LogItem =
  | { readonly kind: 'data'; readonly body: Buffer }
  | { readonly kind: 'alive'; readonly end: bigint }

const COPY_DONE = Buffer.from([0x63, 0, 0, 0, 4])
const SKIPPED = new Set(['W', 'N', 'S', 'A'].map((type) => type.charCodeAt(0)))
/** A row of the log is held whole; one that is larger would not pass the later stages either. */
const MAX_MESSAGE_BYTES = 64 << 20
const XLOG_HEADER_BYTES = 25
const ALIVE_BYTES = 18

export class LogStream extends Receiver<LogItem> {
  #parts: Buffer[] = []
  #partBytes = 0
  /** How many bytes there must be before anything can be read from them. */
  #needed = HEADER_BYTES
  /** Whether anything has come since that was asked last. */
  #hasNews = true
  #left: ((isOver: boolean) => void) | null = null

  constructor(sql: string) {
    super(sql, bytesOf)
  }

  /** Says that we live, and asks where the server stands; confirms nothing. */
  ping(): void {
    // After its end nothing may be said.
    if (this.#left !== null) return
    const message = Buffer.alloc(HEADER_BYTES + 34)
    message[0] = COPY_DATA
    message.writeInt32BE(38, 1)
    message[HEADER_BYTES] = 0x72
    message[message.length - 1] = 1
    this.send(message)
  }

  /** To be called every so often: ends the reading where nothing has come since the last time, though it was waited for. */
  expectNews(everyMs: number): void {
    if (this.isListening && !this.#hasNews) this.breakOff(new OutOfTime(everyMs))
    this.#hasNews = !this.isListening
  }

  /**
   * Says that nothing more is wanted, and resolves when the server has let go of the slot; confirms nothing. False where it
   * would not hear of it by that: what it has sent already waits to be taken.
   */
  leave(): Promise<boolean> {
    if (!this.isListening) return Promise.resolve(!this.running)
    this.send(COPY_DONE)
    return new Promise((resolve) => {
      this.#left = resolve
    })
  }

  override handleCommandComplete(): void {
    this.end({})
  }

  override handleReadyForQuery(): void {
    this.end({})
    this.#left?.(true)
  }

  protected override checkEnd(): void {
    throw new Error('the server sent an end of its log, which has none')
  }

  protected override receive(data: Buffer): void {
    this.#hasNews = true
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
      this.breakOff(error)
    }
  }

  /** What is left, which is less than `#needed`; null where the driver has taken over. */
  #unpack(chunk: Buffer): Buffer | null {
    let at = 0
    for (;;) {
      this.#needed = HEADER_BYTES
      if (chunk.length - at < HEADER_BYTES) return chunk.subarray(at)
      const type = chunk[at] ?? 0
      if (type !== COPY_DATA && !SKIPPED.has(type)) {
        this.giveBack(chunk.subarray(at))
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
    if (this.#left !== null) return
    if (body[0] === 0x77 && body.length > XLOG_HEADER_BYTES) {
      this.push({ kind: 'data', body: body.subarray(XLOG_HEADER_BYTES) })
    } else if (body[0] === 0x6b && body.length === ALIVE_BYTES) {
      this.push({ kind: 'alive', end: body.readBigUInt64BE(1) })
      if (body[ALIVE_BYTES - 1] === 1) this.ping()
    } else {
      throw new Error('the server sent no message of a log')
    }
  }
}

function bytesOf(item: LogItem): number {
  return item.kind === 'data' ? item.body.length : ALIVE_BYTES
}
