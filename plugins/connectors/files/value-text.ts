/** What a text of a file means as a value of a type: the text that the shared CSV has for it, or that it has none. */
import { type LogicalType, parseDecimal, typeName } from '@sluice/sdk'

/** The text as the shared CSV has it; null where the type has no such value. */
export type ValueReader = (text: string) => string | null

export function readerOf(type: LogicalType): ValueReader {
  switch (typeName(type)) {
    case 'string':
      return (text) => (text.includes('\0') || !text.isWellFormed() ? null : text)
    case 'boolean':
      return booleanText
    case 'integer':
      return (text) => wholeText(text, -(2n ** 31n), 2n ** 31n - 1n)
    case 'long':
      return (text) => wholeText(text, -(2n ** 63n), 2n ** 63n - 1n)
    case 'float':
      return (text) => floatText(text, Math.fround)
    case 'double':
      return (text) => floatText(text, Number)
    case 'decimal': {
      const { precision, scale } = parseDecimal(type) ?? { precision: 38, scale: 0 }
      return (text) => decimalText(text, precision, scale)
    }
    case 'date':
      return (text) => (isDay(text) ? text : null)
    case 'timestamp':
      return (text) => timeText(text, false)
    case 'timestamptz':
      return (text) => timeText(text, true)
    case 'uuid':
      return (text) => (/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text) ? text.toLowerCase() : null)
    case 'binary':
      return (text) => (/^\\x([\da-f]{2})*$/i.test(text) ? text.toLowerCase() : null)
    case 'json':
      return (text) => (isJson(text) ? text : null)
  }
}

const BOOLEANS: Readonly<Record<string, string>> = { true: 't', false: 'f', t: 't', f: 'f' }

function booleanText(text: string): string | null {
  return text.length <= 5 ? (BOOLEANS[text.toLowerCase()] ?? null) : null
}

/** As many digits fit any number of it, so that they need not be looked at as a large one. */
const SURELY_FITS = 9

function wholeText(text: string, least: bigint, most: bigint): string | null {
  if (!/^-?\d{1,20}$/.test(text)) return null
  if (text.length <= SURELY_FITS) return plainWhole(text)
  const value = BigInt(text)
  return value >= least && value <= most ? value.toString() : null
}

const plainWhole = (text: string) => (/^-?0/.test(text) ? String(Number(text) + 0) : text)

function floatText(text: string, rounded: (value: number) => number): string | null {
  if (/^(NaN|-?Infinity)$/.test(text)) return text
  if (text.length > 400 || !/^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?$/.test(text)) return null
  const value = rounded(Number(text))
  // A number that the type cannot reach is no infinity.
  if (!Number.isFinite(value)) return null
  return Object.is(value, -0) ? '-0' : String(value)
}

/** With as many places as the type has; digits that it has no place for are not cut. */
function decimalText(text: string, precision: number, scale: number): string | null {
  const match = text.length > 100 ? null : /^(-?)0*(\d*)(?:\.(\d*?)0*)?$/.exec(text)
  const [, sign = '', whole = '', fraction = ''] = match ?? []
  if (match === null || !/\d/.test(text) || fraction.length > scale || whole.length + scale > precision) return null
  const places = scale === 0 ? '' : `.${fraction.padEnd(scale, '0')}`
  const isZero = whole === '' && fraction === ''
  return `${isZero ? '' : sign}${whole === '' ? '0' : whole}${places}`
}

function isDay(text: string): boolean {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (match === null) return false
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])]
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysOf(year, month)
}

function daysOf(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return month === 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31
}

const TIME =
  /^(\d{4}-\d{2}-\d{2})[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,6})0*)?)?(Z|z|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)?$/
const MINUTE_MS = 60_000

/** To the microsecond; finer ones are taken where they are zero. With a zone where the type has one, and only there. */
function timeText(text: string, hasZone: boolean): string | null {
  const match = text.length > 64 ? null : TIME.exec(text)
  if (match === null) return null
  const [, day = '', hour = '', minute = '', second = '00', fraction = '', zone] = match
  if (!isDay(day) || (zone !== undefined) !== hasZone) return null
  const micros = fraction.padEnd(6, '0')
  const offset = offsetMinutes(zone)
  if (offset === 0) return `${day}T${hour}:${minute}:${second}.${micros}${hasZone ? 'Z' : ''}`
  const shifted = new Date(Date.parse(`${day}T${hour}:${minute}:${second}Z`) - offset * MINUTE_MS).toISOString()
  return /^(?!0000)\d{4}-/.test(shifted) ? `${shifted.slice(0, 19)}.${micros}Z` : null
}

function offsetMinutes(zone: string | undefined): number {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(':', '') || 0)
  return zone.startsWith('-') ? -minutes : minutes
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return !text.includes('\0') && text.isWellFormed()
  } catch {
    return false
  }
}
