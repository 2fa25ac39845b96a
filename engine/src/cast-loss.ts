/** Which values lose something by a cast of DuckDB's, which rounds, cuts and reads generously: `castLoss` says what. */
import { castLoss, FLOATING_DIGITS, LEAST_FLOATING, type LogicalType, parseDecimal } from '@sluice/sdk'
import { fileType } from './sql-text.ts'

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
  if (from === 'string' || from === 'json') return textLoss(value, from, cast, to)
  // The instant stays, but nothing says any more which zone its numbers are of.
  if (from === 'timestamptz' && to === 'timestamp') return `${value} IS NOT NULL`
  if (!COMPARABLE.test(from)) return `${value} IS NOT NULL`
  return `TRY_CAST(${cast} AS ${fromSql}) IS DISTINCT FROM ${value}`
}

function textLoss(value: string, from: string, cast: string, to: LogicalType): string {
  const text = `trim(CAST(${value} AS VARCHAR))`
  const decimal = parseDecimal(to)
  if (decimal) return numberLoss(text, from, cast, 38 - (decimal.precision - decimal.scale), decimal.scale)
  switch (to) {
    case 'integer':
    case 'long':
      return numberLoss(text, from, cast, 18, 0)
    case 'float':
    case 'double':
      return floatingLoss(text, cast, to)
    case 'boolean':
      return `lower(${text}) NOT IN ('true', 'false')`
    case 'date':
      return `(TRY_CAST(${text} AS TIMESTAMP) IS DISTINCT FROM CAST(${cast} AS TIMESTAMP)
        OR regexp_matches(${text}, '[.][0-9]{6,}[1-9]|${OFFSET}'))`
    case 'timestamp':
      return `regexp_matches(${text}, '[.][0-9]{7,}|${ZONE}')`
    case 'timestamptz':
      return `regexp_matches(${text}, '[.][0-9]{7,}')`
    default:
      return `CAST(${cast} AS VARCHAR) IS DISTINCT FROM ${text}`
  }
}

/** Behind the time of a day, in a document within quotes: any zone, and one that is not UTC. */
const ZONE = '[0-9]:[0-9]{2}.*([A-Za-z]|[+-])'
const OFFSET = '[0-9]:[0-9]{2}.*[+-][0-9:]*[1-9]'

/**
 * No decimal of DuckDB's holds each text, so that what it compares may have lost the same digits: the last one is looked for in the
 * text itself. `wide`: the scale of a decimal that has room for every value of the type.
 */
function numberLoss(text: string, from: string, cast: string, wide: number, scale: number): string {
  const type = `DECIMAL(38,${wide})`
  const differs = `TRY_CAST(${text} AS ${type}) IS DISTINCT FROM CAST(${cast} AS ${type})`
  const loses = `(${differs} OR ${isFiner(text, scale)})`
  // Numbers of documents go through floating ones.
  if (from !== 'string') return loses
  const fraction = scale === 0 ? '' : `([.][0-9]{0,${scale}})?`
  return `CASE WHEN regexp_matches(${text}, '^[+-]?[0-9]*${fraction}$') THEN false ELSE ${loses} END`
}

/** Whether a number has a digit other than 0 beyond so many places after the point. DuckDB takes underscores between digits. */
function isFiner(text: string, scale: number): string {
  const part = (nth: number) =>
    `regexp_extract(replace(${text}, '_', ''), '^[+-]?([0-9]*)[.]?([0-9]*)(?:[eE]([+-]?[0-9]+))?$', ${nth})`
  const digits = `(${part(1)} || ${part(2)})`
  const exponent = `CASE WHEN ${part(3)} = '' THEN 0 ELSE coalesce(TRY_CAST(${part(3)} AS INTEGER), -1000000000) END`
  const zeros = `length(${digits}) - length(rtrim(${digits}, '0'))`
  return `(rtrim(${digits}, '0') <> '' AND length(${part(2)}) - (${zeros}) - (${exponent}) > ${scale})`
}

/** A number that is too large becomes an infinity, and one that is too small keeps fewer digits, or none. */
function floatingLoss(text: string, cast: string, to: 'float' | 'double'): string {
  const mantissa = `regexp_replace(${text}, '[eE].*$', '')`
  const digits = `ltrim(regexp_replace(${mantissa}, '[^0-9]', '', 'g'), '0')`
  return `(length(${digits}) > ${FLOATING_DIGITS[to]} OR isinf(${cast}) AND NOT regexp_matches(${text}, '(?i)inf')
    OR abs(${cast}) < ${LEAST_FLOATING[to]} AND ${digits} <> '')`
}
