/** The usual values of a type, written from the engine's text to PostgreSQL's without a text in between. */
import { OID } from './column-types.ts'
import { FLOAT_DIGITS } from './floats.ts'
import { putBytes } from './growing.ts'
import { isCount, NO_ZONE, putCount, UTC } from './instants.ts'

/** Returns where the value ends in `to`, which has room for twice its bytes and more; -1: it is none of the usual ones. */
export type PutCell = (from: Buffer, start: number, end: number, to: Buffer, at: number) => number

/** What is not here is written as it is, or by its column's `write`. */
export const PUTS: Readonly<Record<number, PutCell>> = {
  [OID.bool]: (from, start, _end, to, at) => putBytes(from, start, start + 1, to, at),
  [OID.float4]: putFloat(FLOAT_DIGITS.float4),
  [OID.float8]: putFloat(FLOAT_DIGITS.float8),
  [OID.date]: putDate,
  [OID.time]: (from, start, end, to, at) => (isClock(from, start, end) ? putClock(from, start, to, at) : -1),
  [OID.timestamp]: putMoment,
  [OID.timestamptz]: putInstant,
}

const [ZERO, NINE] = [0x30, 0x39]
const [SPACE, DASH, COLON, POINT, PLUS, LETTER_T, LETTER_Z, EXPONENT] = [0x20, 0x2d, 0x3a, 0x2e, 0x2b, 0x54, 0x5a, 0x65]
export const DATE_BYTES = 'YYYY-MM-DD'.length
export const CLOCK_BYTES = 'hh:mm:ss.ffffff'.length
const SECONDS_BYTES = 'hh:mm:ss'.length
const MOMENT_BYTES = DATE_BYTES + 1 + CLOCK_BYTES

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE

/** Without an exponent here and there: the digits are the same then. */
function putFloat(mostDigits: number): PutCell {
  return (from, start, end, to, at) => {
    const first = from[start] === DASH ? start + 1 : start
    let digit = first
    while (digit < end && isDigit(from[digit])) digit += 1
    if (digit - first > mostDigits || isSmall(from, first, end)) return -1
    for (; digit < end; digit += 1) if (from[digit] === EXPONENT) return -1
    return putBytes(from, start, end, to, at)
  }
}

/** Begins with `0.0000`. */
function isSmall(from: Buffer, start: number, end: number): boolean {
  if (from[start] !== ZERO || end - start < 6) return false
  return from[start + 2] === ZERO && from[start + 3] === ZERO && from[start + 4] === ZERO && from[start + 5] === ZERO
}

/** A year of four digits from 1 on. */
export function isDate(from: Buffer, start: number, end: number): boolean {
  if (end - start < DATE_BYTES || from[start + 4] !== DASH || from[start + 7] !== DASH) return false
  if (!isDigit(from[start]) || !isDigit(from[start + 1]) || !isDigit(from[start + 2]) || !isDigit(from[start + 3])) {
    return false
  }
  const isYearZero =
    from[start] === ZERO && from[start + 1] === ZERO && from[start + 2] === ZERO && from[start + 3] === ZERO
  return !isYearZero
}

function isClock(from: Buffer, start: number, end: number): boolean {
  return end - start === CLOCK_BYTES && from[start + 2] === COLON && from[start + SECONDS_BYTES] === POINT
}

export function isMoment(from: Buffer, start: number, end: number): boolean {
  const clock = start + DATE_BYTES + 1
  return from[clock - 1] === LETTER_T && isDate(from, start, end) && isClock(from, clock, end)
}

function putDate(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  return end - start === DATE_BYTES && isDate(from, start, end) ? putBytes(from, start, end, to, at) : -1
}

/** Without zeros that say nothing. */
function putClock(from: Buffer, start: number, to: Buffer, at: number): number {
  let end = start + CLOCK_BYTES
  while (from[end - 1] === ZERO) end -= 1
  if (from[end - 1] === POINT) end -= 1
  return putBytes(from, start, Math.max(end, start + SECONDS_BYTES), to, at)
}

function putMoment(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (isCount(from, start, end)) return putCount(from, start, end, NO_ZONE, to, at)
  return putTold(from, start, end, to, at)
}

function putTold(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start !== MOMENT_BYTES || !isMoment(from, start, end)) return -1
  const day = putBytes(from, start, start + DATE_BYTES, to, at)
  to[day] = SPACE
  return putClock(from, start + DATE_BYTES + 1, to, day + 1)
}

function putInstant(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (isCount(from, start, end)) return putCount(from, start, end, UTC, to, at)
  if (from[end - 1] !== LETTER_Z) return -1
  const zone = putTold(from, start, end - 1, to, at)
  if (zone < 0) return -1
  to[zone] = PLUS
  to[zone + 1] = ZERO
  to[zone + 2] = ZERO
  return zone + 3
}
