/** Values of every logical type, the extremes first. */
import { type LogicalType, parseDecimal, typeName, type Value } from '@sluice/sdk'
import type { Random } from './random.ts'

/** What breaks encoders: separators, quotes, the ends of formats, letters beyond 16 bits. No NUL: many engines have none. */
const STRINGS = [
  '',
  ' ',
  'null',
  'NULL',
  '\\N',
  '\\.',
  "a'--",
  '"',
  '""',
  'a,b',
  'a\nb',
  'a\r\nb',
  'a\tb',
  '\\',
  '%',
  'a:b',
  '{a}',
  '$1',
  '😀',
  'Ärger',
  'e\u0301',
  '\u202e',
  '\ufeffa',
  'A',
  'a',
]

const JSONS = [
  'false',
  '"null"',
  '[null]',
  '{"":null}',
  '{"__proto__":{"a":1},"constructor":2}',
  '{}',
  '[]',
  '""',
  '0',
  'true',
  '{"a":[1,null,{"b":"ü😀"}],"c":"x,\\"y\\"\\n"}',
  '[1.5,-2,"3"]',
  '{"nested":{"deep":[[[]]]}}',
]

const NUMBERS = [0, -0, 1, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]

/** The extremes of a type, without null. */
export function extremes(type: LogicalType): readonly NonNullable<Value>[] {
  switch (typeName(type)) {
    case 'string':
      return STRINGS
    case 'boolean':
      return [true, false]
    case 'integer':
      return [0, 1, -1, 2147483647, -2147483648]
    case 'long':
      return [0n, 1n, -1n, 9223372036854775807n, -9223372036854775808n, 9007199254740993n]
    case 'float':
      return [...NUMBERS, 1.1, 1 / 3, 3.4028234663852886e38, 1.401298464324817e-45].map(Math.fround)
    case 'double':
      return [...NUMBERS, 0.1, 0.1 + 0.2, 1 / 3, 1.7976931348623157e308, 5e-324, 9007199254740991, 2 ** 81]
    case 'decimal':
      return decimalExtremes(type)
    case 'date':
      return ['1970-01-01', '0001-01-01', '9999-12-31', '2024-02-29', '1582-10-10']
    case 'timestamp':
      return TIMES
    case 'timestamptz':
      return TIMES.map((time) => `${time}Z`)
    case 'uuid':
      return ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']
    case 'binary':
      return [new Uint8Array(), Uint8Array.of(0), Uint8Array.of(0, 255, 10, 13, 34, 92), Uint8Array.of(0x5c, 0x78)]
    case 'json':
      return JSONS
  }
}

const TIMES = [
  '1970-01-01T00:00:00.000000',
  '0001-01-01T00:00:00.000000',
  '9999-12-31T23:59:59.999999',
  '2024-03-31T01:30:00.000001',
  '1969-12-31T23:59:59.999999',
]

function decimalExtremes(type: LogicalType): readonly string[] {
  const { precision, scale } = parseDecimal(type) ?? { precision: 38, scale: 0 }
  const nines = '9'.repeat(precision)
  return [nines, `-${nines}`, '0', '1', '-1'].map((digits) => withScale(digits, scale))
}

export function withScale(digits: string, scale: number): string {
  if (scale === 0) return digits
  const sign = digits.startsWith('-') ? '-' : ''
  const padded = digits.replace('-', '').padStart(scale + 1, '0')
  return `${sign}${padded.slice(0, -scale)}.${padded.slice(-scale)}`
}

/** A value of the type, every third time an extreme one. */
export function randomValue(type: LogicalType, random: Random): NonNullable<Value> {
  return random.chance(1 / 3) ? random.pick(extremes(type)) : ordinary(type, random)
}

/** A value such as most rows have. Few enough strings and numbers that equal ones occur. */
export function ordinary(type: LogicalType, random: Random): NonNullable<Value> {
  switch (typeName(type)) {
    case 'string':
      return Array.from({ length: random.integer(1, 6) }, () => random.pick(['a', 'b', 'C', 'é', '7', '-'])).join('')
    case 'boolean':
      return random.chance(0.5)
    case 'integer':
      return random.integer(-50, 50)
    case 'long':
      return BigInt(random.integer(-50, 50))
    case 'float':
    case 'double':
      return random.integer(-200, 200) / 4
    case 'decimal':
      return ordinaryDecimal(type, random)
    case 'date':
      return new Date(Date.UTC(2026, 0, random.integer(1, 90))).toISOString().slice(0, 10)
    case 'timestamp':
      return instant(random)
    case 'timestamptz':
      return `${instant(random)}Z`
    case 'uuid':
      return uuid(random)
    case 'binary':
      return random.bytes(random.integer(1, 9))
    case 'json':
      return JSON.stringify({ n: random.integer(0, 9), s: random.pick(['x', 'ü']) })
  }
}

function ordinaryDecimal(type: LogicalType, random: Random): string {
  const { precision, scale } = parseDecimal(type) ?? { precision: 38, scale: 0 }
  const digits = String(random.integer(0, 10 ** Math.min(precision, 6) - 1))
  return withScale(random.chance(0.4) && digits !== '0' ? `-${digits}` : digits, scale)
}

function instant(random: Random): string {
  const text = new Date(Date.UTC(2026, 0, 1) + random.integer(0, 80 * 86_400_000)).toISOString()
  return text.replace('Z', String(random.integer(0, 999)).padStart(3, '0'))
}

function uuid(random: Random): string {
  const hex = Buffer.from(random.bytes(16)).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** A text of exactly so many bytes of UTF-8: of letters of one byte, or of as many of four as fit behind one of them. */
export function textOfBytes(bytes: number, isWide: boolean): string {
  const wide = isWide ? Math.floor((bytes - 1) / 4) : 0
  return `${'x'.repeat(bytes - wide * 4)}${'😀'.repeat(wide)}`
}
