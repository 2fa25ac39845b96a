/** What an Avro file says of its records: how each value is read, of which type it is, and its text. */
import type { LogicalType } from '@sluice/sdk'
import { type ByteReader, cutOff } from '../byte-reader.ts'
import { BrokenFile, MAX_RECORD_BYTES } from '../records.ts'
import {
  binaryText,
  dayText,
  decimalType,
  type Fraction,
  floatText,
  instantText,
  intervalText,
  jsonOf,
  timeOfDayText,
  utf8Text,
  uuidText,
  wideDecimalText,
} from '../typed-text.ts'

/** What one row may still take; documents beyond it are gone through and not kept. */
export interface Room {
  left: number
  parts: number
}

export interface AvroValue {
  /** Of a column; null: there is never a value. */
  readonly type: LogicalType | null
  /** Whether a column of it shows documents. */
  readonly isDocument: boolean
  /** The text of the next value, null where it is none. */
  text(from: ByteReader, room: Room): string | null
}

export interface AvroField extends AvroValue {
  readonly name: string
}

const MAX_DEPTH = 32
const MAX_SCHEMAS = 20_000
const MAX_SYMBOLS = 100_000
/** A list of nothing but nulls has no bytes, and could go on for ever. */
const MAX_PARTS_A_ROW = 1_000_000

type Schema = Readonly<Record<string, unknown>>

export function fieldsOf(schema: unknown): readonly AvroField[] {
  const names = new Names()
  const record = names.define(schema, '')
  if (record?.['type'] !== 'record') throw new BrokenFile('its values are no records', 'Write records.')
  return names.fields(record)
}

/** As documents show it. */
function shown(value: AvroValue, from: ByteReader, room: Room): string {
  room.parts += 1
  if (room.parts > MAX_PARTS_A_ROW)
    throw new BrokenFile(`a row has more than ${MAX_PARTS_A_ROW} values`, 'Write shorter lists, or more rows.')
  const text = value.text(from, room)
  if (text === null) return 'null'
  const part = value.isDocument ? text : jsonOf(text, value.type ?? 'string')
  if (!value.isDocument) room.left -= part.length + 1
  return room.left < 0 ? '' : part
}

class Names {
  readonly #named = new Map<string, AvroValue>()
  #schemas = 0

  /** A record's own name may stand within it. */
  define(schema: unknown, space: string): Schema | null {
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return null
    const { name, namespace } = schema as Schema
    if (typeof name !== 'string') return schema as Schema
    const own = name.includes('.')
      ? name.slice(0, name.lastIndexOf('.'))
      : typeof namespace === 'string'
        ? namespace
        : space
    return { ...schema, namespace: own, name: name.slice(name.lastIndexOf('.') + 1) }
  }

  fields(record: Schema, depth = 0): readonly AvroField[] {
    const { fields, namespace } = record
    if (!Array.isArray(fields)) throw wrongSchema()
    return fields.map((field: unknown) => {
      const { name, type } = (field ?? {}) as Schema
      if (typeof name !== 'string') throw wrongSchema()
      const value = this.#value(type, String(namespace ?? ''), depth + 1)
      return { name, type: value.type, isDocument: value.isDocument, text: (from, room) => value.text(from, room) }
    })
  }

  #value(schema: unknown, space: string, depth: number): AvroValue {
    this.#schemas += 1
    if (depth > MAX_DEPTH || this.#schemas > MAX_SCHEMAS)
      throw new BrokenFile('its schema is too large', `Write it with at most ${MAX_DEPTH} levels.`)
    if (typeof schema === 'string') return this.#byName(schema, space)
    if (Array.isArray(schema)) return this.#union(schema, space, depth)
    const about = this.define(schema, space)
    const type = about?.['type']
    if (about === null) throw wrongSchema()
    if (typeof type === 'object') return this.#value(type, space, depth + 1)
    switch (type) {
      case 'record':
      case 'error':
        return this.#record(about, depth)
      case 'enum':
        return this.#keep(about, enumOf(about))
      case 'fixed':
        return this.#keep(about, fixedOf(about))
      case 'array':
        return arrayOf(this.#value(about['items'], space, depth + 1))
      case 'map':
        return mapOf(this.#value(about['values'], space, depth + 1))
    }
    if (typeof type !== 'string') throw wrongSchema()
    return simpleOf(type, about) ?? this.#byName(type, space)
  }

  #byName(name: string, space: string): AvroValue {
    const known = simpleOf(name, {}) ?? this.#named.get(name.includes('.') || space === '' ? name : `${space}.${name}`)
    const found = known ?? this.#named.get(name)
    if (found === undefined) throw wrongSchema()
    return found
  }

  #keep(about: Schema, value: AvroValue): AvroValue {
    const { name, namespace } = about
    if (typeof name !== 'string') throw wrongSchema()
    this.#named.set(namespace === '' || namespace === undefined ? name : `${String(namespace)}.${name}`, value)
    return value
  }

  #record(about: Schema, depth: number): AvroValue {
    let fields: readonly AvroField[] = []
    let nested = 0
    const value = this.#keep(about, {
      ...{ type: 'json', isDocument: true },
      text: (from, room) => {
        nested += 1
        try {
          // Records may hold themselves.
          if (nested > MAX_DEPTH)
            throw new BrokenFile(`records lie in each other more than ${MAX_DEPTH} times`, 'Write them flat.')
          const parts = fields.map((field) => {
            room.left -= field.name.length + 4
            const part = shown(field, from, room)
            return room.left < 0 ? '' : `${JSON.stringify(field.name)}:${part}`
          })
          return `{${parts.join(',')}}`
        } finally {
          nested -= 1
        }
      },
    })
    fields = this.fields(about, depth)
    return value
  }

  /** Of a value or none that value's; of several kinds, documents, as of mixed values of JSON. */
  #union(schemas: readonly unknown[], space: string, depth: number): AvroValue {
    const branches = schemas.map((schema) => this.#value(schema, space, depth + 1))
    const values = branches.filter(({ type }) => type !== null)
    const [only] = values
    const branch = (from: ByteReader) => {
      const found = branches[from.zigzag()]
      if (found === undefined) throw cutOff('a block of it')
      return found
    }
    if (values.length <= 1) {
      const { type, isDocument } = only ?? NOTHING
      return { type, isDocument, text: (from, room) => branch(from).text(from, room) }
    }
    return {
      ...{ type: 'json', isDocument: true },
      text: (from, room) => {
        const found = branch(from)
        return found.type === null ? null : shown(found, from, room)
      },
    }
  }
}

const NOTHING: AvroValue = { type: null, isDocument: false, text: () => null }

function wrongSchema(): BrokenFile {
  return new BrokenFile('its schema is none', 'Write it anew, with a schema of Avro.')
}

const scalar = (type: LogicalType, text: (from: ByteReader) => string): AvroValue => ({ type, isDocument: false, text })
const bytesOf = (from: ByteReader) => from.take(lengthOf(from))

function lengthOf(from: ByteReader): number {
  const length = from.zigzag()
  if (length < 0) throw cutOff('a block of it')
  return length
}

/** Null for what is no simple type; the meaning of a logical type that is not known is that of what it is written as. */
function simpleOf(type: string, about: Schema): AvroValue | null {
  const meaning = about['logicalType']
  switch (type) {
    case 'null':
      return NOTHING
    case 'boolean':
      return scalar('boolean', (from) => (from.byte() === 0 ? 'false' : 'true'))
    case 'int':
      if (meaning === 'date') return scalar('date', (from) => dayText(from.zigzag()))
      if (meaning === 'time-millis') return scalar('string', (from) => timeOfDayText(from.zigzag64(), 3))
      return scalar('integer', (from) => String(from.zigzag()))
    case 'long':
      return longOf(String(meaning))
    case 'float':
      return scalar('float', (from) => floatText(from.take(4).readFloatLE()))
    case 'double':
      return scalar('double', (from) => floatText(from.take(8).readDoubleLE()))
    case 'bytes':
      return decimalOf(about, bytesOf) ?? scalar('binary', (from) => binaryText(bytesOf(from)))
    case 'string':
      return scalar(meaning === 'uuid' ? 'uuid' : 'string', (from) => utf8Text(bytesOf(from)))
    default:
      return null
  }
}

const INSTANT = /^(local-)?timestamp-(millis|micros|nanos)$/
const DIGITS: Readonly<Record<string, Fraction>> = { millis: 3, micros: 6, nanos: 9 }

function longOf(meaning: string): AvroValue {
  const [, local, unit = ''] = INSTANT.exec(meaning) ?? []
  const digits = DIGITS[unit]
  if (digits !== undefined) {
    const isUtc = local === undefined
    return scalar(isUtc ? 'timestamptz' : 'timestamp', (from) => instantText(from.zigzag64(), digits, isUtc))
  }
  if (meaning === 'time-micros') return scalar('string', (from) => timeOfDayText(from.zigzag64(), 6))
  return scalar('long', (from) => from.zigzag64().toString())
}

function decimalOf(about: Schema, bytes: (from: ByteReader) => Buffer): AvroValue | null {
  const { logicalType, precision, scale = 0 } = about
  if (logicalType !== 'decimal') return null
  return scalar(decimalType(Number(precision), Number(scale)), (from) => wideDecimalText(bytes(from), Number(scale)))
}

function fixedOf(about: Schema): AvroValue {
  const { size, logicalType } = about
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) throw wrongSchema()
  const bytes = (from: ByteReader) => from.take(size)
  if (logicalType === 'duration' && size === 12)
    return scalar('string', (from) => {
      const parts = bytes(from)
      return intervalText(parts.readUInt32LE(0), parts.readUInt32LE(4), parts.readUInt32LE(8))
    })
  if (logicalType === 'uuid' && size === 16) return scalar('uuid', (from) => uuidText(bytes(from)))
  return decimalOf(about, bytes) ?? scalar('binary', (from) => binaryText(bytes(from)))
}

function enumOf({ symbols }: Schema): AvroValue {
  if (!Array.isArray(symbols) || symbols.length > MAX_SYMBOLS || !symbols.every((one) => typeof one === 'string'))
    throw wrongSchema()
  return scalar('string', (from) => {
    const symbol: unknown = symbols[from.zigzag()]
    if (typeof symbol !== 'string') throw cutOff('a block of it')
    return symbol
  })
}

/** Lists and maps come in blocks; one of a negative count says its bytes, too. */
export function eachItem(from: ByteReader, item: () => void): void {
  for (;;) {
    let count = from.zigzag()
    if (count === 0) return
    if (count < 0) {
      from.zigzag()
      count = -count
    }
    for (let at = 0; at < count; at += 1) item()
  }
}

const within = (parts: string[], part: string, room: Room) => {
  if (room.left >= 0) parts.push(part)
  else parts.length = 0
}

function arrayOf(items: AvroValue): AvroValue {
  return {
    ...{ type: 'json', isDocument: true },
    text: (from, room) => {
      const parts: string[] = []
      eachItem(from, () => within(parts, shown(items, from, room), room))
      return `[${parts.join(',')}]`
    },
  }
}

function mapOf(values: AvroValue): AvroValue {
  return {
    ...{ type: 'json', isDocument: true },
    text: (from, room) => {
      const parts: string[] = []
      eachItem(from, () => {
        const name = jsonOf(utf8Text(bytesOf(from)), 'string')
        room.left -= name.length
        within(parts, `${name}:${shown(values, from, room)}`, room)
      })
      return `{${parts.join(',')}}`
    },
  }
}

export const newRoom = (): Room => ({ left: MAX_RECORD_BYTES, parts: 0 })
