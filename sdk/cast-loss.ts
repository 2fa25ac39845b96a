/**
 * What a value may lose on its way into a column's type without any failure: engines round, cut and read generously.
 * A cast that cannot be carried out at all fails, and is none of these.
 */
import { type LogicalType, parseDecimal } from './schema.ts'

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
 * What values of `from`, a logical type, `null`, or a name of the engine's for another, may lose as `to`, in words that end the sentence "they lose";
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

/** The least numbers that have all digits of their type. */
export const LEAST_FLOATING = { float: 2 ** -126, double: 2 ** -1022 } as const
