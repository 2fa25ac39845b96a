/** Whole numbers as Parquet packs them, one after the other: a run of a billion costs no memory. */
import { ByteReader, cutOff } from '../byte-reader.ts'

/** Runs of one value, and values of few bits (RLE / bit-packing hybrid): levels, indexes of dictionaries, booleans. */
export class Hybrid {
  readonly #from: ByteReader
  readonly #width: number
  #runLeft = 0
  #runValue = 0
  /** Of the values of few bits: how many are left, and where the next begins, in bits from the start. */
  #packedLeft = 0
  #bit = 0

  constructor(bytes: Buffer, width: number) {
    if (width > 32) throw cutOff()
    this.#from = new ByteReader(bytes)
    this.#width = width
  }

  next(): number {
    for (;;) {
      if (this.#runLeft > 0) {
        this.#runLeft -= 1
        return this.#runValue
      }
      if (this.#packedLeft > 0) {
        this.#packedLeft -= 1
        const value = bitsAt(this.#from.bytes, this.#bit, this.#width)
        this.#bit += this.#width
        return value
      }
      this.#begin()
    }
  }

  #begin(): void {
    const head = this.#from.varint()
    if (head % 2 === 0) {
      this.#runLeft = head / 2
      this.#runValue = 0
      const bytes = Math.ceil(this.#width / 8)
      for (let at = 0; at < bytes; at += 1) this.#runValue += this.#from.byte() * 2 ** (8 * at)
      return
    }
    const groups = (head - 1) / 2
    this.#bit = this.#from.at * 8
    this.#packedLeft = groups * 8
    // The last group may lack what it would be filled up with; a value that is missing is found where it is read.
    this.#from.at += Math.min(groups * this.#width, this.#from.left)
  }
}

/** Of at most 32 bits, the lowest first. */
function bitsAt(bytes: Buffer, bit: number, width: number): number {
  let at = bit >> 3
  let shift = bit & 7
  // Beyond 2^31 bits a shift would have cut it.
  if (bit >= 2 ** 31) at = Math.floor(bit / 8)
  let value = 0
  let scale = 1
  for (let left = width; left > 0; ) {
    const byte = bytes[at]
    if (byte === undefined) throw cutOff()
    const taken = Math.min(8 - shift, left)
    value += ((byte >> shift) & ((1 << taken) - 1)) * scale
    scale *= 2 ** taken
    left -= taken
    shift = 0
    at += 1
  }
  return value
}

function wideBitsAt(bytes: Buffer, bit: number, width: number): bigint {
  if (width <= 32) return BigInt(bitsAt(bytes, bit, width))
  return BigInt(bitsAt(bytes, bit, 32)) | (BigInt(bitsAt(bytes, bit + 32, width - 32)) << 32n)
}

/** Differences to the value before (DELTA_BINARY_PACKED), of 64 bits or of 32. */
export class Delta {
  readonly count: number
  readonly #from: ByteReader
  readonly #bits: 32 | 64
  readonly #perBlock: number
  readonly #miniblocks: number
  #value: bigint
  #given = 0
  #inBlock = 0
  #least = 0n
  #widths: Buffer = Buffer.alloc(0)
  #start = 0

  constructor(from: ByteReader, bits: 32 | 64) {
    this.#from = from
    this.#bits = bits
    this.#perBlock = from.varint()
    this.#miniblocks = from.varint()
    this.count = from.varint()
    this.#value = from.zigzag64()
    const each = this.#perBlock / this.#miniblocks
    if (!Number.isSafeInteger(each) || each < 1 || each % 8 !== 0 || this.#perBlock > MAX_PER_BLOCK) throw cutOff()
  }

  next(): bigint {
    if (this.#given >= this.count) throw cutOff()
    if (this.#given > 0) this.#value = BigInt.asIntN(this.#bits, this.#value + this.#difference())
    this.#given += 1
    return this.#value
  }

  #difference(): bigint {
    const perMini = this.#perBlock / this.#miniblocks
    const inMini = this.#inBlock % perMini
    if (this.#inBlock === 0) {
      this.#least = this.#from.zigzag64()
      this.#widths = this.#from.take(this.#miniblocks)
    }
    const width = this.#widths[Math.floor(this.#inBlock / perMini)] ?? 0
    if (inMini === 0) {
      if (width > 64) throw cutOff()
      this.#start = this.#from.at * 8
      this.#from.at += Math.min((perMini * width) / 8, this.#from.left)
    }
    this.#inBlock = (this.#inBlock + 1) % this.#perBlock
    return this.#least + wideBitsAt(this.#from.bytes, this.#start + inMini * width, width)
  }
}

const MAX_PER_BLOCK = 1024 * 1024
