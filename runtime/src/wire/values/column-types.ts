/** Which type of PostgreSQL a column of a result is, and how the engine's text of a value is written there. */
import type { ResultColumn } from '@sluice/engine'
import { parseDecimal } from '@sluice/sdk'
import type { WireColumn } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import type { ResultNames } from '../sql/words.ts'
import { arrayOf, arrayText } from './array-texts.ts'
import { FLOAT_DIGITS, floatText } from './floats.ts'
import { isCount, MOMENT_BYTES, NO_ZONE, putCount, UTC } from './instants.ts'
import { intervalOf, intervalText } from './intervals.ts'

export const OID = {
  bool: 16,
  bytea: 17,
  char: 18,
  name: 19,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  oid: 26,
  json: 114,
  float4: 700,
  float8: 701,
  unknown: 705,
  bpchar: 1042,
  varchar: 1043,
  date: 1082,
  time: 1083,
  timestamp: 1114,
  timestamptz: 1184,
  interval: 1186,
  timetz: 1266,
  varbit: 1562,
  numeric: 1700,
  uuid: 2950,
} as const

/** Bytes of a value; whatever is not here has no size of its own. */
const SIZES: Readonly<Record<number, number>> = {
  [OID.bool]: 1,
  [OID.int2]: 2,
  [OID.int4]: 4,
  [OID.int8]: 8,
  [OID.float4]: 4,
  [OID.float8]: 8,
  [OID.date]: 4,
  [OID.time]: 8,
  [OID.timetz]: 12,
  [OID.timestamp]: 8,
  [OID.timestamptz]: 8,
  [OID.interval]: 16,
  [OID.uuid]: 16,
}

const OIDS: Readonly<Record<string, number>> = {
  boolean: OID.bool,
  integer: OID.int4,
  long: OID.int8,
  hugeint: OID.numeric,
  bignum: OID.numeric,
  float: OID.float4,
  double: OID.float8,
  string: OID.text,
  null: OID.text,
  binary: OID.bytea,
  json: OID.json,
  date: OID.date,
  time: OID.time,
  timetz: OID.timetz,
  timestamp: OID.timestamp,
  timestamptz: OID.timestamptz,
  interval: OID.interval,
  uuid: OID.uuid,
  bit: OID.varbit,
}

/** Of a type of the engine, by its name; 0 where a PostgreSQL has none that says it. */
export function oidOf(type: string): number {
  return parseDecimal(type) === null ? (OIDS[type] ?? 0) : OID.numeric
}

/** Lists, structs, maps and unions are told as the JSON that stands for them. */
const NESTED = /^(?:list|struct|map|union)</

export interface TypedColumn extends WireColumn {
  /** The engine's text of a value, as PostgreSQL writes it. */
  write(cell: Buffer): Buffer
  /** Whether both write all values alike. */
  readonly isAsIs: boolean
}

export function columnOf({ name, type }: ResultColumn, names: ResultNames): TypedColumn {
  const decimal = parseDecimal(type)
  const list = decimal === null ? listOf(type) : null
  if (list !== null) return arrayColumn(nameOf(name, names), list)
  const oid = decimal === null ? (OIDS[type] ?? (NESTED.test(type) ? OID.json : OID.text)) : OID.numeric
  return {
    name: nameOf(name, names),
    oid,
    size: SIZES[oid] ?? -1,
    modifier: decimal === null ? -1 : ((decimal.precision << 16) | decimal.scale) + 4,
    write: WRITERS[oid] ?? ((cell) => cell),
    isAsIs: WRITERS[oid] === undefined,
  }
}

/** Types of the engine whose texts a PostgreSQL writes of these types, too. */
const TOLD_AS: Readonly<Record<string, readonly number[]>> = {
  hugeint: [OID.int8],
  integer: [OID.int8, OID.float8, OID.numeric],
  timestamp: [OID.timestamptz],
}

/** Of these functions the engine's result may be of another type than a PostgreSQL's. */
const OTHER_TYPES: ReadonlySet<string> = new Set('sum date_trunc round ceil ceiling floor trunc sign'.split(' '))

/** Whether a PostgreSQL has to be asked for the types of columns. */
export const isOfOtherTypes = (columns: readonly ResultColumn[], { called }: ResultNames): boolean =>
  [...called].some((name) => OTHER_TYPES.has(name)) && columns.some(({ type }) => Object.hasOwn(TOLD_AS, type))

/** The column, as of the type that a PostgreSQL found for it, where that has the same texts. */
export function toldAs(column: TypedColumn, type: string, oid: number | undefined): TypedColumn {
  if (oid === undefined || oid === column.oid || !TOLD_AS[type]?.includes(oid)) return column
  const write = oid === OID.int8 ? longOf : WRITERS[oid]
  return { ...column, oid, size: SIZES[oid] ?? -1, modifier: -1, write: write ?? ((cell) => cell), isAsIs: !write }
}

/** The engine's sums are wider than the type that they are told as. */
function longOf(cell: Buffer): Buffer {
  const text = cell.toString('latin1')
  if (BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return cell
  throw new WireError('22003', 'bigint out of range', { hint: 'Cast what is summed to numeric.' })
}

/** The elements of a list that a PostgreSQL has an array of; null of any other type. */
function listOf(type: string): { readonly element: number; readonly array: number } | null {
  const inner = /^list<(.*)>$/.exec(type)?.[1]
  const element = inner === undefined ? 0 : oidOf(inner)
  const array = element === OID.json ? 0 : arrayOf(element)
  return array === 0 ? null : { element, array }
}

function arrayColumn(name: string, { element, array }: { element: number; array: number }): TypedColumn {
  const write = WRITERS[element] ?? ((cell: Buffer) => cell)
  return {
    name,
    oid: array,
    size: -1,
    modifier: -1,
    write: (cell) => Buffer.from(arrayText(cell.toString('utf8'), (text) => write(Buffer.from(text)).toString('utf8'))),
    isAsIs: false,
  }
}

/** The engine calls a column without a name by its whole expression, PostgreSQL by the function. What it is called by stays. */
function nameOf(name: string, { chosen, called, isOpen }: ResultNames): string {
  if (chosen.has(name)) return name
  const call = /^(?:"?[a-z_]+"?\.)*([a-z_][a-z0-9_]*)\(.*\)$/is.exec(name)?.[1]
  if (call === undefined) return name
  const own = call === 'count_star' ? 'count' : call.toLowerCase()
  return isOpen && !called.has(own) ? name : own
}

const written = (write: (text: string) => string) => (cell: Buffer) =>
  Buffer.from(write(cell.toString('latin1')), 'latin1')

const WRITERS: Readonly<Record<number, (cell: Buffer) => Buffer>> = {
  [OID.bool]: (cell) => cell.subarray(0, 1),
  [OID.bytea]: written((text) => `\\x${Buffer.from(text, 'base64').toString('hex')}`),
  [OID.float4]: written((text) => floatText(text, FLOAT_DIGITS.float4)),
  [OID.float8]: written((text) => floatText(text, FLOAT_DIGITS.float8)),
  [OID.date]: written(inEra),
  [OID.time]: written(withoutZeros),
  [OID.timetz]: written((text) =>
    text.replace(/\.([0-9]*?)0*(?=[+-]|$)/, (_all, digits: string) => (digits ? `.${digits}` : '')),
  ),
  [OID.timestamp]: counted(NO_ZONE, moment),
  [OID.timestamptz]: counted(UTC, (text) => {
    const utc = text.replace(/Z$/, '')
    if (utc === text) return text
    const told = moment(utc)
    return told.endsWith(' BC') ? `${told.slice(0, -3)}+00 BC` : `${told}+00`
  }),
  [OID.interval]: written((text) => {
    const interval = intervalOf(text)
    return interval === null ? text : intervalText(interval)
  }),
}

/** Of a moment that is counted or told. */
function counted(zone: Buffer, write: (text: string) => string): (cell: Buffer) => Buffer {
  const told = written(write)
  return (cell) => {
    if (!isCount(cell, 0, cell.length)) return told(cell)
    const text = Buffer.alloc(MOMENT_BYTES)
    return text.subarray(0, putCount(cell, 0, cell.length, zone, text, 0))
  }
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/** `2024-01-31T00:00:00.500000` → `2024-01-31 00:00:00.5`. */
function moment(text: string): string {
  const [day = '', clock] = text.split('T')
  if (clock === undefined) return text
  const told = inEra(day)
  return told.endsWith(' BC') ? `${told.slice(0, -3)} ${withoutZeros(clock)} BC` : `${told} ${withoutZeros(clock)}`
}

/** ISO 8601 has a year 0; PostgreSQL tells the years before the first as BC. */
function inEra(day: string): string {
  const [, year = '', rest = ''] = /^(-?[0-9]+)(-[0-9]{2}-[0-9]{2})$/.exec(day) ?? []
  if (year === '' || Number(year) > 0) return day
  return `${String(1 - Number(year)).padStart(4, '0')}${rest} BC`
}
