/**
 * Moments that the engine counts in microseconds since 1970. A count may have more digits than a number: it is taken as whole
 * seconds and what is left of them.
 */
import { DAYS_TO_2000, dayOfMonth, firstDayOf, marchYearOf, monthOf, yearOf } from './calendar.ts'
import { putBytes } from './growing.ts'

const [ZERO, NINE, SPACE, DASH, COLON, POINT] = [0x30, 0x39, 0x20, 0x2d, 0x3a, 0x2e]
const MICROS_DIGITS = 6
export const SECOND_MICROS = 1_000_000
export const DAY_S = 86_400
/** From 1970 to 2000, where PostgreSQL's binary begins. */
export const EPOCH_S = DAYS_TO_2000 * DAY_S

/** A year that has four digits in front of whatever comes; the last of them ends before this second. */
export const [YEAR_1_S, YEAR_10000_S] = [-62_135_596_800, 253_402_300_800]

/** Whether it is such a count: a text of a time has other signs than digits. */
export function isCount(from: Buffer, start: number, end: number): boolean {
  let at = from[start] === DASH ? start + 1 : start
  if (at === end) return false
  for (; at < end; at += 1) {
    const byte = from[at] as number
    if (byte < ZERO || byte > NINE) return false
  }
  return true
}

/** Of a count: whole seconds, rounded down. */
export function secondsOf(from: Buffer, start: number, end: number): number {
  if (from[start] !== DASH) return digitsOf(from, start, Math.max(start, end - MICROS_DIGITS))
  const seconds = digitsOf(from, start + 1, Math.max(start + 1, end - MICROS_DIGITS))
  return -seconds - (fractionOf(from, start + 1, end) === 0 ? 0 : 1)
}

/** Of a count: the microseconds behind `secondsOf`. */
export function microsOf(from: Buffer, start: number, end: number): number {
  if (from[start] !== DASH) return fractionOf(from, start, end)
  const micros = fractionOf(from, start + 1, end)
  return micros === 0 ? 0 : SECOND_MICROS - micros
}

const fractionOf = (from: Buffer, start: number, end: number): number =>
  digitsOf(from, Math.max(start, end - MICROS_DIGITS), end)

function digitsOf(from: Buffer, start: number, end: number): number {
  let value = 0
  for (let at = start; at < end; at += 1) value = value * 10 + ((from[at] as number) - ZERO)
  return value
}

/** What stands behind the time of a timestamp, and of one with a zone. */
export const [NO_ZONE, UTC] = [Buffer.alloc(0), Buffer.from('+00')]
const BEFORE_CHRIST = Buffer.from(' BC')
/** Of the text of any count and its zone. */
export const MOMENT_BYTES = '294247-01-10 04:00:54.775806+00 BC'.length

/** As PostgreSQL writes it: `2024-01-31 08:15:00.5`, then the zone, then the era. Returns where it ends. */
export function putCount(from: Buffer, start: number, end: number, zone: Buffer, to: Buffer, at: number): number {
  const seconds = secondsOf(from, start, end)
  const days = Math.floor(seconds / DAY_S)
  const clock = seconds - days * DAY_S
  let next = putDay(days, to, at)
  to[next] = SPACE
  next = putPair(to, next + 1, Math.floor(clock / 3600))
  to[next] = COLON
  next = putPair(to, next + 1, Math.floor(clock / 60) % 60)
  to[next] = COLON
  next = putPair(to, next + 1, clock % 60)
  next = putFraction(microsOf(from, start, end), to, next)
  next = putBytes(zone, 0, zone.length, to, next)
  return seconds >= YEAR_1_S ? next : putBytes(BEFORE_CHRIST, 0, BEFORE_CHRIST.length, to, next)
}

/** Without zeros that say nothing. */
function putFraction(micros: number, to: Buffer, at: number): number {
  if (micros === 0) return at
  to[at] = POINT
  let end = at + 1 + MICROS_DIGITS
  for (let digit = end - 1, left = micros; digit > at; digit -= 1, left = Math.floor(left / 10)) {
    to[digit] = ZERO + (left % 10)
  }
  while (to[end - 1] === ZERO) end -= 1
  return end
}

/** `2024-01-31`; of years before the first, that of its era. */
function putDay(days: number, to: Buffer, at: number): number {
  const marchYear = marchYearOf(days)
  const day = days - firstDayOf(marchYear)
  const year = yearOf(marchYear, day)
  let next = putYear(to, at, year > 0 ? year : 1 - year)
  to[next] = DASH
  next = putPair(to, next + 1, monthOf(day))
  to[next] = DASH
  return putPair(to, next + 1, dayOfMonth(day))
}

/** Four digits at least. */
function putYear(to: Buffer, at: number, year: number): number {
  let end = at + 4
  for (let most = 10_000; year >= most; most *= 10) end += 1
  for (let digit = end - 1, left = year; digit >= at; digit -= 1, left = Math.floor(left / 10)) {
    to[digit] = ZERO + (left % 10)
  }
  return end
}

function putPair(to: Buffer, at: number, value: number): number {
  const tens = Math.floor(value / 10)
  to[at] = ZERO + tens
  to[at + 1] = ZERO + value - 10 * tens
  return at + 2
}
