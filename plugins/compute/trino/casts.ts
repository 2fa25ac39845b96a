/** What values lose on their way into a column's type where Trino casts them, and what a row says of it. */
import type { TrinoColumn, TrinoType } from '@sluice/analytics/trino/statements'
import { sqlType } from '@sluice/analytics/trino/statements'
import { castLoss, FLOATING_DIGITS, LEAST_FLOATING, type LogicalType, parseDecimal } from '@sluice/sdk'
import { logicalType } from './cells.ts'

/** A column as a transform gives it, before the cast. */
export interface GivenColumn {
  /** As `castLoss` names it. */
  readonly type: string
  /** As Trino writes it; null where a value cannot be compared with what a cast has left of it. */
  readonly sqlType: string | null
}

const SIMPLE = ['boolean', 'tinyint', 'smallint', 'integer', 'bigint', 'real', 'double', 'date', 'uuid', 'varbinary']
const ZONED = 'timestamp with time zone'
/** Digits of a second that the lake keeps. */
const MICROSECONDS = 6

export function givenColumn({ typeSignature }: TrinoColumn): GivenColumn {
  return { type: judgedType(typeSignature), sqlType: writtenType(typeSignature) }
}

/** NULL is of no type, and a finer time is none of the lake's. */
function judgedType(type: TrinoType): string {
  if (type.rawType === 'unknown') return 'null'
  const isTime = type.rawType === 'timestamp' || type.rawType === ZONED
  return isTime && Number(type.arguments[0]?.value ?? 3) > MICROSECONDS
    ? (writtenType(type) as string)
    : logicalType(type)
}

function writtenType({ rawType, arguments: given }: TrinoType): string | null {
  const numbers = given.map(({ value }) => Number(value)).join(',')
  if (SIMPLE.includes(rawType)) return rawType
  if (rawType === 'decimal' || rawType === 'timestamp') return `${rawType}(${numbers})`
  return rawType === ZONED ? `timestamp(${numbers}) with time zone` : null
}

/** A condition that holds for values of the cell that lose something; null where none does. */
export function lossIn(cell: string, { type, sqlType: written }: GivenColumn, to: LogicalType): string | null {
  if (castLoss(type, to) === null) return null
  const cast = `CAST(${cell} AS ${sqlType(to)})`
  if (type === 'string' || type === 'json') return lossOfText(`trim(TRY_CAST(${cell} AS varchar))`, cast, to)
  // The instant stays, but nothing says any more which zone its numbers are of.
  const isZoneLost = to === 'timestamp' && (written?.endsWith('time zone') ?? false)
  if (written === null || isZoneLost) return `${cell} IS NOT NULL`
  return `TRY_CAST(${cast} AS ${written}) IS DISTINCT FROM ${cell}`
}

/** Trino reads a text as a whole number, a day or a uuid only where it is one. */
function lossOfText(text: string, cast: string, to: LogicalType): string | null {
  const decimal = parseDecimal(to)
  if (decimal) return isFiner(text, decimal.scale)
  switch (to) {
    case 'boolean':
      return `lower(${text}) NOT IN ('true', 'false')`
    case 'float':
    case 'double':
      return floatingLoss(text, cast, to)
    case 'timestamp':
      return `regexp_like(${text}, '[.][0-9]{7,}|[0-9]:[0-9]{2}.*([A-Za-z]|[+-][0-9]{1,2}(:?[0-9]{2})?)$')`
    case 'timestamptz':
      return `regexp_like(${text}, '[.][0-9]{7,}')`
    default:
      return null
  }
}

/** Whether a number has a digit other than 0 beyond so many places after the point. A cast would round it, however wide its type. */
function isFiner(text: string, scale: number): string {
  const part = (nth: number) =>
    `coalesce(regexp_extract(${text}, '^[+-]?([0-9]*)[.]?([0-9]*)(?:[eE]([+-]?[0-9]+))?$', ${nth}), '')`
  const digits = `(${part(1)} || ${part(2)})`
  const kept = `regexp_replace(${digits}, '0+$')`
  const exponent = `CASE WHEN ${part(3)} = '' THEN 0 ELSE coalesce(TRY_CAST(${part(3)} AS integer), -1000000000) END`
  const places = `length(${part(2)}) - (length(${digits}) - length(${kept})) - (${exponent})`
  return `(${kept} <> '' AND ${places} > ${scale})`
}

/** A number that is too large becomes an infinity, and one that is too small keeps fewer digits, or none. */
function floatingLoss(text: string, cast: string, to: 'float' | 'double'): string {
  const digits = `regexp_replace(regexp_replace(regexp_replace(${text}, '[eE].*$'), '[^0-9]'), '^0+')`
  const isTooLarge = `is_infinite(${cast}) AND NOT regexp_like(${text}, '(?i)inf')`
  const isTooSmall = `abs(${cast}) < ${LEAST_FLOATING[to]} AND ${digits} <> ''`
  return `(length(${digits}) > ${FLOATING_DIGITS[to]} OR ${isTooLarge} OR ${isTooSmall})`
}
