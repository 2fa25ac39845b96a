/** The usual values of a type, written from the engine's text to PostgreSQL's binary without anything in between. */
import { DAYS_TO_2000, daysTo } from './calendar.ts'
import { OID } from './column-types.ts'
import { putBytes, putInt32 } from './growing.ts'
import { DAY_S, EPOCH_S, isCount, microsOf, SECOND_MICROS, secondsOf, YEAR_1_S, YEAR_10000_S } from './instants.ts'
import { CLOCK_BYTES, DATE_BYTES, isDate, isMoment, type PutCell } from './put-cells.ts'

/** What is not here is written by `binaryOf`. */
export const BINARY_PUTS: Readonly<Record<number, PutCell>> = {
  [OID.text]: putBytes,
  [OID.json]: putBytes,
  [OID.bool]: (from, start, _end, to, at) => {
    to[at] = from[start] === LETTER_T ? 1 : 0
    return at + 1
  },
  [OID.int4]: (from, start, end, to, at) => {
    putInt32(to, at, integerIn(from, start, end))
    return at + 4
  },
  [OID.int8]: putLong,
  [OID.float4]: (from, start, end, to, at) => to.writeFloatBE(Number(from.toString('latin1', start, end)), at),
  [OID.float8]: (from, start, end, to, at) => to.writeDoubleBE(Number(from.toString('latin1', start, end)), at),
  [OID.numeric]: putNumeric,
  [OID.bytea]: (from, start, end, to, at) => at + to.write(from.toString('latin1', start, end), at, 'base64'),
  [OID.uuid]: putUuid,
  [OID.date]: putDate,
  [OID.timestamp]: putMoment,
  [OID.timestamptz]: (from, start, end, to, at) =>
    putMoment(from, start, from[end - 1] === LETTER_Z ? end - 1 : end, to, at),
}

const [ZERO, NINE, DASH, POINT] = [0x30, 0x39, 0x2d, 0x2e]
const [LETTER_T, LETTER_Z] = [0x74, 0x5a]
/** Of so many characters every integer is a number without loss. */
const SAFE_CHARACTERS = 15

/** Of digits, with a sign in front or none. */
function integerIn(from: Buffer, start: number, end: number): number {
  const isBelow = from[start] === DASH
  let value = 0
  for (let at = isBelow ? start + 1 : start; at < end; at += 1) value = value * 10 + ((from[at] as number) - ZERO)
  return isBelow ? -value : value
}

function putLong(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start > SAFE_CHARACTERS) return -1
  const value = integerIn(from, start, end)
  const high = Math.floor(value / WORD)
  putInt32(to, at, high)
  putInt32(to, at + 4, value - high * WORD)
  return at + 8
}

const WORD = 2 ** 32
const HALF_WORD = 2 ** 16

/** A time of so many microseconds has more digits than a number: it is put together by halves. */
function putMicros(seconds: number, micros: number, to: Buffer, at: number): number {
  const upperS = Math.floor(seconds / HALF_WORD)
  const upper = upperS * SECOND_MICROS
  const high = Math.floor(upper / HALF_WORD)
  const low = (upper - high * HALF_WORD) * HALF_WORD + (seconds - upperS * HALF_WORD) * SECOND_MICROS + micros
  const carried = Math.floor(low / WORD)
  putInt32(to, at, high + carried)
  putInt32(to, at + 4, low - carried * WORD)
  return at + 8
}

/** Since 2000, of `YYYY-MM-DD`. */
function daysIn(from: Buffer, start: number): number {
  const year = integerIn(from, start, start + 4)
  const month = integerIn(from, start + 5, start + 7)
  return daysTo(year, month, integerIn(from, start + 8, start + 10)) - DAYS_TO_2000
}

function putDate(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start !== DATE_BYTES || !isDate(from, start, end)) return -1
  putInt32(to, at, daysIn(from, start))
  return at + 4
}

function putMoment(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (isCount(from, start, end)) return putCounted(from, start, end, to, at)
  const clock = start + DATE_BYTES + 1
  if (end !== clock + CLOCK_BYTES || !isMoment(from, start, end)) return -1
  const hours = integerIn(from, clock, clock + 2)
  const minutes = integerIn(from, clock + 3, clock + 5)
  const seconds = integerIn(from, clock + 6, clock + 8)
  const wholeS = daysIn(from, start) * DAY_S + (hours * 60 + minutes) * 60 + seconds
  return putMicros(wholeS, integerIn(from, clock + 9, end), to, at)
}

/** Farther off a count may be none of PostgreSQL's. */
function putCounted(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  const seconds = secondsOf(from, start, end)
  if (seconds < YEAR_1_S || seconds >= YEAR_10000_S) return -1
  return putMicros(seconds - EPOCH_S, microsOf(from, start, end), to, at)
}

const UUID_BYTES = 16

function putUuid(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  let digit = 0
  for (let byte = start; byte < end; byte += 1) {
    const sign = from[byte] as number
    if (sign === DASH) continue
    // Letters have their own nine more in the low bits.
    const value = sign <= NINE ? sign - ZERO : (sign & 0x07) + 9
    const place = at + (digit >> 1)
    to[place] = digit % 2 === 0 ? value << 4 : (to[place] as number) | value
    digit += 1
  }
  return digit === 2 * UUID_BYTES ? at + UUID_BYTES : -1
}

const NUMERIC_HEAD_BYTES = 8
const GROUP_DIGITS = 4
/** Longer ones may have more groups than are counted. */
const MOST_NUMERIC_CHARACTERS = 1_000

/** Groups of four digits to both sides of the point; those of zeros at either end are left out. */
function putNumeric(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start > MOST_NUMERIC_CHARACTERS) return -1
  const isBelow = from[start] === DASH
  const first = isBelow ? start + 1 : start
  let point = first
  while (point < end && from[point] !== POINT) point += 1
  const scale = Math.max(0, end - point - 1)
  const wholeGroups = Math.ceil((point - first) / GROUP_DIGITS)
  const groups = wholeGroups + Math.ceil(scale / GROUP_DIGITS)
  let weight = -1
  let used = 0
  let written = 0
  for (let group = 0; group < groups; group += 1) {
    const isWhole = group < wholeGroups
    const begin = isWhole
      ? point - (wholeGroups - group) * GROUP_DIGITS
      : point + 1 + (group - wholeGroups) * GROUP_DIGITS
    let value = 0
    for (let digit = begin; digit < begin + GROUP_DIGITS; digit += 1) {
      value = value * 10 + (digit < first || digit >= end ? 0 : (from[digit] as number) - ZERO)
    }
    if (value !== 0 && written === 0) weight = wholeGroups - 1 - group
    if (value === 0 && written === 0) continue
    const place = at + NUMERIC_HEAD_BYTES + 2 * written
    to[place] = value >>> 8
    to[place + 1] = value
    written += 1
    if (value !== 0) used = written
  }
  putInt32(to, at, used * HALF_WORD + ((used === 0 ? 0 : weight) & 0xffff))
  putInt32(to, at + 4, (isBelow && used > 0 ? NEGATIVE : 0) * HALF_WORD + scale)
  return at + NUMERIC_HEAD_BYTES + 2 * used
}

const NEGATIVE = 0x4000
