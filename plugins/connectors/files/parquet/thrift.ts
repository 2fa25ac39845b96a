/** Thrift's compact protocol, as far as Parquet describes itself by it. */
import { type ByteReader, cutOff } from '../byte-reader.ts'

export type ThriftValue = boolean | number | Buffer | readonly ThriftValue[] | ThriftStruct
export type ThriftStruct = ReadonlyMap<number, ThriftValue>

const TYPE = {
  true: 1,
  false: 2,
  byte: 3,
  i16: 4,
  i32: 5,
  i64: 6,
  double: 7,
  binary: 8,
  list: 9,
  set: 10,
  map: 11,
  struct: 12,
  uuid: 13,
} as const
const MAX_DEPTH = 16
/** An empty struct is a byte, and a map of a hundred in memory. */
const MAX_VALUES = 1_000_000

export class Thrift {
  readonly #from: ByteReader
  #left = MAX_VALUES

  constructor(from: ByteReader) {
    this.#from = from
  }

  struct(depth = 0): ThriftStruct {
    const fields = new Map<number, ThriftValue>()
    this.eachField((id, type) => fields.set(id, this.value(type, depth)))
    return fields
  }

  /** `field` has to take or skip the value. */
  eachField(field: (id: number, type: number) => void): void {
    let id = 0
    for (;;) {
      const head = this.#from.byte()
      if (head === 0) return
      id = head >> 4 === 0 ? this.#from.zigzag() : id + (head >> 4)
      field(id, head & 15)
    }
  }

  /** How many elements follow, and their type. */
  listHead(): { readonly count: number; readonly type: number } {
    const head = this.#from.byte()
    const count = head >> 4 === 15 ? this.#from.varint() : head >> 4
    // Each has a byte at least.
    if (count > this.#from.left) throw cutOff()
    return { count, type: head & 15 }
  }

  value(type: number, depth: number): ThriftValue {
    this.#left -= 1
    if (depth > MAX_DEPTH || this.#left < 0) throw cutOff('what it says of itself')
    switch (type) {
      case TYPE.true:
        return true
      case TYPE.false:
        return false
      case TYPE.byte:
        return (this.#from.byte() << 24) >> 24
      case TYPE.i16:
      case TYPE.i32:
      case TYPE.i64:
        return this.#from.zigzag()
      case TYPE.double:
        return this.#from.take(8).readDoubleLE()
      case TYPE.binary:
        return this.#from.take(this.#from.varint())
      case TYPE.uuid:
        return this.#from.take(16)
      case TYPE.list:
      case TYPE.set:
        return this.#list(depth)
      case TYPE.map:
        return this.#map(depth)
      case TYPE.struct:
        return this.struct(depth + 1)
    }
    throw cutOff()
  }

  #list(depth: number): readonly ThriftValue[] {
    const { count, type } = this.listHead()
    const values: ThriftValue[] = []
    for (let at = 0; at < count; at += 1) values.push(this.#element(type, depth + 1))
    return values
  }

  /** Nothing that is needed is a map. */
  #map(depth: number): readonly ThriftValue[] {
    const count = this.#from.varint()
    if (count > this.#from.left) throw cutOff()
    const types = count === 0 ? 0 : this.#from.byte()
    for (let at = 0; at < count; at += 1) {
      this.#element(types >> 4, depth + 1)
      this.#element(types & 15, depth + 1)
    }
    return []
  }

  /** Beside a field's head a boolean has no byte of its own, in a list it has. */
  #element(type: number, depth: number): ThriftValue {
    return type === TYPE.true || type === TYPE.false ? this.#from.byte() === 1 : this.value(type, depth)
  }
}

export function structOf(value: ThriftValue | undefined): ThriftStruct | null {
  return value instanceof Map ? value : null
}

export function listOf(value: ThriftValue | undefined): readonly ThriftValue[] {
  return Array.isArray(value) ? value : []
}

/** Throws BrokenFile for what is no whole number that can be counted with. */
export function countOf(value: ThriftValue | undefined, missing?: number): number {
  const number = value ?? missing
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= 0) return number
  throw cutOff('what it says of itself')
}
