/**
 * Values of every type in ascending order, written down by hand: who knows the place of a value in its list can tell what
 * a comparison gives without comparing values. No store, and no function of the SDK, has a part in it.
 */
import { type LogicalType, parseDecimal, typeName, type Value } from '@sluice/sdk'
import { withScale } from './values.ts'

type Known = NonNullable<Value>

/** By UTF-8 bytes: capitals before small letters, accents and composed forms apart, and above all of UTF-16's order. */
const STRINGS = [
  '',
  ' ',
  '"',
  '%',
  "'",
  '0',
  '1',
  '10',
  '9',
  'A',
  'AB',
  'Z',
  '\\',
  '_',
  'a',
  'a ',
  'aB',
  'ab',
  'b',
  'e',
  'e\u0301',
  'null',
  'z',
  '\u00df',
  '\u00e9',
  '\u0130',
  '\ufb00',
  '\u{1f600}',
]

const LONGS = [
  -9223372036854775808n,
  -9223372036854775807n,
  -9007199254740993n,
  -9007199254740992n,
  -1n,
  0n,
  9n,
  10n,
  9007199254740992n,
  9007199254740993n,
  9007199254740994n,
  9223372036854775806n,
  9223372036854775807n,
]

const DOUBLES = [
  Number.NEGATIVE_INFINITY,
  -1.7976931348623157e308,
  -1.5,
  -5e-324,
  0,
  5e-324,
  0.1,
  0.3,
  0.30000000000000004,
  9,
  10,
  9007199254740991,
  9007199254740992,
  1.7976931348623157e308,
  Number.POSITIVE_INFINITY,
  Number.NaN,
]

const FLOATS = [
  Number.NEGATIVE_INFINITY,
  -3.4028234663852886e38,
  -1.5,
  -1.401298464324817e-45,
  0,
  1.401298464324817e-45,
  Math.fround(0.1),
  Math.fround(1 / 3),
  9,
  10,
  16777215,
  16777216,
  3.4028234663852886e38,
  Number.POSITIVE_INFINITY,
  Number.NaN,
]

const DATES = ['0001-01-01', '1582-10-10', '1969-12-31', '1970-01-01', '2024-02-29', '2024-03-01', '9999-12-31']

/** A microsecond apart, before 1970 and after it, and on both sides of an hour that some zones do not have. */
const TIMES = [
  '0001-01-01T00:00:00.000000',
  '1969-12-31T23:59:59.999998',
  '1969-12-31T23:59:59.999999',
  '1970-01-01T00:00:00.000000',
  '1970-01-01T00:00:00.000001',
  '2024-03-31T01:59:59.999999',
  '2024-03-31T02:00:00.000000',
  '2024-03-31T02:30:00.000000',
  '9999-12-31T23:59:59.999999',
]

const UUIDS = [
  '00000000-0000-0000-0000-000000000000',
  '00000000-0000-0000-0000-000000000001',
  '0fffffff-ffff-ffff-ffff-ffffffffffff',
  '10000000-0000-0000-0000-000000000000',
  'a0000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
]

const BYTES = [[], [0], [0, 0], [0, 255], [1], [0x5c], [0x7f], [0x80], [0xff], [0xff, 0]].map((bytes) =>
  Uint8Array.from(bytes),
)

/** Ascending, no two equal. JSON has no order, and so no list. */
export function rankedValues(type: LogicalType): readonly Known[] {
  switch (typeName(type)) {
    case 'string':
      return STRINGS
    case 'boolean':
      return [false, true]
    case 'integer':
      return [-2147483648, -2147483647, -1, 0, 1, 9, 10, 2147483646, 2147483647]
    case 'long':
      return LONGS
    case 'float':
      return FLOATS
    case 'double':
      return DOUBLES
    case 'decimal':
      return decimals(type)
    case 'date':
      return DATES
    case 'timestamp':
      return TIMES
    case 'timestamptz':
      return TIMES.map((time) => `${time}Z`)
    case 'uuid':
      return UUIDS
    case 'binary':
      return BYTES
    case 'json':
      return []
  }
}

/** The greatest of that many digits, its neighbours, and what text would order otherwise than numbers. */
function decimals(type: LogicalType): readonly string[] {
  const { precision, scale } = parseDecimal(type) ?? { precision: 38, scale: 0 }
  const [most, next] = ['9'.repeat(precision), `${'9'.repeat(precision - 1)}8`]
  const digits = [`-${most}`, `-${next}`, '-10', '-9', '-1', '0', '1', '9', '10', next, most]
  return digits.map((each) => withScale(each, scale))
}
