/** Goes through bytes that somebody else wrote; whatever would lie behind their end is said to be missing. */
import { BrokenFile } from './records.ts'

export const WRITE_ANEW = 'Write it anew under another name, and rename it once it is whole.'

export function cutOff(what = 'it'): BrokenFile {
  return new BrokenFile(`${what} is damaged or cut off`, WRITE_ANEW)
}

export class ByteReader {
  readonly bytes: Buffer
  at: number

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes
    this.at = at
  }

  get left(): number {
    return this.bytes.length - this.at
  }

  byte(): number {
    const byte = this.bytes[this.at]
    if (byte === undefined) throw cutOff()
    this.at += 1
    return byte
  }

  /** Of the same memory. */
  take(length: number): Buffer {
    if (!(length >= 0 && length <= this.left)) throw cutOff()
    const from = this.at
    this.at += length
    return this.bytes.subarray(from, this.at)
  }

  /** Exact below 2^53, and near it above. */
  varint(): number {
    let value = 0
    let scale = 1
    for (let count = 0; count < MAX_VARINT_BYTES; count += 1) {
      const byte = this.byte()
      value += (byte & 127) * scale
      if (byte < 128) return value
      scale *= 128
    }
    throw cutOff()
  }

  zigzag(): number {
    const value = this.varint()
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  /** Of 64 bits, exactly. */
  zigzag64(): bigint {
    const from = this.at
    const near = this.varint()
    if (near <= Number.MAX_SAFE_INTEGER) return BigInt(near % 2 === 0 ? near / 2 : -(near + 1) / 2)
    let value = 0n
    for (let at = this.at - 1; at >= from; at -= 1) value = (value << 7n) | BigInt((this.bytes[at] ?? 0) & 127)
    return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n))
  }
}

const MAX_VARINT_BYTES = 10
