/**
 * The packets of MySQL's protocol over a socket: three bytes of length, one of a running number, then the payload. What has come
 * waits in a bounded queue; above it the socket is paused, and TCP tells the server to wait.
 */
import type { Socket } from 'node:net'

/** What the server sent is not what its protocol says. */
export class Garbled extends Error {
  override readonly name = 'Garbled'
}

/** The line has ended while something was expected of it. */
export class LineLost extends Error {
  override readonly name = 'LineLost'
}

export const HEADER_BYTES = 4
/** A payload of that length goes on in the next packet. */
export const MAX_PAYLOAD_BYTES = 0xffffff
const HIGH_WATER_BYTES = 1 << 20
/** Of answers that are kept whole: greetings, errors, descriptions of columns, rows of a catalog. */
const MAX_KEPT_BYTES = 1 << 20

export class Packets {
  readonly #socket: Socket
  #queue: Buffer[] = []
  #queuedBytes = 0
  #wake: (() => void) | null = null
  #ended: Error | null = null
  #sequence = 0

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', this.#onData).on('close', this.#onEnd).on('error', this.#onEnd).on('end', this.#onEnd)
    socket.resume()
  }

  /** Everything that has come and was not consumed, once it is `bytes` long at least. */
  async atLeast(bytes: number): Promise<Buffer> {
    while (this.#queuedBytes < bytes) {
      if (this.#ended) throw this.#ended
      this.#socket.resume()
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const [first] = this.#queue
    if (first !== undefined && this.#queue.length === 1) return first
    const all = Buffer.concat(this.#queue)
    this.#queue = [all]
    return all
  }

  consume(bytes: number): void {
    const [all] = this.#queue
    if (all === undefined) return
    this.#queuedBytes -= bytes
    if (bytes === all.length) this.#queue.shift()
    else this.#queue[0] = all.subarray(bytes)
    if (this.#queuedBytes < HIGH_WATER_BYTES / 2) this.#socket.resume()
  }

  /** Lets go of bytes that need not have come yet. */
  async skip(bytes: number): Promise<void> {
    for (let left = bytes; left > 0; ) {
      const taken = Math.min((await this.atLeast(1)).length, left)
      this.consume(taken)
      left -= taken
    }
  }

  /** The next payload. It is a view of what came, good until the next call. */
  async next(): Promise<Buffer> {
    const header = await this.atLeast(HEADER_BYTES)
    const length = header.readUIntLE(0, 3)
    if (length > MAX_KEPT_BYTES) throw new Garbled('a message that is longer than any of its kind')
    this.count(header[3] ?? 0)
    const all = await this.atLeast(HEADER_BYTES + length)
    this.consume(HEADER_BYTES + length)
    return all.subarray(HEADER_BYTES, HEADER_BYTES + length)
  }

  /** Packets of one exchange are numbered in turn, whoever sends them. */
  count(sequence: number): void {
    if (sequence !== this.#sequence) throw new Garbled('messages are not in their order')
    this.#sequence = (sequence + 1) & 0xff
  }

  /** `isFirst`: it begins an exchange. */
  send(payload: Buffer, isFirst = false): void {
    if (isFirst) {
      if (this.#queuedBytes > 0) throw new Garbled('an answer that nobody has asked for')
      this.#sequence = 0
    }
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUIntLE(payload.length, 0, 3)
    header[3] = this.#sequence
    this.#sequence = (this.#sequence + 1) & 0xff
    this.#socket.write(Buffer.concat([header, payload]))
  }

  /** Gives the socket to somebody else, who may go on from here; what was sent ahead could be anybody's, and is refused. */
  leave(): number {
    this.#socket.pause()
    this.#socket.off('data', this.#onData).off('close', this.#onEnd).off('error', this.#onEnd).off('end', this.#onEnd)
    if (this.#queuedBytes > 0) throw new Garbled('messages that were sent too early')
    return this.#sequence
  }

  /** Goes on where `leave` has ended on another socket. */
  continueFrom(sequence: number): this {
    this.#sequence = sequence
    return this
  }

  readonly #onData = (data: Buffer): void => {
    this.#queue.push(data)
    this.#queuedBytes += data.length
    if (this.#queuedBytes > HIGH_WATER_BYTES) this.#socket.pause()
    this.#notify()
  }

  readonly #onEnd = (): void => {
    this.#ended ??= new LineLost('the line has ended')
    this.#notify()
  }

  #notify(): void {
    this.#wake?.()
    this.#wake = null
  }
}
