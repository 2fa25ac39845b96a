/** Values in the binary format of PostgreSQL, from its text format and back. */
import { notSupported, WireError } from '../protocol/wire-error.ts'
import { OID } from './column-types.ts'
import { intervalOf } from './intervals.ts'

const EPOCH_DAYS = 10_957
const DAY_MS = 86_400_000
const DAY_MICROS = 86_400_000_000n

type Encode = (text: string) => Buffer

/** PostgreSQL's text of a value → its binary. Throws 0A000 for a type, and 22003 or 22008 for a value, that has none. */
export function binaryOf(oid: number, text: Buffer): Buffer {
  const encode = ENCODERS[oid]
  if (encode !== undefined) return encode(text.toString('latin1'))
  if (AS_TEXT.has(oid)) return text
  throw notSupported(`values of the type ${oid} are not given as binary`, 'Ask for text.')
}

const AS_TEXT: ReadonlySet<number> = new Set([OID.text, OID.varchar, OID.bpchar, OID.name, OID.json, OID.unknown])

function filled(bytes: number, fill: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(bytes)
  fill(buffer)
  return buffer
}

const ENCODERS: Readonly<Record<number, Encode>> = {
  [OID.bool]: (text) => Buffer.from([text === 't' ? 1 : 0]),
  [OID.int2]: (text) => filled(2, (to) => to.writeInt16BE(Number(text))),
  [OID.int4]: (text) => filled(4, (to) => to.writeInt32BE(Number(text))),
  [OID.int8]: (text) => filled(8, (to) => to.writeBigInt64BE(BigInt(text))),
  [OID.float4]: (text) => filled(4, (to) => to.writeFloatBE(Number(text))),
  [OID.float8]: (text) => filled(8, (to) => to.writeDoubleBE(Number(text))),
  [OID.bytea]: (text) => Buffer.from(text.slice(2), 'hex'),
  [OID.uuid]: (text) => Buffer.from(text.replaceAll('-', ''), 'hex'),
  [OID.date]: (text) => filled(4, (to) => to.writeInt32BE(dateOf(text))),
  [OID.timestamp]: (text) => filled(8, (to) => to.writeBigInt64BE(momentOf(text))),
  [OID.timestamptz]: (text) => filled(8, (to) => to.writeBigInt64BE(momentOf(text.replace(/\+00(?= BC|$)/, '')))),
  [OID.time]: (text) => filled(8, (to) => to.writeBigInt64BE(clockOf(text))),
  [OID.timetz]: zonedClockOf,
  [OID.interval]: intervalBinary,
  [OID.varbit]: bitsOf,
  [OID.numeric]: numericOf,
}

const [MOST_DAYS, MOST_MICROS] = [2 ** 31 - 1, 2n ** 63n - 1n]
/** After as many years the calendar repeats itself. */
const [CYCLE_YEARS, CYCLE_DAYS] = [400, 146_097]
const YEAR_IN_CYCLE = 2_000

function dateOf(text: string): number {
  if (text === 'infinity') return 0x7fffffff
  if (text === '-infinity') return -0x80000000
  const days = daysOf(text)
  // The ends of the range are the infinities.
  if (days >= MOST_DAYS || days <= -MOST_DAYS - 1) throw outOfRange()
  return days
}

/** Since 2000. Years may be more than those of a Date. */
function daysOf(text: string): number {
  const [, digits = '', month = '', day = '', era] = /^([0-9]+)-([0-9]{2})-([0-9]{2})( BC)?$/.exec(text) ?? []
  if (digits === '') throw outOfRange()
  const year = era === undefined ? Number(digits) : 1 - Number(digits)
  const cycles = Math.floor((year - YEAR_IN_CYCLE) / CYCLE_YEARS)
  const within = Date.UTC(year - cycles * CYCLE_YEARS, Number(month) - 1, Number(day)) / DAY_MS
  return within + cycles * CYCLE_DAYS - EPOCH_DAYS
}

function clockOf(text: string): bigint {
  const [, hours = '', minutes = '', seconds = '', fraction = ''] =
    /^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?$/.exec(text) ?? []
  if (hours === '') throw outOfRange()
  const whole = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)
  return BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, '0'))
}

function momentOf(text: string): bigint {
  if (text === 'infinity') return 0x7fffffffffffffffn
  if (text === '-infinity') return -0x8000000000000000n
  const [, day = '', clock = '', era = ''] = /^(\S+) (\S+?)( BC)?$/.exec(text) ?? []
  const micros = BigInt(daysOf(day + era)) * DAY_MICROS + clockOf(clock)
  if (micros >= MOST_MICROS || micros <= -MOST_MICROS - 1n) throw outOfRange()
  return micros
}

/** `12:00:00.5-05:30`; in binary the zone is seconds to the west. */
function zonedClockOf(text: string): Buffer {
  const [, clock = '', sign, hours = '', minutes = '0', seconds = '0'] =
    /^([0-9:.]+)([+-])([0-9]{2})(?::([0-9]{2}))?(?::([0-9]{2}))?$/.exec(text) ?? []
  const zoneS = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)
  return filled(12, (to) => {
    to.writeBigInt64BE(clockOf(clock))
    to.writeInt32BE(sign === '-' ? zoneS : -zoneS, 8)
  })
}

function intervalBinary(text: string): Buffer {
  const interval = intervalOf(text)
  if (interval === null) throw outOfRange()
  const { months, days, micros } = interval
  return filled(16, (to) => {
    to.writeBigInt64BE(micros)
    to.writeInt32BE(days, 8)
    to.writeInt32BE(months, 12)
  })
}

const BYTE_BITS = 8

/** The number of bits, and bytes of them, the first bit in the highest place. */
function bitsOf(text: string): Buffer {
  return filled(4 + Math.ceil(text.length / BYTE_BITS), (to) => {
    to.writeInt32BE(text.length)
    for (let at = 0; at < text.length; at += 1) {
      if (text[at] !== '1') continue
      const byte = 4 + (at >> 3)
      to[byte] = (to[byte] as number) | (0x80 >> (at & 7))
    }
  })
}

/** PostgreSQL's times end at microseconds and at a year; of the engine's some do not. */
function outOfRange(): WireError {
  return new WireError('22008', 'a time is finer or farther off than binary values tell', {
    hint: 'Cast it: to timestamp, time or text.',
  })
}

const POSITIVE = 0x0000
const NEGATIVE = 0x4000
const NOT_A_NUMBER = 0xc000
/** Of the first of the groups. */
const MOST_WEIGHT = 0x7fff

/** Groups of four digits, with the weight of the first. */
function numericOf(text: string): Buffer {
  if (text === 'NaN') return header(0, 0, NOT_A_NUMBER, 0, [])
  const [, sign, whole = '', fraction = ''] = /^(-?)([0-9]*)(?:\.([0-9]*))?$/.exec(text) ?? []
  if (sign === undefined || whole.length > 4 * MOST_WEIGHT) {
    throw new WireError('22003', 'a number has no binary form', { hint: 'Cast it to text.' })
  }
  const left = whole.padStart(Math.ceil(whole.length / 4) * 4, '0')
  const right = fraction.padEnd(Math.ceil(fraction.length / 4) * 4, '0')
  const groups = (left + right).match(/.{4}/g)?.map(Number) ?? []
  let weight = left.length / 4 - 1
  while (groups[0] === 0) {
    groups.shift()
    weight -= 1
  }
  while (groups.at(-1) === 0) groups.pop()
  if (groups.length === 0) return header(0, 0, POSITIVE, fraction.length, [])
  return header(groups.length, weight, sign === '-' ? NEGATIVE : POSITIVE, fraction.length, groups)
}

function header(count: number, weight: number, sign: number, scale: number, groups: readonly number[]): Buffer {
  return filled(8 + groups.length * 2, (to) => {
    to.writeUInt16BE(count, 0)
    to.writeInt16BE(weight, 2)
    to.writeUInt16BE(sign, 4)
    to.writeUInt16BE(scale, 6)
    for (const [at, group] of groups.entries()) to.writeUInt16BE(group, 8 + at * 2)
  })
}

/** The text of a numeric in binary. Throws 22P03. */
export function numericText(bytes: Buffer): string {
  if (bytes.length < 8) throw malformed()
  const [count, weight] = [bytes.readUInt16BE(0), bytes.readInt16BE(2)]
  const [sign, scale] = [bytes.readUInt16BE(4), bytes.readUInt16BE(6)]
  if (sign === NOT_A_NUMBER) return 'NaN'
  if ((sign !== POSITIVE && sign !== NEGATIVE) || bytes.length !== 8 + count * 2 || scale > 1_000) throw malformed()
  if (Math.abs(weight) > 1_000) throw malformed()
  const groupAt = (position: number): string => {
    const index = weight - position
    const group = index >= 0 && index < count ? bytes.readUInt16BE(8 + index * 2) : 0
    if (group > 9_999) throw malformed()
    return String(group).padStart(4, '0')
  }
  let whole = ''
  for (let position = weight; position >= 0; position -= 1) whole += groupAt(position)
  let fraction = ''
  for (let position = -1; fraction.length < scale; position -= 1) fraction += groupAt(position)
  const digits = whole.replace(/^0+/, '') || '0'
  const tail = scale === 0 ? '' : `.${fraction.slice(0, scale)}`
  return `${sign === NEGATIVE ? '-' : ''}${digits}${tail}`
}

export function dateText(days: number): string {
  const at = new Date((days + EPOCH_DAYS) * DAY_MS)
  if (Number.isNaN(at.getTime()) || at.getUTCFullYear() < 1 || at.getUTCFullYear() > 9_999) throw malformed()
  return at.toISOString().slice(0, 10)
}

export function momentText(micros: bigint): string {
  const clock = ((micros % DAY_MICROS) + DAY_MICROS) % DAY_MICROS
  const day = dateText(Number((micros - clock) / DAY_MICROS))
  return `${day} ${clockText(clock)}`
}

export function clockText(micros: bigint): string {
  if (micros < 0n || micros > DAY_MICROS) throw malformed()
  const seconds = Number(micros / 1_000_000n)
  const pad = (part: number) => String(part).padStart(2, '0')
  const fraction = String(micros % 1_000_000n).padStart(6, '0')
  return `${pad(Math.floor(seconds / 3600))}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}.${fraction}`
}

export function malformed(): WireError {
  return new WireError('22P03', 'a parameter in binary is not of its type')
}
