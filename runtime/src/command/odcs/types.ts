/** Types of columns, as a contract says them and as the lake has them. */
import { isLogicalType, type LogicalType, typeName } from '@sluice/sdk'
import type { ContractProperty } from './contract.ts'

type ContractType = Pick<ContractProperty, 'logicalType' | 'logicalTypeOptions' | 'physicalType'>

const LOGICAL: Readonly<Record<string, readonly [string, Readonly<Record<string, unknown>>?]>> = {
  string: ['string'],
  boolean: ['boolean'],
  integer: ['integer', { format: 'i32' }],
  long: ['integer', { format: 'i64' }],
  float: ['number', { format: 'f32' }],
  double: ['number', { format: 'f64' }],
  decimal: ['number'],
  date: ['date'],
  timestamp: ['timestamp', { timezone: false }],
  timestamptz: ['timestamp', { timezone: true }],
  uuid: ['string', { format: 'uuid' }],
  binary: ['string', { format: 'binary' }],
}

/** JSON has no logical type: a value may be an object, a list or a number, from row to row. */
export function contractType(type: LogicalType): ContractType {
  const [logicalType, logicalTypeOptions] = LOGICAL[typeName(type)] ?? []
  return {
    ...(logicalType === undefined ? {} : { logicalType }),
    ...(logicalTypeOptions === undefined ? {} : { logicalTypeOptions }),
    physicalType: type,
  }
}

/** What databases call their types, without length; the first that fits. */
const PHYSICAL: readonly (readonly [RegExp, LogicalType])[] = [
  [/^(bool|boolean|bit\(1\))$/, 'boolean'],
  [/^(smallint|int|int2|int4|integer|mediumint|tinyint|serial|int32)$/, 'integer'],
  [/^(bigint|int8|bigserial|int64|long)$/, 'long'],
  [/^(real|float4|float32|binary_float)$/, 'float'],
  [/^(double|double precision|float8|float64|float|binary_double)$/, 'double'],
  [/^date$/, 'date'],
  [/^(timestamptz|timestamp_tz|timestamp_ltz|timestamp with (local )?time zone|datetimeoffset)$/, 'timestamptz'],
  [/^(timestamp|datetime|datetime2|timestamp_ntz|timestamp without time zone)$/, 'timestamp'],
  [/^(uuid|uniqueidentifier)$/, 'uuid'],
  [/^(bytea|binary|varbinary|blob|bytes|longblob|mediumblob|raw)$/, 'binary'],
  [/^(json|jsonb|variant|object|super)$/, 'json'],
  [
    /^(string|text|varchar|varchar2|nvarchar|nvarchar2|char|nchar|bpchar|character|character varying|clob|longtext|mediumtext|citext)$/,
    'string',
  ],
]

/** Whole numbers of fewer bytes than any that the lake has. */
const NARROW = /^\s*(smallint|int2|mediumint|tinyint)\b/i

export interface FoundType {
  readonly type: LogicalType
  /** What the lake's type does not say of the contract's; null: nothing. */
  readonly lost: string | null
}

const LONGEST = 200

/** The physical type where it is known, else the logical one; a string where neither is, and told. */
export function typeFrom(
  physical: string | null,
  logical: string | null,
  options: Readonly<Record<string, unknown>>,
): FoundType {
  const known = physical === null ? null : physicalType(physical.slice(0, LONGEST).trim().toLowerCase())
  // The lake keeps no length of texts, nor how many digits a second has.
  if (known !== null) {
    const hasLength = /\(/.test(physical as string) && !known.startsWith('decimal') && known !== 'boolean'
    const isWider = hasLength || NARROW.test(physical as string)
    return { type: known, lost: isWider ? `${(physical as string).slice(0, LONGEST)} is ${known} here` : null }
  }
  const found = logical === null ? null : logicalType(logical, options)
  const unknown = physical === null ? '' : `the type ${physical.slice(0, LONGEST)} is not known, and `
  if (found === null) return { type: 'string', lost: `${unknown}no logical type is said: a string here` }
  if (physical === null || found.lost !== null) return found
  return { type: found.type, lost: `${unknown}by its logical type it is ${found.type} here` }
}

function physicalType(text: string): LogicalType | null {
  const plain = text.replaceAll(/\s+/g, ' ')
  if (isLogicalType(plain) && plain !== 'float') return plain.replaceAll(' ', '') as LogicalType
  const digits = /^(?:decimal|numeric|number|dec)\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)$/.exec(plain)
  if (digits) {
    const decimal = `decimal(${digits[1]},${digits[2] ?? '0'})`
    return isLogicalType(decimal) ? decimal : null
  }
  if (plain === 'float') return 'float'
  const bare = plain.replace(/\s*\([^)]*\)/, '')
  return PHYSICAL.find(([pattern]) => pattern.test(plain) || pattern.test(bare))?.[1] ?? null
}

function logicalType(logical: string, { format, timezone }: Readonly<Record<string, unknown>>): FoundType | null {
  const exactly = (type: LogicalType): FoundType => ({ type, lost: null })
  switch (logical) {
    case 'string':
      return exactly(format === 'uuid' ? 'uuid' : format === 'binary' ? 'binary' : 'string')
    case 'boolean':
    case 'date':
      return exactly(logical)
    case 'integer':
      if (format === 'u64' || format === 'i128' || format === 'u128') return exactly('decimal(38,0)')
      return exactly(typeof format === 'string' && /^(i8|i16|i32|u8|u16)$/.test(format) ? 'integer' : 'long')
    case 'number':
      if (format === 'f32') return exactly('float')
      return { type: 'double', lost: format === 'f64' ? null : 'the contract says no digits: double here' }
    case 'timestamp':
      return exactly(timezone === true ? 'timestamptz' : 'timestamp')
    case 'time':
      return { type: 'string', lost: 'the lake has no type for a time of the day: a string here' }
    case 'object':
    case 'array':
      return exactly('json')
    default:
      return null
  }
}
