/**
 * How each PostgreSQL type is carried: its logical type, the expression that writes it as the shared CSV has it, and
 * what of it cannot be carried. A value that the logical type cannot hold is never bent into one that it can: its row
 * is rejected and counted.
 */
import type { LogicalType } from '@sluice/sdk'
import { escapeLiteral } from 'pg'

/** A column as the catalog has it, domains resolved to what they are made of. */
export interface SourceType {
  /** `pg_type.typname`. */
  readonly name: string
  /** Whether it is one of PostgreSQL's own: others may call their type `date` too. */
  readonly builtin: boolean
  /** `pg_type.typtype`: b base, c composite, e enum, r range, m multirange. */
  readonly kind: string
  /** `pg_type.typcategory`: A is array. */
  readonly category: string
  readonly modifier: number
}

export interface Carriage {
  readonly type: LogicalType
  /** SQL for the value, given SQL for the column; absent: as the server writes it anyway. */
  readonly express?: (column: string) => string
  /** SQL that is true for values that cannot be carried. */
  readonly unfit?: { readonly when: (column: string) => string; readonly reason: string }
}

const OUT_OF_CALENDAR = 'the date is infinite, or outside the years 1 to 9999'
const NOT_A_NUMBER = 'the number is NaN'

/** Where a numeric column says nothing of its size: wide enough for money and measures, exact within it. */
const UNCONSTRAINED: Carriage = {
  type: 'decimal(38,9)',
  unfit: {
    // NaN counts as greater than every number, so the first comparison is true for it and for the infinities.
    when: (column) => `abs(${column}) >= 1e29 OR ${column} <> round(${column}, 9)`,
    reason: 'the number is NaN, infinite, or has more than 29 digits before or 9 after the point',
  },
}

/** `json`, unlike `jsonb`, keeps escapes as they were written: half of a surrogate pair, too, which is no character. */
const SURROGATE = escapeLiteral(String.raw`\\u[dD][89a-fA-F]`)
/** What may stand before such an escape, or is a whole pair: without all of these, each escape that is left is a half. */
const WHOLE = escapeLiteral(String.raw`\\(\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})`)

const halfPairs = (express: (column: string) => string): NonNullable<Carriage['unfit']> => ({
  when: (column) => {
    const text = `${express(column)}::text`
    return `${text} ~ ${SURROGATE} AND regexp_replace(${text}, ${WHOLE}, '', 'g') ~ ${SURROGATE}`
  },
  reason: 'the JSON has half of a surrogate pair',
})

const toJson = (column: string): string => `to_json(${column})`

const AS_TEXT: Carriage = { type: 'string' }
const AS_JSON: Carriage = { type: 'json', express: toJson }
/** Of what may hold values of the type `json`. */
const AS_JSON_OF_JSON: Carriage = { ...AS_JSON, unfit: halfPairs(toJson) }

const BUILTIN: Readonly<Record<string, Carriage>> = {
  bool: { type: 'boolean' },
  int2: { type: 'integer' },
  int4: { type: 'integer' },
  int8: { type: 'long' },
  oid: { type: 'long' },
  float4: { type: 'float' },
  float8: { type: 'double' },
  date: { type: 'date', unfit: outside("'0001-01-01'::date", "'10000-01-01'::date") },
  timestamp: { type: 'timestamp', unfit: outside("'0001-01-01'::timestamp", "'10000-01-01'::timestamp") },
  timestamptz: {
    type: 'timestamptz',
    unfit: outside("'0001-01-01 00:00+00'::timestamptz", "'10000-01-01 00:00+00'::timestamptz"),
  },
  uuid: { type: 'uuid' },
  bytea: { type: 'binary' },
  json: { type: 'json', unfit: halfPairs((column) => column) },
  jsonb: { type: 'json' },
  // The text form follows the server's locale; 8 bytes of minor units with at most 4 decimals fit always.
  money: { type: 'decimal(23,4)', express: (column) => `${column}::numeric(23,4)` },
}

export function carriageOf(source: SourceType): Carriage {
  if (source.category === 'A' && source.builtin && source.name !== '_json') return AS_JSON
  if (source.category === 'A' || source.kind === 'c') return AS_JSON_OF_JSON
  if (!source.builtin) return source.name === 'hstore' && source.kind === 'b' ? AS_JSON : AS_TEXT
  if (source.name === 'numeric') return numericCarriage(source.modifier)
  return BUILTIN[source.name] ?? AS_TEXT
}

/**
 * `numeric(p,s)` as declared where 38 digits hold it; else as text, which is exact. PostgreSQL 15 and later have
 * negative scales (whole tens) and scales beyond the precision (small fractions).
 */
function numericCarriage(modifier: number): Carriage {
  if (modifier < 4) return UNCONSTRAINED
  const precision = ((modifier - 4) >> 16) & 0xffff
  const scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024
  const digits = Math.max(precision - Math.min(scale, 0), scale)
  if (digits > 38) return AS_TEXT
  return {
    type: `decimal(${digits},${Math.max(scale, 0)})`,
    unfit: { when: (column) => `${column} = 'NaN'::numeric`, reason: NOT_A_NUMBER },
  }
}

function outside(first: string, end: string): NonNullable<Carriage['unfit']> {
  return { when: (column) => `${column} < ${first} OR ${column} >= ${end}`, reason: OUT_OF_CALENDAR }
}
