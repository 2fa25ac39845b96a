/** Values of files that say their types, as texts: what the reader of a type takes, or refuses where it has no such value. */
import { isUtf8 } from 'node:buffer'
import { type LogicalType, typeName } from '@sluice/sdk'
import { BrokenFile, MAX_RECORD_BYTES } from './records.ts'

const DAY_MS = 86_400_000
/** Date knows no others; they are nobody's days anyway. */
const MAX_DATE_MS = 8.64e15

/** Years beyond 9999 have a sign in front, which no type takes. */
export function dayText(days: number): string {
  const ms = days * DAY_MS
  if (!(Math.abs(ms) <= MAX_DATE_MS)) return `day ${days}`
  const text = new Date(ms).toISOString()
  return text.slice(0, text.indexOf('T'))
}

/** How many ticks a second has, by the digits behind its point. */
export type Fraction = 3 | 6 | 9

const TICKS: Readonly<Record<Fraction, bigint>> = { 3: 1000n, 6: 1_000_000n, 9: 1_000_000_000n }

export function instantText(ticks: bigint, digits: Fraction, isUtc: boolean): string {
  const perSecond = TICKS[digits]
  const rest = ((ticks % perSecond) + perSecond) % perSecond
  const ms = Number((ticks - rest) / perSecond) * 1000
  if (!(Math.abs(ms) <= MAX_DATE_MS)) return `instant ${ticks}`
  const second = new Date(ms).toISOString().slice(0, -'.000Z'.length)
  return `${second}.${String(rest).padStart(digits, '0')}${isUtc ? 'Z' : ''}`
}

/** There is no type of times of a day: they are texts. */
export function timeOfDayText(ticks: bigint, digits: Fraction): string {
  const perSecond = TICKS[digits]
  if (ticks < 0n || ticks >= 86_400n * perSecond) return `time ${ticks}`
  return instantText(ticks, digits, false).slice('1970-01-01T'.length)
}

export function intervalText(months: number, days: number, ms: number): string {
  return `P${months}M${days}DT${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}S`
}

export function decimalText(unscaled: bigint, scale: number): string {
  if (scale === 0) return unscaled.toString()
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

/** Numbers of more bytes take longer to write out than they are worth. */
const MAX_NUMBER_BYTES = 512

/** Two's complement, the most significant byte first. */
export function wideDecimalText(bytes: Buffer, scale: number): string {
  if (bytes.length > MAX_NUMBER_BYTES) return `a number of ${bytes.length} bytes`
  if (bytes.length === 0) return 'a number of no bytes'
  return decimalText(BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex')}`)), scale)
}

export function binaryText(bytes: Buffer): string {
  return bytes.length > MAX_RECORD_BYTES ? OVERLONG : `\\x${bytes.toString('hex')}`
}

export function uuidText(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Bytes that are no text get a half of a character in front, so that no type takes what they are shown as. */
export function utf8Text(bytes: Buffer): string {
  if (bytes.length > MAX_RECORD_BYTES) return OVERLONG
  const text = bytes.toString('utf8')
  return text.includes('\ufffd') && !isUtf8(bytes) ? `\ud800${bytes.toString('latin1')}` : text
}

/** In place of a value that no row may have, for as long as it may be: its row is too long. */
const OVERLONG = ' '.repeat(MAX_RECORD_BYTES + 1)

/** Where digits do not fit a decimal they are a text. */
export function decimalType(precision: number, scale: number): LogicalType {
  if (!Number.isInteger(precision) || !Number.isInteger(scale) || precision < 1 || scale < 0 || scale > precision)
    throw new BrokenFile(
      `a decimal of ${precision} digits with ${scale} places is none`,
      'Write it anew, with a scale from 0 to its precision.',
    )
  return precision <= MAX_DIGITS ? `decimal(${precision},${scale})` : 'string'
}

const MAX_DIGITS = 38
const BARE: ReadonlySet<string> = new Set(['boolean', 'integer', 'long', 'decimal'])

/** The value within a document. What is no text makes no document, so that its row is told. */
export function jsonOf(text: string, type: LogicalType): string {
  const name = typeName(type)
  if (BARE.has(name)) return text
  if ((name === 'float' || name === 'double') && Number.isFinite(Number(text))) return text
  if (!text.isWellFormed()) return text
  return name === 'json' && isDocument(text) ? text : JSON.stringify(text)
}

function isDocument(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

export const floatText = (value: number): string => (Object.is(value, -0) ? '-0' : String(value))
