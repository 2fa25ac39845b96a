/** The farthest values of each type that products hold, and those around which they are written otherwise, in SQL that the engine and a PostgreSQL read alike. */

const cast = (type: string, texts: readonly string[]): readonly string[] => texts.map((text) => `'${text}'::${type}`)

const signed = (texts: readonly string[]): readonly string[] => texts.flatMap((text) => [text, `-${text}`])

/**
 * Their digits lie in the middle between two numbers: the engine takes them for the even one's, PostgreSQL adds a digit. Both texts
 * are read as the same number.
 */
const IN_THE_MIDDLE: ReadonlySet<string> = new Set(['9.999999999999999e22', '1.2345678e8'])

/** Around each power of ten at which one of both begins with an exponent. */
function floats(type: string, digits: readonly string[]): readonly string[] {
  const powers = [-8, -7, -6, -5, -4, -3, 0, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 20, 21, 22]
  const around = powers
    .flatMap((power) => digits.map((digit) => `${digit}e${power}`))
    .filter((text) => !IN_THE_MIDDLE.has(text))
  return cast(type, [...signed(['0', 'infinity', ...around]), 'nan'])
}

function decimals(): readonly string[] {
  const shapes = [4, 5, 9, 18, 19, 38].flatMap((precision) =>
    [0, 1, 3, 4, precision - 1, precision].filter((scale) => scale <= precision).map((scale) => ({ precision, scale })),
  )
  return shapes.flatMap(({ precision, scale }) => {
    const point = (digits: string) => {
      const told = digits.padStart(scale + 1, '0')
      return scale === 0 ? told : `${told.slice(0, -scale)}.${told.slice(-scale)}`
    }
    const most = point('9'.repeat(precision))
    return cast(`numeric(${precision},${scale})`, [...signed([most, point('1'), point('1000')]), point('0')])
  })
}

const DAYS_TO_JULIAN_0 = 1_721_425

const times = (): readonly string[] => [
  ...[1, 366, 800_000, DAYS_TO_JULIAN_0].map((days) => `date '0001-01-01' - ${days}`),
  ...cast('date', ['0001-01-01', '1582-10-15', '1900-02-28', '2000-02-29', '9999-12-31', 'infinity', '-infinity']),
  ...[1, 1_000_000].map((days) => `date '9999-12-31' + ${days}`),
  ...['timestamp', 'timestamptz'].flatMap((type) => [
    ...cast(type, ['1970-01-01 00:00:00', '1969-12-31 23:59:59.999999', '2000-02-29 00:00:00.1']),
    ...cast(type, ['0001-01-01 00:00:00.000001', '9999-12-31 23:59:59.999999', 'infinity', '-infinity']),
    `${type} '0001-01-01 00:00:00' - interval '1 day' - interval '1 second'`,
    `${type} '9999-12-31 23:59:59.5' + interval '1 day'`,
  ]),
  ...cast('timestamptz', ['2024-06-30 12:00:00.123456+05:30', '1800-01-01 00:00:00-11']),
  ...cast('time', ['00:00:00', '23:59:59.999999', '12:30:00.5', '00:00:00.000001', '24:00:00']),
]

const texts = (): readonly string[] => [
  ...cast('text', ['', ' ', 'null', '\\N', '\\.', '\\', '"', '""', ',', "''", 'é', '\u{1f980}', '\ufeffx', 'a\u0301']),
  ...[8, 9, 10, 11, 12, 13, 27, 127, 128, 0xfffd, 0x10ffff].map((code) => `'a' || chr(${code}) || 'b"'`),
  `repeat('é"\\', 100000)`,
]

export const FAR_VALUES: readonly string[] = [
  ...cast('integer', ['2147483647', '-2147483648', '0', '-1']),
  ...cast('bigint', ['9223372036854775807', '-9223372036854775808', '9007199254740993', '-9007199254740993', '0']),
  ...floats('float8', ['1', '1.5', '9.999999999999999', '1.2345678901234567']),
  ...cast(
    'float8',
    signed(['5e-324', '2.2250738585072014e-308', '1.7976931348623157e308', '2417851639229258349412352']),
  ),
  ...floats('real', ['1', '1.5', '9.999999', '1.2345678']),
  ...cast('real', signed(['1e-45', '1.1754944e-38', '3.4028235e38', '16777216', '33554434', '0.1'])),
  ...decimals(),
  ...times(),
  ...texts(),
  ...cast('boolean', ['true', 'false']),
  ...cast('uuid', ['00000000-0000-0000-0000-000000000000', 'FFFFFFFF-ffff-ffff-ffff-ffffffffffff']),
  ...cast('bytea', ['', '\\x00', '\\xff', '\\x5c', '\\x0a']),
  ...cast('json', ['{"a": [1, null, "\\n\\\\"]}', '[]', 'null', '"é"', '1e400']),
  ...['integer', 'bigint', 'float8', 'real', 'numeric(5,2)', 'date', 'timestamp', 'timestamptz', 'time'].map(
    (type) => `NULL::${type}`,
  ),
  ...['text', 'boolean', 'uuid', 'bytea', 'json'].map((type) => `NULL::${type}`),
]
