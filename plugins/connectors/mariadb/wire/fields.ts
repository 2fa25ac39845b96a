/** Numbers and texts as the protocol writes them; whatever runs out of its message is garbled. */
import { Garbled } from './packets.ts'

export class Fields {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at = 0) {
    this.#bytes = bytes
    this.#at = at
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  bytes(count: number): Buffer {
    if (count > this.left) throw new Garbled('a message ends too early')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  /** Of up to six bytes, the lowest first. */
  number(bytes: number): number {
    return this.bytes(bytes).readUIntLE(0, bytes)
  }

  /** Up to a zero byte. */
  text(): string {
    const end = this.#bytes.indexOf(0, this.#at)
    if (end < 0) throw new Garbled('a text has no end')
    const text = this.bytes(end - this.#at).toString('utf8')
    this.#at += 1
    return text
  }

  /** Null where the value is absent. */
  length(): number | null {
    const first = this.number(1)
    if (first < 0xfb) return first
    if (first === 0xfb) return null
    if (first === 0xfc) return this.number(2)
    if (first === 0xfd) return this.number(3)
    throw new Garbled('a length that no message has')
  }

  value(): string | null {
    const length = this.length()
    return length === null ? null : this.bytes(length).toString('utf8')
  }
}
