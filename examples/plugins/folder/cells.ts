/** What a cell's text means, by the type of its column. */
import { type LogicalType, parseDecimal, typeName, type Value } from '@sluice/sdk'

const TIME = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?$/
const LONGEST = 2n ** 63n

/** Undefined where the type has no such value. */
export function valueOf(type: LogicalType, text: string): Value | undefined {
  switch (typeName(type)) {
    case 'string':
      return text
    case 'boolean':
      return { true: true, false: false }[text]
    case 'integer':
      return isWhole(text) && Math.abs(Number(text) + 0.5) < 2 ** 31 ? Number(text) : undefined
    case 'long':
      return isWhole(text) && BigInt(text) < LONGEST && BigInt(text) >= -LONGEST ? BigInt(text) : undefined
    case 'float':
      return numberOf(text, Math.fround)
    case 'double':
      return numberOf(text, Number)
    case 'decimal':
      return decimalOf(type, text)
    case 'date':
      return isDay(text) ? text : undefined
    case 'timestamp':
      return timeOf(text, false)
    case 'timestamptz':
      return timeOf(text, true)
    case 'uuid':
      return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text) ? text.toLowerCase() : undefined
    case 'binary':
      return /^\\x([\da-f]{2})*$/i.test(text) ? Uint8Array.from(Buffer.from(text.slice(2), 'hex')) : undefined
    case 'json':
      return isJson(text) ? text : undefined
  }
}

const isWhole = (text: string) => /^-?\d{1,19}$/.test(text)

function numberOf(text: string, rounded: (value: number) => number): number | undefined {
  const isNumber = /^(-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/.test(text)
  const value = rounded(Number(text))
  // A number that the type cannot reach is no infinity.
  return isNumber && (Number.isFinite(value) || /[NI]/.test(text)) ? value : undefined
}

/** With as many places as the type has; digits that it has no place for are not cut. */
function decimalOf(type: LogicalType, text: string): string | undefined {
  const { precision, scale } = parseDecimal(type) ?? { precision: 38, scale: 0 }
  const [, sign = '', whole = '', fraction = ''] = /^(-?)0*(\d+?)(?:\.(\d+?)0*)?$/.exec(text) ?? []
  if (whole === '' || (fraction !== '0' && fraction.length > scale)) return undefined
  const places = scale === 0 ? '' : `.${(fraction === '0' ? '' : fraction).padEnd(scale, '0')}`
  const digits = whole === '0' ? 0 : whole.length
  if (digits + scale > precision) return undefined
  const isZero = !/[1-9]/.test(whole + fraction)
  return `${isZero ? '' : sign}${whole}${places}`
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text) || text < '0001') return false
  const ms = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
}

function timeOf(text: string, hasZone: boolean): string | undefined {
  const [, day = '', time = '', fraction = '', zone] = TIME.exec(text) ?? []
  if (!isDay(day) || (zone !== undefined) !== hasZone) return undefined
  const ms = Date.parse(`${day}T${time}${zone ?? 'Z'}`)
  const shifted = Number.isNaN(ms) ? '' : new Date(ms).toISOString()
  if (!/^(?!0000)\d{4}-/.test(shifted)) return undefined
  return `${shifted.slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)}.${fraction.padEnd(6, '0')}${hasZone ? 'Z' : ''}`
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    // The row is rejected, and its text goes into the quarantine.
    return false
  }
}
