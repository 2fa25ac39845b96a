/** How values of Avro are read: of which type each is, and its text. */
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
import {
  type AvroNode,
  type Enum,
  type Fixed,
  type Logical,
  MAX_DEPTH,
  Names,
  type Primitive,
  recordOf,
} from './schema.ts'

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

/** A list of nothing but nulls has no bytes, and could go on for ever. */
const MAX_PARTS_A_ROW = 1_000_000

export const newRoom = (): Room => ({ left: MAX_RECORD_BYTES, parts: 0 })

/** Of a record, as it is written. Throws BrokenFile. */
export function fieldsOf(schema: unknown): readonly AvroField[] {
  const values = new Values()
  return recordOf(new Names().parse(schema)).fields.map(({ name, node }) => named(name, values.of(node)))
}

export function named(name: string, { type, isDocument, text }: AvroValue): AvroField {
  return { name, type, isDocument, text }
}

export function countPart(room: Room): void {
  room.parts += 1
  if (room.parts > MAX_PARTS_A_ROW)
    throw new BrokenFile(`a row has more than ${MAX_PARTS_A_ROW} values`, 'Write shorter lists, or more rows.')
}

/** As documents show it. */
export function shown(value: AvroValue, from: ByteReader, room: Room): string {
  countPart(room)
  const text = value.text(from, room)
  if (text === null) return 'null'
  const part = value.isDocument ? text : jsonOf(text, value.type ?? 'string')
  if (!value.isDocument) room.left -= part.length + 1
  return room.left < 0 ? '' : part
}

/** Values as their own schema has them. */
export class Values {
  readonly #records = new Map<AvroNode, AvroValue>()

  /** Throws BrokenFile. */
  of(node: AvroNode): AvroValue {
    switch (node.kind) {
      case 'record': {
        const known = this.#records.get(node)
        if (known !== undefined) return known
        const fields: AvroField[] = []
        const value = recordValue(fields)
        this.#records.set(node, value)
        for (const field of node.fields) fields.push(named(field.name, this.of(field.node)))
        return value
      }
      case 'array':
        return arrayOf(this.of(node.items))
      case 'map':
        return mapOf(this.of(node.items))
      case 'union': {
        const branches = node.branches.map((branch) => this.of(branch))
        return { ...unionShape(branches), text: unionText(branches) }
      }
      case 'enum':
        return enumOf(node)
      default:
        return simpleOf(node)
    }
  }
}

const DOCUMENT = { type: 'json', isDocument: true } as const

/** `fields` may come later: a record may hold itself. */
export function recordValue(fields: readonly AvroField[]): AvroValue {
  return {
    ...DOCUMENT,
    text: deep((from, room) => `{${fields.map((field) => member(field, from, room)).join(',')}}`),
  }
}

export function member(field: AvroField, from: ByteReader, room: Room): string {
  room.left -= field.name.length + 4
  const part = shown(field, from, room)
  return room.left < 0 ? '' : `${JSON.stringify(field.name)}:${part}`
}

/** Records may hold themselves. */
export function deep(text: AvroValue['text']): AvroValue['text'] {
  let nested = 0
  return (from, room) => {
    nested += 1
    try {
      if (nested > MAX_DEPTH)
        throw new BrokenFile(`records lie in each other more than ${MAX_DEPTH} times`, 'Write them flat.')
      return text(from, room)
    } finally {
      nested -= 1
    }
  }
}

/** Of a value or none that value's; of several kinds, documents, as of mixed values of JSON. */
export function unionShape(branches: readonly AvroValue[]): Pick<AvroValue, 'type' | 'isDocument'> {
  const values = branches.filter(({ type }) => type !== null)
  const [only] = values
  if (values.length > 1) return DOCUMENT
  return { type: only?.type ?? null, isDocument: only?.isDocument ?? false }
}

/** As the union of that shape has the value of a branch. */
export function asShape(value: AvroValue, isOfSeveral: boolean): AvroValue['text'] {
  if (!isOfSeveral || value.type === null) return (from, room) => value.text(from, room)
  return (from, room) => shown(value, from, room)
}

export function branchOf<Branch>(branches: readonly Branch[], from: ByteReader): Branch {
  const found = branches[from.zigzag()]
  if (found === undefined) throw cutOff('a block of it')
  return found
}

function unionText(branches: readonly AvroValue[]): AvroValue['text'] {
  const isOfSeveral = branches.filter(({ type }) => type !== null).length > 1
  const texts = branches.map((branch) => asShape(branch, isOfSeveral))
  return (from, room) => branchOf(texts, from)(from, room)
}

const NOTHING: AvroValue = { type: null, isDocument: false, text: () => null }

const scalar = (type: LogicalType, text: (from: ByteReader) => string): AvroValue => ({ type, isDocument: false, text })
export const bytesOf = (from: ByteReader): Buffer => from.take(lengthOf(from))

function lengthOf(from: ByteReader): number {
  const length = from.zigzag()
  if (length < 0) throw cutOff('a block of it')
  return length
}

/** The meaning of a logical type that is not known is that of what it is written as. Throws BrokenFile. */
export function simpleOf(node: Primitive | Fixed): AvroValue {
  const { kind, logical } = node
  switch (kind) {
    case 'null':
      return NOTHING
    case 'boolean':
      return scalar('boolean', (from) => (from.byte() === 0 ? 'false' : 'true'))
    case 'int':
      if (logical.name === 'date') return scalar('date', (from) => dayText(from.zigzag()))
      if (logical.name === 'time-millis') return scalar('string', (from) => timeOfDayText(from.zigzag64(), 3))
      return scalar('integer', (from) => String(from.zigzag()))
    case 'long':
      return longOf(logical.name)
    case 'float':
      return scalar('float', (from) => floatText(from.take(4).readFloatLE()))
    case 'double':
      return scalar('double', (from) => floatText(from.take(8).readDoubleLE()))
    case 'bytes':
      return decimalOf(logical, bytesOf) ?? scalar('binary', (from) => binaryText(bytesOf(from)))
    case 'string':
      return scalar(logical.name === 'uuid' ? 'uuid' : 'string', (from) => utf8Text(bytesOf(from)))
    case 'fixed':
      return fixedOf(node)
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

function decimalOf({ name, precision, scale }: Logical, bytes: (from: ByteReader) => Buffer): AvroValue | null {
  if (name !== 'decimal') return null
  return scalar(decimalType(Number(precision), Number(scale)), (from) => wideDecimalText(bytes(from), Number(scale)))
}

function fixedOf({ size, logical }: Fixed): AvroValue {
  const bytes = (from: ByteReader) => from.take(size)
  if (logical.name === 'duration' && size === 12)
    return scalar('string', (from) => {
      const parts = bytes(from)
      return intervalText(parts.readUInt32LE(0), parts.readUInt32LE(4), parts.readUInt32LE(8))
    })
  if (logical.name === 'uuid' && size === 16) return scalar('uuid', (from) => uuidText(bytes(from)))
  return decimalOf(logical, bytes) ?? scalar('binary', (from) => binaryText(bytes(from)))
}

function enumOf({ symbols }: Enum): AvroValue {
  return scalar('string', (from) => branchOf(symbols, from))
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

export function arrayOf(items: AvroValue): AvroValue {
  return {
    ...DOCUMENT,
    text: (from, room) => {
      const parts: string[] = []
      eachItem(from, () => within(parts, shown(items, from, room), room))
      return `[${parts.join(',')}]`
    },
  }
}

export function mapOf(values: AvroValue): AvroValue {
  return {
    ...DOCUMENT,
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
