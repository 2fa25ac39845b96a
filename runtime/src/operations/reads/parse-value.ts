/** Values from query strings, by the column's type. The value itself is never repeated in an error. */
import { type LogicalType, parseDecimal, SluiceError, typeName, type Value } from '@sluice/sdk'
import { toldBytes } from '../../parsing/told-bytes.ts'

const INTEGER = { min: -(2n ** 31n), max: 2n ** 31n - 1n }
const LONG = { min: -(2n ** 63n), max: 2n ** 63n - 1n }
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const NUMBER = /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,3})?$/i

/** Throws INVALID_DATA `invalid_value` that names the parameter, the column and what its type takes. */
export function parseValue(text: string, type: LogicalType, where: string): NonNullable<Value> {
  const value = parsed(text, type)
  if (value !== null) return value
  throw new SluiceError('INVALID_DATA', `${where} is not a valid ${type}`, {
    code: 'invalid_value',
    remedy: EXAMPLES[typeName(type)] ?? 'Write a value of the column’s type.',
  })
}

const EXAMPLES: Readonly<Record<string, string>> = {
  boolean: 'Write true or false.',
  integer: 'Write a whole number of 32 bits.',
  long: 'Write a whole number of 64 bits.',
  date: 'Write a date as YYYY-MM-DD.',
  timestamp: 'Write a time as YYYY-MM-DDTHH:MM:SS.',
  timestamptz: 'Write a time as YYYY-MM-DDTHH:MM:SSZ.',
  uuid: 'Write a UUID.',
  binary: 'Write base64.',
}

function parsed(text: string, type: LogicalType): NonNullable<Value> | null {
  switch (typeName(type)) {
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : null
    case 'integer': {
      const whole = wholeNumber(text, INTEGER)
      return whole === null ? null : Number(whole)
    }
    case 'long':
      return wholeNumber(text, LONG)
    case 'float':
    case 'double':
      return isDouble(text) ? Number(text) : null
    case 'decimal':
      return decimal(text, type)
    case 'date':
      return calendarDate(text)
    case 'timestamp':
      return timestamp(text, false)
    case 'timestamptz':
      return timestamp(text, true)
    case 'uuid':
      return UUID.test(text) ? text.toLowerCase() : null
    case 'binary':
      return toldBytes(text)
    default:
      return text.includes('\u0000') ? null : text
  }
}

/** What is beyond all doubles is none: it would be infinite in silence. */
function isDouble(text: string): boolean {
  return (NUMBER.test(text) && Number.isFinite(Number(text))) || ['NaN', 'Infinity', '-Infinity'].includes(text)
}

function wholeNumber(text: string, range: { readonly min: bigint; readonly max: bigint }): bigint | null {
  if (!/^[+-]?\d{1,20}$/.test(text)) return null
  const whole = BigInt(text.replace(/^\+/, ''))
  return whole >= range.min && whole <= range.max ? whole : null
}

function decimal(text: string, type: LogicalType): string | null {
  const match = /^(-?)(\d{1,38})(?:\.(\d{1,38}))?$/.exec(text)
  const shape = parseDecimal(type)
  if (!match || !shape) return null
  const [, sign = '', whole = '0', fraction = ''] = match
  const kept = fraction.replace(/0+$/, '')
  if (kept.length > shape.scale || whole.replace(/^0+/, '').length > shape.precision - shape.scale) return null
  const digits = `${whole.replace(/^0+(?=\d)/, '')}${shape.scale > 0 ? `.${kept.padEnd(shape.scale, '0')}` : ''}`
  return /[1-9]/.test(digits) ? sign + digits : digits
}

function calendarDate(text: string): string | null {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (!match) return null
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : null
}

/** Microseconds are kept; a zone moves the time to UTC and is refused where the column has none. */
function timestamp(text: string, hasZone: boolean): string | null {
  const pattern = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d{2}:\d{2})?$/
  const match = pattern.exec(text)
  if (!match) return null
  const [, day = '', clock = '00:00', seconds = '00', fraction = '', zone] = match
  if (calendarDate(day) === null || (zone && !hasZone)) return null
  const instant = new Date(`${day}T${clock}:${seconds}${zone ?? 'Z'}`)
  if (Number.isNaN(instant.getTime())) return null
  // A zone may move a time out of the years that have four digits.
  if (!/^\d{4}-/.test(instant.toISOString())) return null
  const base = instant.toISOString().slice(0, 19)
  return `${base}.${fraction.padEnd(6, '0')}${hasZone ? 'Z' : ''}`
}

export type TimeBound = 'from' | 'to'

/** A moment: a time, or a date as the midnight that it begins with. Throws INVALID_DATA `invalid_value` that names the parameter. */
export function parseMoment(text: string, parameter: string): string {
  return timeAt(text, 'timestamptz', 'from', parameter)
}

/**
 * A bound of a time range as a value of the time column: a date-only `to` includes that day, a time is exclusive.
 */
export function parseTimeBound(text: string, type: LogicalType, bound: TimeBound): string {
  return timeAt(text, type, bound, bound)
}

function timeAt(text: string, type: LogicalType, bound: TimeBound, parameter: string): string {
  const day = calendarDate(text)
  const instant = day === null ? parseValue(text, 'timestamptz', `"${parameter}"`) : null
  if (day === null) {
    const exact = instant as string
    if (type === 'date') return dateBound(exact, bound)
    return type === 'timestamp' ? exact.slice(0, -1) : exact
  }
  const start = bound === 'to' ? nextDay(day) : day
  if (type === 'date') return start
  return `${start}T00:00:00.000000${type === 'timestamptz' ? 'Z' : ''}`
}

/** A date stands for its midnight: it lies at or after a time of its own day only where that time is midnight. */
function dateBound(instant: string, _bound: TimeBound): string {
  return instant.endsWith('T00:00:00.000000Z') ? instant.slice(0, 10) : nextDay(instant.slice(0, 10))
}

/** After the last day of four digits comes a year of five, which JavaScript writes with a sign and six. */
function nextDay(day: string): string {
  const [next = ''] = new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().split('T')
  return next.replace(/^\+0*/, '')
}
