/**
 * Values that were written by one schema, as another has them: by the rules of Avro's specification ("Schema Resolution").
 * What does not fit fails where such a value is met, and not before: a union may have branches that nobody writes.
 */
import { ByteReader } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { type Fraction, floatText, instantText, timeOfDayText } from '../typed-text.ts'
import { BadDefault, defaultBytes } from './default-bytes.ts'
import {
  type AvroNode,
  type Enum,
  type Field,
  type Fixed,
  MAX_DEPTH,
  type Primitive,
  type RecordNode,
} from './schema.ts'
import {
  type AvroField,
  type AvroValue,
  arrayOf,
  asShape,
  branchOf,
  bytesOf,
  countPart,
  deep,
  eachItem,
  mapOf,
  member,
  named,
  type Room,
  simpleOf,
  Values,
} from './values.ts'

/** Whose values cannot be what the reader asks for. `message` names fields and types, no value. */
export class Unresolved extends BrokenFile {
  constructor(what: string) {
    super(what, 'Write by a schema that the latest of the subject can read.')
  }
}

export interface Resolved extends AvroValue {
  /** Of a record: the texts of its fields, by the names of the reader; else null. */
  readonly fields: ((from: ByteReader, room: Room) => ReadonlyMap<string, string | null>) | null
}

/** Throws BrokenFile, as do its readers. */
export function resolved(writer: AvroNode, reader: AvroNode): Resolved {
  const pairs = new Pairs()
  const { type, isDocument, text } = pairs.of(writer, reader)
  if (writer.kind !== 'record' || reader.kind !== 'record') return { type, isDocument, text, fields: null }
  if (!isSameName(writer, reader)) throw new Unresolved(`it is ${quoted(writer.name)}, and no ${quoted(reader.name)}`)
  const { steps, own } = pairs.members(writer, reader)
  const fields = (from: ByteReader, room: Room) => {
    const found = new Map<string, string | null>()
    for (const step of steps) {
      if (step.field === null) skip(step.written, from, room, 0)
      else found.set(step.field.name, step.field.text(from, room))
    }
    for (const field of own) found.set(field.name, field.text(from, room))
    return found
  }
  return { type, isDocument, text, fields }
}

interface Members {
  /** In the writer's order; `field` is null where the reader has none. */
  readonly steps: readonly { readonly written: AvroNode; readonly field: AvroField | null; readonly place: number }[]
  /** Those that only the reader has, by their defaults. */
  readonly own: readonly (AvroField & { readonly place: number })[]
}

const MAX_PAIRS = 50_000

class Pairs {
  readonly #plain = new Values()
  readonly #records = new Map<RecordNode, Map<RecordNode, AvroValue>>()
  #count = 0

  of(writer: AvroNode, reader: AvroNode): AvroValue {
    this.#count += 1
    if (this.#count > MAX_PAIRS) throw new Unresolved('both schemas together are too large')
    const { type, isDocument } = this.#plain.of(reader)
    const as = (text: AvroValue['text']): AvroValue => ({ type, isDocument, text })
    if (writer.kind === 'union') {
      const branches = writer.branches.map((branch) => this.of(branch, reader))
      return as((from, room) => branchOf(branches, from).text(from, room))
    }
    if (reader.kind === 'union') {
      const branch = bestOf(writer, reader.branches)
      if (branch === null) return as(failing(writer, reader))
      const isOfSeveral = reader.branches.filter(({ kind }) => kind !== 'null').length > 1
      return as(asShape(this.of(writer, branch), isOfSeveral))
    }
    if (!isMatching(writer, reader, 0)) return as(failing(writer, reader))
    if (writer.kind === 'record' && reader.kind === 'record') return this.#record(writer, reader)
    if (writer.kind === 'array' && reader.kind === 'array') return arrayOf(this.of(writer.items, reader.items))
    if (writer.kind === 'map' && reader.kind === 'map') return mapOf(this.of(writer.items, reader.items))
    if (writer.kind === 'enum' && reader.kind === 'enum') return as(symbolText(writer, reader))
    return as(simpleText(writer as Primitive | Fixed, reader as Primitive | Fixed))
  }

  #record(writer: RecordNode, reader: RecordNode): AvroValue {
    const known = this.#records.get(writer)?.get(reader)
    if (known !== undefined) return known
    let members: Members = { steps: [], own: [] }
    const text = deep((from, room) => {
      const parts: string[] = Array.from({ length: reader.fields.length }, () => '')
      for (const { field, place, written } of members.steps) {
        if (field === null) skip(written, from, room, 0)
        else parts[place] = member(field, from, room)
      }
      for (const field of members.own) parts[field.place] = member(field, from, room)
      return `{${parts.join(',')}}`
    })
    const value: AvroValue = { type: 'json', isDocument: true, text }
    const ofWriter = this.#records.get(writer) ?? new Map<RecordNode, AvroValue>()
    this.#records.set(writer, ofWriter.set(reader, value))
    members = this.members(writer, reader)
    return value
  }

  members(writer: RecordNode, reader: RecordNode): Members {
    const places = placesOf(writer, reader)
    const steps = writer.fields.map((written) => {
      const place = places.get(written) ?? -1
      const field = reader.fields[place]
      const read = field === undefined ? null : named(field.name, this.of(written.node, field.node))
      return { written: written.node, place, field: read }
    })
    const filled = new Set(steps.map(({ place }) => place))
    const own = reader.fields.flatMap((field, place) => {
      if (filled.has(place)) return []
      return [{ ...named(field.name, this.#default(field)), place }]
    })
    return { steps, own }
  }

  #default({ name, node, fallback }: Field): AvroValue {
    const value = this.#plain.of(node)
    const { type, isDocument } = value
    const refused = (what: string): AvroValue => {
      const text = () => {
        throw new Unresolved(`field ${quoted(name)} ${what}`)
      }
      return { type, isDocument, text }
    }
    if (fallback === undefined) return refused('is not written, and has no default')
    try {
      const bytes = defaultBytes(node, fallback)
      return { type, isDocument, text: (_, room) => value.text(new ByteReader(bytes), room) }
    } catch (error) {
      if (error instanceof BadDefault) return refused('is not written, and its default is none of its type')
      throw error
    }
  }
}

/** Of each field of the writer, where the reader has it: by its name, else by an alias. */
function placesOf(writer: RecordNode, reader: RecordNode): ReadonlyMap<Field, number> {
  const byName = new Map(reader.fields.map(({ name }, place) => [name, place]))
  const byAlias = new Map(
    reader.fields.flatMap(({ aliases }, place) => aliases.map((alias) => [alias, place] as const)),
  )
  const taken = new Set(writer.fields.flatMap(({ name }) => byName.get(name) ?? []))
  const places = new Map<Field, number>()
  for (const field of writer.fields) {
    const own = byName.get(field.name)
    const place = own ?? byAlias.get(field.name)
    if (place === undefined || (own === undefined && taken.has(place))) continue
    taken.add(place)
    places.set(field, place)
  }
  return places
}

const quoted = (name: string) => JSON.stringify(name.toWellFormed().slice(0, 100))
const unqualified = (name: string) => name.slice(name.lastIndexOf('.') + 1)

type Named = Enum | Fixed | RecordNode

function isSameName(writer: Named, reader: Named): boolean {
  return unqualified(writer.name) === unqualified(reader.name) || reader.aliases.includes(writer.name)
}

const PROMOTIONS: Readonly<Record<string, readonly string[]>> = {
  int: ['long', 'float', 'double'],
  long: ['float', 'double'],
  float: ['double'],
  string: ['bytes'],
  bytes: ['string'],
}

function isMatching(writer: AvroNode, reader: AvroNode, depth: number): boolean {
  if (writer.kind === 'union' || reader.kind === 'union' || depth > MAX_DEPTH) return true
  switch (writer.kind) {
    case 'array':
    case 'map':
      return reader.kind === writer.kind && isMatching(writer.items, reader.items, depth + 1)
    case 'record':
    case 'enum':
      return reader.kind === writer.kind && isSameName(writer, reader)
    case 'fixed':
      return reader.kind === 'fixed' && writer.size === reader.size && isSameName(writer, reader)
    default:
      return reader.kind === writer.kind || PROMOTIONS[writer.kind]?.includes(reader.kind) === true
  }
}

/** What is the very same before what it would be made into. */
function bestOf(writer: AvroNode, branches: readonly AvroNode[]): AvroNode | null {
  const fitting = branches.filter((branch) => isMatching(writer, branch, 0))
  const same = fitting.filter(({ kind }) => kind === writer.kind)
  const whole = same.find((branch) => 'name' in branch && 'name' in writer && branch.name === writer.name)
  return whole ?? same[0] ?? fitting[0] ?? null
}

function failing(writer: AvroNode, reader: AvroNode): () => never {
  const what = `${shownKind(writer)} cannot be read as ${shownKind(reader)}`
  return () => {
    throw new Unresolved(what)
  }
}

function shownKind(node: AvroNode): string {
  return 'name' in node ? `${node.kind} ${quoted(node.name)}` : node.kind
}

function symbolText(writer: Enum, reader: Enum): AvroValue['text'] {
  const known = new Set(reader.symbols)
  const fallback = reader.fallback !== null && known.has(reader.fallback) ? reader.fallback : null
  const texts = writer.symbols.map((symbol) => (known.has(symbol) ? symbol : fallback))
  return (from) => {
    const text = branchOf(texts, from)
    if (text === null) throw new Unresolved(`enum ${quoted(reader.name)} has no such symbol, and no default`)
    return text
  }
}

/** What simple values stand for; other logical types stand for nothing. */
const FAMILY = /^(date|duration|uuid|decimal|time|(?:local-)?timestamp)(?:-(millis|micros|nanos))?$/
const DIGITS: Readonly<Record<string, Fraction>> = { millis: 3, micros: 6, nanos: 9 }

/** An int is written like a long, a string like bytes: mostly it is the reader who says what they are. */
function simpleText(writer: Primitive | Fixed, reader: Primitive | Fixed): AvroValue['text'] {
  if (reader.kind !== writer.kind && (reader.kind === 'float' || reader.kind === 'double')) {
    if (writer.kind === 'float') return simpleOf(writer).text
    const exact = reader.kind === 'double' ? Number : (value: bigint) => Math.fround(Number(value))
    return (from) => floatText(exact(from.zigzag64()))
  }
  const [, was = '', unit = ''] = FAMILY.exec(writer.logical.name) ?? []
  const [, is = '', wanted = ''] = FAMILY.exec(reader.logical.name) ?? []
  if (was === '' || is === '') {
    if (was === 'decimal' && reader.kind !== writer.kind) return failing(writer, reader)
    return simpleOf(reader).text
  }
  if (was.replace('local-', '') !== is.replace('local-', ''))
    return () => {
      throw new Unresolved(`a value of ${writer.logical.name} cannot be read as ${reader.logical.name}`)
    }
  // The places behind the point are those that it was written with.
  if (was === 'decimal') return simpleOf({ ...reader, logical: writer.logical }).text
  const [from, to] = [DIGITS[unit], DIGITS[wanted]]
  if (from === undefined || to === undefined || from === to) return simpleOf(reader).text
  return inUnits(from, to, is)
}

/** Nothing is cut off: a finer value keeps its places. */
function inUnits(writer: Fraction, reader: Fraction, is: string): AvroValue['text'] {
  const digits: Fraction = writer > reader ? writer : reader
  const factor = 10n ** BigInt(digits - writer)
  return (from) => {
    const ticks = from.zigzag64() * factor
    return is === 'time' ? timeOfDayText(ticks, digits) : instantText(ticks, digits, is === 'timestamp')
  }
}

/** Goes behind a value that nobody asks for. */
function skip(node: AvroNode, from: ByteReader, room: Room, depth: number): void {
  countPart(room)
  if (depth > MAX_DEPTH)
    throw new BrokenFile(`values lie in each other more than ${MAX_DEPTH} times`, 'Write them flat.')
  switch (node.kind) {
    case 'null':
      return
    case 'boolean':
      from.byte()
      return
    case 'int':
    case 'long':
    case 'enum':
      from.varint()
      return
    case 'float':
      from.take(4)
      return
    case 'double':
      from.take(8)
      return
    case 'bytes':
    case 'string':
      bytesOf(from)
      return
    case 'fixed':
      from.take(node.size)
      return
    case 'array':
      eachItem(from, () => skip(node.items, from, room, depth + 1))
      return
    case 'map':
      eachItem(from, () => {
        bytesOf(from)
        skip(node.items, from, room, depth + 1)
      })
      return
    case 'union':
      skip(branchOf(node.branches, from), from, room, depth + 1)
      return
    case 'record':
      for (const field of node.fields) skip(field.node, from, room, depth + 1)
  }
}
