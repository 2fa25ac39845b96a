/** Parameters as a client binds them, as values of a query. */
import type { ParameterValue } from '../protocol/client-messages.ts'
import { notSupported, WireError } from '../protocol/wire-error.ts'
import type { Statement, Word } from '../sql/words.ts'
import { arrayOf, elementOf, elementsInBinary, elementsInText, listText } from './arrays.ts'
import { clockText, dateText, malformed, momentText, numericText } from './binary.ts'
import { OID } from './column-types.ts'
import { intervalText } from './intervals.ts'

export type QueryValue = string | number | boolean | null

const utf8 = new TextDecoder('utf-8', { fatal: true })
const MOST_PARAMETERS = 100

/** What a query is given of a parameter: its value, and the engine's type that it has there; null: as the statement takes a text. */
export interface TypedValue {
  readonly value: QueryValue
  readonly type: string | null
}

const ENGINE_TYPES: Readonly<Record<number, string>> = {
  [OID.bool]: 'BOOLEAN',
  [OID.int2]: 'SMALLINT',
  [OID.int4]: 'INTEGER',
  [OID.int8]: 'BIGINT',
  [OID.float4]: 'FLOAT',
  [OID.float8]: 'DOUBLE',
  [OID.bytea]: 'BLOB',
  [OID.date]: 'DATE',
  [OID.time]: 'TIME',
  [OID.timestamp]: 'TIMESTAMP',
  [OID.timestamptz]: 'TIMESTAMPTZ',
  [OID.interval]: 'INTERVAL',
  [OID.timetz]: 'TIMETZ',
  [OID.uuid]: 'UUID',
}

const TEXTS: ReadonlySet<number> = new Set([OID.text, OID.varchar, OID.bpchar, OID.name])

/** Whether a parameter may be told to be of that type, and its values taken. */
export function isTaken(oid: number): boolean {
  const own = elementOf(oid) || oid
  return own === OID.numeric || TEXTS.has(own) || ENGINE_TYPES[own] !== undefined || oid === OID.json
}

/** Without its type, a number of a column's would decide by how the engine compares texts, and `id + $1` could not be planned. */
export function typedValueOf(oid: number, given: ParameterValue): TypedValue {
  const element = elementOf(oid)
  if (element !== 0) return typedListOf(element, given)
  const value = valueOf(oid, given)
  if (oid !== OID.numeric) return { value, type: ENGINE_TYPES[oid] ?? null }
  return { value, type: value === null ? 'DECIMAL(18, 3)' : decimalOf(String(value)) }
}

const SAMPLES: Readonly<Record<number, QueryValue>> = {
  [OID.bool]: true,
  [OID.int2]: 1,
  [OID.int4]: 1,
  [OID.int8]: 1,
  [OID.float4]: 1,
  [OID.float8]: 1,
  [OID.bytea]: '',
  [OID.date]: '2000-01-01',
  [OID.time]: '00:00:00',
  [OID.timestamp]: '2000-01-01 00:00:00',
  [OID.timestamptz]: '2000-01-01 00:00:00+00',
  [OID.interval]: '1 day',
  [OID.timetz]: '00:00:00+00',
  [OID.uuid]: '00000000-0000-0000-0000-000000000000',
}

/** For a statement that is only planned: of a null the engine makes a null of the whole expression, whose type is then lost. */
export function sampleOf(oid: number): TypedValue {
  if (oid === OID.numeric) return { value: '1', type: 'DECIMAL(18, 3)' }
  const element = elementOf(oid)
  if (element !== 0) return { value: '[]', type: typedListOf(element, { format: 0, bytes: null }).type }
  if (TEXTS.has(oid)) return { value: '', type: null }
  return { value: SAMPLES[oid] ?? null, type: ENGINE_TYPES[oid] ?? null }
}

export const nullOf = (oid: number): TypedValue => typedValueOf(oid, { format: 0, bytes: null })

function typedListOf(element: number, { format, bytes }: ParameterValue): TypedValue {
  const elements = bytes === null ? null : elementsOf(element, format, bytes)
  const value = elements === null ? null : listText(elements)
  if (element === OID.numeric)
    return { value, type: `${decimalOfAll((elements ?? []).filter((one) => one !== null))}[]` }
  return { value, type: `${ENGINE_TYPES[element] ?? 'VARCHAR'}[]` }
}

function elementsOf(element: number, format: number, bytes: Buffer): readonly (string | null)[] {
  const all =
    format === 0
      ? elementsInText(textIn(bytes)).map((text) => (text === null ? null : Buffer.from(text)))
      : elementsInBinary(element, bytes)
  return all.map((own) => {
    const value = valueOf(element, { format: format === 0 ? 0 : 1, bytes: own })
    return value === null ? null : String(value)
  })
}

const MOST_DIGITS = 38

/** With the places that the number itself has: it is compared as it is, not as a column would round it. */
function decimalOf(number: string): string {
  const [, whole = '', , fraction = ''] = /^\s*[+-]?([0-9]*)(\.([0-9]*))?\s*$/.exec(number) ?? []
  const digits = whole.replace(/^0+/, '').length + fraction.length
  if (whole + fraction === '' || digits > MOST_DIGITS) return 'DOUBLE'
  return `DECIMAL(${Math.max(1, digits)}, ${fraction.length})`
}

/** Of numbers that are elements of one list. */
function decimalOfAll(numbers: readonly string[]): string {
  const types = numbers.map((number) => /^DECIMAL\((\d+), (\d+)\)$/.exec(decimalOf(number)))
  if (types.some((type) => type === null)) return 'DOUBLE'
  const places = Math.max(0, ...types.map((type) => Number(type?.[2])))
  const whole = Math.max(1, ...types.map((type) => Number(type?.[1]) - Number(type?.[2])))
  return places + whole > MOST_DIGITS ? 'DOUBLE' : `DECIMAL(${places + whole}, ${places})`
}

/** PostgreSQL reads no time that is longer. */
const MOST_TIME_CHARS = 128
/** Behind the clock. Takes the square of a text's length, which is bounded. */
const OFFSET = /([0-9]{2}:[0-9]{2}[0-9:.]*) ?(?:[-+][0-9]{2}(?::?[0-9]{2})*|Z)$/

/** Throws 22P02, 22P03, 22003 or 22021 for bytes that are none of the type, 0A000 for a type that is not taken as binary. */
export function valueOf(oid: number, { format, bytes }: ParameterValue): QueryValue {
  if (bytes === null) return null
  const text = format === 0 ? textIn(bytes) : textOfBinary(oid, bytes)
  switch (oid) {
    case OID.bool:
      return truthOf(text)
    case OID.int2:
    case OID.int4:
    case OID.int8:
      return integerOf(text, oid)
    case OID.float4:
    case OID.float8:
      return floatOf(text)
    case OID.bytea:
      return bytesText(text)
    case OID.date:
      // As PostgreSQL has it, what stands behind a day is not part of it.
      return /^\s*([0-9]{4,}-[0-9]{2}-[0-9]{2})(?:[ T][-+0-9:.Z ]*)?$/.exec(text)?.[1] ?? text
    case OID.timestamp:
      // Nor is an offset part of a time without one: it moves nothing.
      return text.length > MOST_TIME_CHARS ? text : text.replace(OFFSET, '$1')
    default:
      return text
  }
}

function textIn(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new WireError('22021', 'a parameter is not UTF-8')
  }
}

function truthOf(text: string): boolean {
  const word = text.trim().toLowerCase()
  if (['t', 'true', '1', 'on', 'yes', 'y'].includes(word)) return true
  if (['f', 'false', '0', 'off', 'no', 'n'].includes(word)) return false
  throw invalid('boolean')
}

/** `\\x6869`, or the bytes themselves, as the engine writes bytes: `\\x68\\x69`. */
function bytesText(text: string): string {
  const hex = /^\\x((?:[0-9a-f]{2})*)$/i.exec(text)?.[1]
  if (hex === undefined) throw invalid('bytea, which begins with \\x')
  return hex.replace(/../g, (byte) => `\\x${byte}`)
}

/** By the type, how many bits a value and its sign have. */
const BITS: Readonly<Record<number, number>> = { [OID.int2]: 16, [OID.int4]: 32, [OID.int8]: 64 }

/** As text where a number would lose digits. */
function integerOf(text: string, oid: number): number | string {
  const digits = text.trim()
  if (!/^[+-]?[0-9]+$/.test(digits)) throw invalid('integer')
  const number = Number(digits)
  if (!fits(digits, BITS[oid] ?? 64)) throw new WireError('22003', 'a parameter is out of the range of its type')
  return Number.isSafeInteger(number) ? number : digits
}

function fits(digits: string, bits: number): boolean {
  if (digits.length > 100) return false
  return BigInt.asIntN(bits, BigInt(digits.replace('+', ''))) === BigInt(digits.replace('+', ''))
}

/** As text where JSON has no such number. */
function floatOf(text: string): number | string {
  if (!/^(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|[+-]?inf(?:inity)?)$/i.test(text.trim())) {
    throw invalid('double precision')
  }
  return Number.isFinite(Number(text)) ? Number(text) : text.trim()
}

function invalid(type: string): WireError {
  return new WireError('22P02', `a parameter is no value of the type ${type}`)
}

const LENGTHS: Readonly<Record<number, number>> = {
  [OID.bool]: 1,
  [OID.int2]: 2,
  [OID.int4]: 4,
  [OID.int8]: 8,
  [OID.oid]: 4,
  [OID.float4]: 4,
  [OID.float8]: 8,
  [OID.date]: 4,
  [OID.time]: 8,
  [OID.timestamp]: 8,
  [OID.timestamptz]: 8,
  [OID.interval]: 16,
  [OID.timetz]: 12,
  [OID.uuid]: 16,
}

function textOfBinary(oid: number, bytes: Buffer): string {
  const length = LENGTHS[oid]
  if (length !== undefined && bytes.length !== length) throw malformed()
  switch (oid) {
    case OID.bool:
      return bytes[0] === 0 ? 'f' : 't'
    case OID.int2:
      return String(bytes.readInt16BE())
    case OID.int4:
      return String(bytes.readInt32BE())
    case OID.int8:
      return String(bytes.readBigInt64BE())
    case OID.oid:
      return String(bytes.readUInt32BE())
    case OID.float4:
      return String(bytes.readFloatBE())
    case OID.float8:
      return String(bytes.readDoubleBE())
    case OID.numeric:
      return numericText(bytes)
    case OID.date:
      return dateText(bytes.readInt32BE())
    case OID.time:
      return clockText(bytes.readBigInt64BE())
    case OID.timestamp:
      return momentText(bytes.readBigInt64BE())
    case OID.timestamptz:
      return `${momentText(bytes.readBigInt64BE())}+00`
    case OID.interval:
      return intervalText({ micros: bytes.readBigInt64BE(), days: bytes.readInt32BE(8), months: bytes.readInt32BE(12) })
    case OID.timetz:
      return `${clockText(bytes.readBigInt64BE())}${zoneText(bytes.readInt32BE(8))}`
    case OID.bytea:
      return `\\x${bytes.toString('hex')}`
    case OID.uuid:
      return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    case 0:
    case OID.text:
    case OID.varchar:
    case OID.bpchar:
    case OID.name:
    case OID.unknown:
    case OID.json:
      return textIn(bytes)
    default:
      throw notSupported(`parameters of the type ${oid} are not taken as binary`, 'Send them as text.')
  }
}

/** Binary has seconds to the west. */
function zoneText(westS: number): string {
  const [sign, seconds] = [westS > 0 ? '-' : '+', Math.abs(westS)]
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return sign + parts.map((part) => String(part).padStart(2, '0')).join(':')
}

const CAST_TYPES: Readonly<Record<string, number>> = {
  bool: OID.bool,
  boolean: OID.bool,
  smallint: OID.int2,
  int2: OID.int2,
  int: OID.int4,
  integer: OID.int4,
  int4: OID.int4,
  bigint: OID.int8,
  int8: OID.int8,
  real: OID.float4,
  float4: OID.float4,
  float8: OID.float8,
  double: OID.float8,
  numeric: OID.numeric,
  decimal: OID.numeric,
  date: OID.date,
  timestamp: OID.timestamp,
  timestamptz: OID.timestamptz,
  time: OID.time,
  uuid: OID.uuid,
  bytea: OID.bytea,
  text: OID.text,
  varchar: OID.text,
  string: OID.text,
  json: OID.json,
  interval: OID.interval,
  timetz: OID.timetz,
}

/** Of each parameter the type that the client declared, else that of its cast, else 0: it is not known. Throws 54000 for too many. */
export function parameterOids(words: readonly Word[], declared: readonly number[]): readonly number[] {
  const numbers = words.flatMap(({ kind, text }) => (kind === 'parameter' ? [Number(text.slice(1))] : []))
  const count = Math.max(0, declared.length, ...numbers)
  if (count > MOST_PARAMETERS) throw new WireError('54000', `a statement has more than ${MOST_PARAMETERS} parameters`)
  return Array.from({ length: count }, (_, at) => {
    const own = declared[at] ?? 0
    return own === 0 || own === OID.unknown ? castOf(words, `$${at + 1}`) : own
  })
}

/** `CAST($1 AS`, where `SELECT $1 AS` gives a name. */
export const isInCast = (words: readonly Word[], at: number): boolean =>
  words[at - 1]?.text === '(' && words[at - 2]?.value === 'cast' && words[at + 1]?.value === 'as'

function castOf(words: readonly Word[], parameter: string): number {
  for (const [at, word] of words.entries()) {
    if (word.kind !== 'parameter' || word.text !== parameter) continue
    const isCast = words[at + 1]?.text === ':' && words[at + 2]?.text === ':'
    if (!isCast && !isInCast(words, at)) continue
    const oid = oidOfCast(words.slice(at + (isCast ? 3 : 2), at + MOST_TYPE_WORDS))
    if (oid !== 0) return oid
  }
  return 0
}

/** `timestamp (3) without time zone [3]`, and what comes behind it. */
export const MOST_TYPE_WORDS = 16

/** 0 where the type is none that is known here. */
export function oidOfCast([first, ...words]: readonly Word[]): number {
  const type = first?.kind === 'name' ? first.value : ''
  const rest = words.map(({ value }) => value)
  const ends = rest[0] === '(' ? rest.indexOf(')') + 1 : 0
  const behind = rest.slice(ends).filter((word) => !['precision', 'varying'].includes(word))
  const isZoned = ['with', 'without'].includes(behind[0] ?? '') && behind[1] === 'time' && behind[2] === 'zone'
  const own =
    type === 'char' || type === 'character' ? OID.text : Object.hasOwn(CAST_TYPES, type) ? CAST_TYPES[type] : 0
  const zoned = isZoned && behind[0] === 'with' ? { timestamp: OID.timestamptz, time: OID.timetz }[type] : own
  const oid = zoned ?? 0
  return behind[isZoned ? 3 : 0] === '[' ? arrayOf(oid) : oid
}

/** Of a type as PREPARE names it. Throws 42704. */
export function oidOfTypeWords(words: readonly Word[]): number {
  const names = words.flatMap(({ kind, value }) => (kind === 'name' || kind === 'quoted' ? [value] : []))
  const [type = '', ...rest] = names[0] === 'pg_catalog' ? names.slice(1) : names
  if (type === 'unknown') return 0
  const isZoned = type === 'timestamp' && rest.join(' ') === 'with time zone'
  const oid = isZoned ? OID.timestamptz : (CAST_TYPES[type] ?? (type === 'character' ? OID.text : undefined))
  if (oid === undefined || words.some(({ text }) => text === '[')) {
    throw new WireError('42704', `there is no type of that name for parameters: ${type.slice(0, 63)}`)
  }
  return oid
}

/** As clients are told them: what is not known is text. */
export const toldOids = (oids: readonly number[]): readonly number[] => oids.map((oid) => oid || OID.text)

export interface ParameterPlace {
  /** From 1. */
  readonly number: number
  readonly start: number
  readonly end: number
}

/**
 * Where the statement's text has parameters that it does not cast itself, or casts to a number without places: it has those of the
 * value there, and the engine would give it three.
 */
export function parameterPlaces({ words }: Pick<Statement, 'words'>): readonly ParameterPlace[] {
  const start = words[0]?.at ?? 0
  return words.flatMap(({ kind, text }, index) => {
    if (kind !== 'parameter') return []
    const place = placeOf(words, index)
    const [from, to] = place === null ? [] : [words[place[0]], words[place[1]]]
    if (from === undefined || to === undefined) return []
    return [{ number: Number(text.slice(1)), start: from.at - start, end: to.at - start + to.text.length }]
  })
}

/** The first and the last of its words; null where its own cast says its type. */
function placeOf(words: readonly Word[], at: number): readonly [number, number] | null {
  const isCast = words[at + 1]?.text === ':'
  if (!isCast && !isInCast(words, at)) return [at, at]
  const type = at + (isCast ? 3 : 2)
  if (!['numeric', 'decimal'].includes(words[type]?.value ?? '')) return null
  const isList = words[type + 1]?.text === '[' && words[type + 2]?.text === ']'
  const end = isList ? type + 2 : type
  if (isCast) return words[end + 1]?.text === '(' || words[end + 1]?.text === '[' ? null : [at, end]
  return words[end + 1]?.text === ')' ? [at - 2, end + 1] : null
}

/** The text with each of these parameters cast to its type, where that is known. */
export function castText(sql: string, places: readonly ParameterPlace[], types: readonly (string | null)[]): string {
  let text = ''
  let done = 0
  for (const { number, start, end } of places) {
    const type = types[number - 1] ?? null
    if (type === null) continue
    text += `${sql.slice(done, start)}CAST($${number} AS ${type})`
    done = end
  }
  return text + sql.slice(done)
}

/** A day or a moment with an offset, which is read otherwise than a text where the statement asks for a date. */
export const isMoment = (oid: number, { format, bytes }: ParameterValue): boolean =>
  oid === 0 &&
  format === 0 &&
  bytes !== null &&
  bytes.length < 64 &&
  /^[0-9]{4,}-[0-9]{2}-[0-9]{2}.*[-+][0-9]{2}/.test(bytes.toString('latin1'))
