/** Snappy and LZ4, of which the platform knows neither. They write no byte beyond those that were announced. */
import { ByteReader, cutOff } from './byte-reader.ts'

/** Raw, as Parquet and Avro have it: without frames. */
export function unpackSnappy(packed: Buffer, maxBytes: number): Buffer {
  const from = new ByteReader(packed)
  const bytes = from.varint()
  if (bytes > maxBytes) throw cutOff()
  const to = new Unpacked(bytes)
  while (from.left > 0) {
    const tag = from.byte()
    const kind = tag & 3
    if (kind === 0) {
      const short = tag >> 2
      to.copyFrom(from.take(1 + (short < 60 ? short : littleEndian(from, short - 59))))
    } else if (kind === 1) {
      to.repeat(((tag >> 5) << 8) | from.byte(), 4 + ((tag >> 2) & 7))
    } else to.repeat(littleEndian(from, kind === 2 ? 2 : 4), 1 + (tag >> 2))
  }
  return to.whole()
}

/** A block, without a frame. */
export function unpackLz4(packed: Buffer, bytes: number): Buffer {
  return lz4Block(packed, bytes).whole()
}

/** No byte of a block stands for more, and what it begins with for a few. */
const LZ4_MOST = { timesLonger: 255, bytes: 64 }

/** A block of which nobody has said how long it is, but how long at most: it takes no more memory than it could fill. */
export function unpackLz4UpTo(packed: Buffer, maxBytes: number): Buffer {
  return lz4Block(packed, Math.min(maxBytes, LZ4_MOST.timesLonger * packed.length + LZ4_MOST.bytes)).written()
}

function lz4Block(packed: Buffer, maxBytes: number): Unpacked {
  const from = new ByteReader(packed)
  const to = new Unpacked(maxBytes)
  while (from.left > 0) {
    const token = from.byte()
    to.copyFrom(from.take(longer(from, token >> 4)))
    if (from.left === 0) break
    const distance = littleEndian(from, 2)
    to.repeat(distance, 4 + longer(from, token & 15))
  }
  return to
}

function longer(from: ByteReader, short: number): number {
  let length = short
  if (short < 15) return length
  for (;;) {
    const byte = from.byte()
    length += byte
    if (byte < 255) return length
  }
}

function littleEndian(from: ByteReader, bytes: number): number {
  return from.take(bytes).readUIntLE(0, bytes)
}

class Unpacked {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: number) {
    this.#bytes = Buffer.allocUnsafeSlow(bytes)
  }

  copyFrom(part: Buffer): void {
    if (part.length > this.#bytes.length - this.#at) throw cutOff()
    part.copy(this.#bytes, this.#at)
    this.#at += part.length
  }

  /** What stands `distance` before, and where that is not long enough again and again. */
  repeat(distance: number, length: number): void {
    const bytes = this.#bytes
    if (distance === 0 || distance > this.#at || length > bytes.length - this.#at) throw cutOff()
    if (distance >= length) bytes.copyWithin(this.#at, this.#at - distance, this.#at - distance + length)
    else for (let at = this.#at; at < this.#at + length; at += 1) bytes[at] = bytes[at - distance] ?? 0
    this.#at += length
  }

  written(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }

  /** What was not written has to be no part of it: the memory is not empty. */
  whole(): Buffer {
    if (this.#at !== this.#bytes.length) throw cutOff()
    return this.#bytes
  }
}
