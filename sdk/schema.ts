/**
 * The data model every part of Sluice shares: logical types, columns, rows.
 *
 * A *logical type* is what a manifest names and what the lake stores; a store maps it to a type of its own.
 * A *value* has exactly one representation in JavaScript, given below, whichever store or source it came from.
 */

/** `decimal(p,s)`: 1 ≤ p ≤ 38, 0 ≤ s ≤ p. */
export type DecimalType = `decimal(${number},${number})`

export type LogicalType =
  | 'string'
  | 'boolean'
  | 'integer'
  | 'long'
  | 'float'
  | 'double'
  | DecimalType
  | 'date'
  | 'timestamp'
  | 'timestamptz'
  | 'uuid'
  | 'binary'
  | 'json'

/** The logical types by name; `decimal` stands for every precision and scale. */
export const LOGICAL_TYPE_NAMES = [
  'string',
  'boolean',
  'integer',
  'long',
  'float',
  'double',
  'decimal',
  'date',
  'timestamp',
  'timestamptz',
  'uuid',
  'binary',
  'json',
] as const

export type LogicalTypeName = (typeof LOGICAL_TYPE_NAMES)[number]

/**
 * One cell. By logical type:
 *
 * | type | value |
 * |---|---|
 * | string, uuid (lower case), json (JSON text) | `string` |
 * | boolean | `boolean` |
 * | integer (32 bits), float, double (NaN and infinities included) | `number` |
 * | long (64 bits) | `bigint` |
 * | decimal(p,s) | `string` in plain notation with exactly `s` fraction digits: `'-12.30'` |
 * | date | `'YYYY-MM-DD'` |
 * | timestamp | `'YYYY-MM-DDTHH:MM:SS.ffffff'`, microseconds, no zone |
 * | timestamptz | the same in UTC with a final `Z` |
 * | binary | `Uint8Array` |
 *
 * An absent value of any type is `null`. Zeros of the lake have no sign; whoever is given one keeps it all the same.
 */
export type Value = null | boolean | number | bigint | string | Uint8Array

export interface Column {
  readonly name: string
  readonly type: LogicalType
  readonly nullable: boolean
}

export interface TableSchema {
  readonly columns: readonly Column[]
  /** Names of the identity columns, in key order; empty where rows have no identity. */
  readonly primaryKey: readonly string[]
}

/** One row, in the order of the schema (or of the projection) it was asked for. */
export type Row = readonly Value[]

export function isLogicalType(text: string): text is LogicalType {
  if (text.startsWith('decimal')) return parseDecimal(text) !== null
  return text !== 'decimal' && (LOGICAL_TYPE_NAMES as readonly string[]).includes(text)
}

/** The name without precision and scale: `decimal(10,2)` → `decimal`. */
export function typeName(type: LogicalType): LogicalTypeName {
  return type.startsWith('decimal') ? 'decimal' : (type as LogicalTypeName)
}

/** Precision and scale of a decimal type, or null when `text` is none. */
export function parseDecimal(text: string): { readonly precision: number; readonly scale: number } | null {
  const match = /^decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)$/.exec(text)
  if (!match) return null
  const precision = Number(match[1])
  const scale = Number(match[2])
  return precision >= 1 && precision <= 38 && scale <= precision ? { precision, scale } : null
}

/** The column of that name; throws a plain Error where there is none (a bug of the caller, not of the data). */
export function columnNamed(schema: TableSchema, name: string): Column {
  const column = schema.columns.find((candidate) => candidate.name === name)
  if (!column) throw new Error(`the schema has no column "${name}"`)
  return column
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER)

/**
 * A value as it stands in a JSON answer. Integers beyond ±(2^53−1), all decimals, NaN and infinities travel as
 * strings, binary as base64, json as the JSON it holds (as a text where it holds none), a float as the shortest number
 * that rounds to it in 32 bits (`0.1`, not `0.10000000149011612`); everything else as itself. Numbers are spelled as
 * `JSON.stringify` does, a zero with its sign.
 */
export function toJsonValue(value: Value, type: LogicalType): unknown {
  if (value === null) return null
  if (typeof value === 'bigint') return value > MAX_SAFE || value < -MAX_SAFE ? value.toString() : Number(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) return String(value)
    return type === 'float' ? shortestFloat(value) : value
  }
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (type === 'json' && typeof value === 'string') return documentOf(value)
  return value
}

/** SQL engines make documents that JSON does not know, as `{"a":NaN}`: such a one stays a text. */
function documentOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const SMALLEST_NORMAL_FLOAT = 2 ** -126
const LARGEST_EXACT_INTEGER = 2 ** 24
/** All decimals of that many digits stay apart in 32 bits (FLT_DIG); those below the normal floats do not. */
const FLOAT_DIGITS = 6

function shortestFloat(value: number): number {
  if (Number.isInteger(value) && Math.abs(value) <= LARGEST_EXACT_INTEGER) return value
  const start = Math.abs(value) < SMALLEST_NORMAL_FLOAT ? 1 : FLOAT_DIGITS
  for (let digits = start; digits < 9; digits += 1) {
    const candidate = rounded(value, digits)
    if (Math.fround(candidate) === Math.fround(value)) return candidate
  }
  return rounded(value, 9)
}

/** To as many digits, halves to the even digit, as C and SQL do; `toPrecision` takes the greater one. */
function rounded(value: number, digits: number): number {
  const text = value.toExponential(digits)
  const isHalf = /5e/.test(text) && Number(text) === value
  return Number(isHalf && /[02468][.]?5e/.test(text) ? text.replace('5e', '0e') : value.toPrecision(digits))
}
