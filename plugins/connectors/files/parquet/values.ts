/** The values of a page, one after the other, each made when it is asked for. */
import { ByteReader, cutOff } from '../byte-reader.ts'
import { BrokenFile, MAX_RECORD_BYTES } from '../records.ts'
import { Delta, Hybrid } from './bits.ts'
import { PHYSICAL, type Physical } from './scalar.ts'
import type { Leaf } from './schema.ts'

export interface Values<T = Physical> {
  next(): T
}

/** What is held of a page beside its bytes is counted. */
export type Charge = (bytes: number) => void

export const ENCODING = {
  plain: 0,
  oldDictionary: 2,
  hybrid: 3,
  delta: 5,
  deltaLengths: 6,
  deltaPrefixes: 7,
  dictionary: 8,
  split: 9,
} as const

type Kind = Pick<Leaf, 'physical' | 'length'>

/** All but those of a dictionary. */
export function valuesOf(encoding: number, bytes: Buffer, leaf: Kind, charge: Charge): Values {
  const { physical } = leaf
  const isWhole = physical === PHYSICAL.int32 || physical === PHYSICAL.int64
  const isBytes = physical === PHYSICAL.bytes || physical === PHYSICAL.fixed
  if (encoding === ENCODING.plain) return plainValues(bytes, leaf)
  if (encoding === ENCODING.hybrid && physical === PHYSICAL.boolean) {
    const bits = new Hybrid(bytes.subarray(4), 1)
    return { next: () => bits.next() === 1 }
  }
  if (encoding === ENCODING.delta && isWhole) {
    const delta = new Delta(new ByteReader(bytes), physical === PHYSICAL.int32 ? 32 : 64)
    return physical === PHYSICAL.int32 ? { next: () => Number(delta.next()) } : delta
  }
  if (encoding === ENCODING.deltaLengths && isBytes) return suffixes(new ByteReader(bytes), charge)
  if (encoding === ENCODING.deltaPrefixes && isBytes) return prefixed(new ByteReader(bytes), charge)
  if (encoding === ENCODING.split && widthOf(leaf) > 1) return split(bytes, leaf)
  throw new BrokenFile(
    `its values are written by the encoding ${encoding}, which is not known for their kind`,
    'Write it with encodings of today, such as PLAIN and RLE_DICTIONARY.',
  )
}

function plainValues(bytes: Buffer, leaf: Kind): Values {
  const { physical } = leaf
  const from = new ByteReader(bytes)
  if (physical === PHYSICAL.boolean) {
    let bit = 0
    return {
      next: () => {
        const byte = bytes[bit >> 3]
        if (byte === undefined) throw cutOff('a page of it')
        const value = ((byte >> (bit & 7)) & 1) === 1
        bit += 1
        return value
      },
    }
  }
  if (physical === PHYSICAL.bytes) return { next: () => from.take(from.take(4).readUInt32LE()) }
  const width = widthOf(leaf)
  return { next: () => fixedValue(from.take(width), 0, physical) }
}

function widthOf({ physical, length }: Kind): number {
  switch (physical) {
    case PHYSICAL.int32:
    case PHYSICAL.float:
      return 4
    case PHYSICAL.int64:
    case PHYSICAL.double:
      return 8
    case PHYSICAL.int96:
      return 12
    default:
      return physical === PHYSICAL.fixed ? length : 0
  }
}

function fixedValue(bytes: Buffer, at: number, physical: number): Physical {
  switch (physical) {
    case PHYSICAL.int32:
      return bytes.readInt32LE(at)
    case PHYSICAL.int64:
      return bytes.readBigInt64LE(at)
    case PHYSICAL.float:
      return bytes.readFloatLE(at)
    case PHYSICAL.double:
      return bytes.readDoubleLE(at)
    default:
      return bytes
  }
}

/** The first bytes of all values, then the second ones, and so on. */
function split(bytes: Buffer, leaf: Kind): Values {
  const width = widthOf(leaf)
  const count = Math.floor(bytes.length / width)
  let at = 0
  return {
    next: () => {
      if (at >= count) throw cutOff('a page of it')
      const value = Buffer.alloc(width)
      for (let part = 0; part < width; part += 1) value[part] = bytes[part * count + at] ?? 0
      at += 1
      return fixedValue(value, 0, leaf.physical)
    },
  }
}

/** All at once: where what follows them begins is known only then. */
function lengths(from: ByteReader, charge: Charge): Int32Array {
  const delta = new Delta(from, 32)
  if (delta.count > MAX_LENGTHS) throw cutOff('a page of it')
  charge(delta.count * LENGTH_BYTES)
  const found = new Int32Array(delta.count)
  for (let at = 0; at < found.length; at += 1) found[at] = Number(delta.next())
  return found
}

const MAX_LENGTHS = 2 ** 31
/** More than they take: making them takes time, too, and nothing else is done meanwhile. */
const LENGTH_BYTES = 16

function suffixes(from: ByteReader, charge: Charge): Values<Buffer> {
  const each = lengths(from, charge)
  let at = 0
  return { next: () => from.take(each[at++] ?? -1) }
}

/** Of each value the beginning is that of the one before. */
function prefixed(from: ByteReader, charge: Charge): Values<Buffer> {
  const shared = lengths(from, charge)
  const rest = suffixes(from, charge)
  let last: Buffer = Buffer.alloc(0)
  let at = 0
  return {
    next: () => {
      const length = shared[at++] ?? -1
      if (length < 0 || length > last.length) throw cutOff('a page of it')
      const suffix = rest.next()
      // What grows by itself is stopped, and what fits no row is not needed whole.
      if (length + suffix.length > MAX_GROWN_BYTES) throw cutOff('a page of it')
      last = length === 0 ? suffix : Buffer.concat([last.subarray(0, length), suffix])
      return last
    },
  }
}

const MAX_GROWN_BYTES = 16 * MAX_RECORD_BYTES

/** The values of a dictionary, in any order. */
export class Dictionary {
  readonly #bytes: Buffer
  readonly #physical: number
  readonly #width: number
  /** Where those begin that have lengths of their own. */
  readonly #starts: Uint32Array | null
  readonly #count: number

  constructor(bytes: Buffer, count: number, leaf: Kind, charge: Charge) {
    this.#bytes = bytes
    this.#physical = leaf.physical
    this.#width = widthOf(leaf)
    this.#count = count
    const least = leaf.physical === PHYSICAL.bytes ? 4 : this.#width
    if (least === 0 || count * least > bytes.length) throw cutOff('a page of it')
    this.#starts = leaf.physical === PHYSICAL.bytes ? startsOf(bytes, count, charge) : null
  }

  at(index: number): Physical {
    if (index >= this.#count) throw cutOff('a page of it')
    if (this.#starts === null)
      return fixedValue(this.#bytes.subarray(index * this.#width, (index + 1) * this.#width), 0, this.#physical)
    const start = this.#starts[index] ?? 0
    return new ByteReader(this.#bytes, start + 4).take(this.#bytes.readUInt32LE(start))
  }
}

function startsOf(bytes: Buffer, count: number, charge: Charge): Uint32Array {
  charge(count * Uint32Array.BYTES_PER_ELEMENT)
  const starts = new Uint32Array(count)
  const from = new ByteReader(bytes)
  for (let at = 0; at < count; at += 1) {
    starts[at] = from.at
    from.take(from.take(4).readUInt32LE())
  }
  return starts
}
