/** Bytes of a client, taken apart into messages. What it sends is bounded before it is kept. */
import { protocolViolation } from './wire-error.ts'

/** A message of the protocol: its type's letter and what follows its length. A message of the start has no type. */
export interface Frame {
  readonly type: string
  readonly body: Buffer
}

const LENGTH_BYTES = 4
/** What the start holds: names and settings, and tokens only later. */
const MAX_START_BYTES = 10_000
/** Many small chunks take more room than their bytes: so many are joined, and the more the longer what they are joined to. */
const MOST_CHUNKS = 256
const BYTES_A_CHUNK = 128

export class Frames {
  #chunks: Buffer[] = []
  #bytes = 0
  readonly #maxBytes: () => number

  /** @param maxBytes of one message, as it is now */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes
  }

  get bufferedBytes(): number {
    return this.#bytes
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    const first = this.#chunks[0]?.length ?? 0
    if (this.#chunks.length > Math.max(MOST_CHUNKS, first / BYTES_A_CHUNK)) this.#chunks = [Buffer.concat(this.#chunks)]
  }

  /** Pieces that are kept. */
  get chunks(): number {
    return this.#chunks.length
  }

  /** Null until it is whole. Throws 08P01. */
  nextOfStart(): Frame | null {
    return this.#take('', 0, MAX_START_BYTES)
  }

  /** Null until it is whole. Throws 08P01 for a length that no message has. */
  next(): Frame | null {
    if (this.#bytes < 1) return null
    return this.#take(String.fromCharCode(this.#head(1)[0] as number), 1, this.#maxBytes())
  }

  #take(type: string, typeBytes: number, maxBytes: number): Frame | null {
    const head = typeBytes + LENGTH_BYTES
    if (this.#bytes < head) return null
    const length = this.#head(head).readInt32BE(typeBytes)
    if (length < LENGTH_BYTES) throw protocolViolation('a message is shorter than its own length')
    if (length > maxBytes) throw protocolViolation(`a message is longer than ${maxBytes} bytes`)
    const whole = typeBytes + length
    if (this.#bytes < whole) return null
    const bytes = this.#head(whole)
    const rest = (this.#chunks[0] as Buffer).subarray(whole)
    this.#chunks[0] = rest
    if (rest.length === 0) this.#chunks.shift()
    this.#bytes -= whole
    return { type, body: bytes.subarray(head) }
  }

  /** The first bytes, which are there, in one piece. */
  #head(bytes: number): Buffer {
    const [first] = this.#chunks
    if (first !== undefined && first.length >= bytes) return first.subarray(0, bytes)
    const joined = Buffer.concat(this.#chunks)
    this.#chunks = [joined]
    return joined.subarray(0, bytes)
  }
}
