/**
 * What a value may lose on its way into a column's type without any failure: DuckDB rounds, cuts and reads generously.
 * A cast that cannot be carried out at all fails, and is none of these.
 */
import { type LogicalType, parseDecimal } from '@sluice/sdk'
import { fileType } from './sql-text.ts'

const DIGITS = 'digits after the point'
const PRECISION = 'digits that the type has no room for'
const PARTS = 'parts of the text'
const ALL_BUT_TRUTH = 'every value but true and false'
const SOME = 'parts of some values'

/** Numbers without digits after the point, and how many digits they have at most; null where nothing bounds them. */
const WHOLE: Readonly<Record<string, number | null>> = {
  boolean: 1,
  integer: 10,
  long: 19,
  hugeint: 39,
  bignum: null,
}

/** Digits that every value of the type keeps. */
export const FLOATING_DIGITS: Readonly<Record<string, number>> = { float: 6, double: 15 }

/**
 * What values of `from`, a type as `ResultColumn` names it, may lose as `to`, in words that end the sentence "they lose";
 * null where nothing.
 */
export function castLoss(from: string, to: LogicalType): string | null {
  if (from === to || from === 'null') return null
  const decimal = parseDecimal(to)
  if (decimal) return lossAsDecimal(from, decimal.scale)
  switch (to) {
    case 'string':
    case 'json':
      return from === 'binary' ? SOME : null
    case 'boolean':
      return ALL_BUT_TRUTH
    case 'integer':
    case 'long':
      return lossAsWhole(from)
    case 'float':
    case 'double':
      return lossAsFloating(from, FLOATING_DIGITS[to] as number)
    case 'date':
      return from === 'timestamp' || from === 'timestamptz' || isText(from) ? 'the time of day' : SOME
    case 'timestamp':
      if (from === 'timestamptz') return 'their time zone'
      return from === 'date' ? null : isText(from) ? PARTS : SOME
    case 'timestamptz':
      return from === 'date' || from === 'timestamp' ? null : isText(from) ? PARTS : SOME
    case 'uuid':
      return isText(from) ? null : SOME
    default:
      return SOME
  }
}

function isText(type: string): boolean {
  return type === 'string' || type === 'json'
}

function lossAsDecimal(from: string, scale: number): string | null {
  if (from in WHOLE) return null
  const own = decimalOf(from)
  if (own) return own.scale > scale ? DIGITS : null
  return isText(from) || from in FLOATING_DIGITS ? DIGITS : SOME
}

function lossAsWhole(from: string): string | null {
  if (from in WHOLE) return null
  const own = decimalOf(from)
  if (own) return own.scale > 0 ? DIGITS : null
  return isText(from) || from in FLOATING_DIGITS ? DIGITS : SOME
}

function lossAsFloating(from: string, digits: number): string | null {
  if (from === 'float') return null
  const own = decimalOf(from)
  const most = own ? own.precision : WHOLE[from]
  if (most !== undefined && most !== null && most <= digits) return null
  return own || from in WHOLE || from in FLOATING_DIGITS || isText(from) ? PRECISION : SOME
}

function decimalOf(type: string): { readonly precision: number; readonly scale: number } | null {
  return type.startsWith('decimal(') ? parseDecimal(type as LogicalType) : null
}

/** Names of SQL that stand for one value whatever they are called. */
const COMPARABLE =
  /^(boolean|integer|long|hugeint|float|double|decimal\(\d+,\d+\)|date|timestamp|timestamptz|uuid|binary)$/

/**
 * A condition that holds for values that lose something; null where none does.
 * @param value SQL of the value, of the type `from`, which SQL calls `fromSql`
 */
export function lossCondition(value: string, from: string, fromSql: string, to: LogicalType): string | null {
  if (castLoss(from, to) === null) return null
  const cast = `CAST(${value} AS ${fileType(to)})`
  if (isText(from)) return textLoss(value, cast, to)
  // The instant stays, but nothing says any more which zone its numbers are of.
  if (from === 'timestamptz' && to === 'timestamp') return `${value} IS NOT NULL`
  if (!COMPARABLE.test(from)) return `${value} IS NOT NULL`
  return `TRY_CAST(${cast} AS ${fromSql}) IS DISTINCT FROM ${value}`
}

function textLoss(value: string, cast: string, to: LogicalType): string {
  const text = `trim(CAST(${value} AS VARCHAR))`
  const decimal = parseDecimal(to)
  const sameNumber = (type: string) => `TRY_CAST(${text} AS ${type}) IS DISTINCT FROM CAST(${cast} AS ${type})`
  if (decimal) return sameNumber(`DECIMAL(38,${38 - (decimal.precision - decimal.scale)})`)
  switch (to) {
    case 'integer':
    case 'long':
      return sameNumber('DECIMAL(38,18)')
    case 'float':
    case 'double':
      return `length(ltrim(regexp_replace(regexp_replace(${text}, '[eE].*$', ''), '[^0-9]', '', 'g'), '0')) > ${FLOATING_DIGITS[to]}`
    case 'boolean':
      return `lower(${text}) NOT IN ('true', 'false')`
    case 'date':
      return `TRY_CAST(${text} AS TIMESTAMP) IS DISTINCT FROM CAST(${cast} AS TIMESTAMP)`
    case 'timestamp':
      return `regexp_matches(${text}, '[.][0-9]{7,}|[0-9]:[0-9]{2}.*(Z|[+-][0-9]{1,2}(:?[0-9]{2})?)$')`
    case 'timestamptz':
      return `regexp_matches(${text}, '[.][0-9]{7,}')`
    default:
      return `CAST(${cast} AS VARCHAR) IS DISTINCT FROM ${text}`
  }
}
