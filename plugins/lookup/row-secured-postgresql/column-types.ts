/** How logical types are kept in PostgreSQL, and how their values leave it and reach it as parameters. */
import { type LogicalType, parseDecimal, SluiceError, typeName, type Value } from '@sluice/sdk'

/** Strings sort and compare by their UTF-8 bytes, as the contract's values do, whatever the database's locale. */
export function columnType(type: LogicalType): string {
  switch (typeName(type)) {
    case 'string':
      return 'text collate "C"'
    case 'decimal': {
      const decimal = parseDecimal(type)
      return `numeric(${decimal?.precision},${decimal?.scale})`
    }
    default:
      return parameterType(type)
  }
}

/** The type a parameter is bound as: without a precision, since a cast to one would round what is asked for. */
export function parameterType(type: LogicalType): string {
  const types = {
    string: 'text',
    boolean: 'boolean',
    integer: 'integer',
    long: 'bigint',
    float: 'real',
    double: 'double precision',
    decimal: 'numeric',
    date: 'date',
    timestamp: 'timestamp',
    timestamptz: 'timestamptz',
    uuid: 'uuid',
    binary: 'bytea',
    json: 'json',
  } as const
  return types[typeName(type)]
}

/** `json` has no order and no equality of its own: its text is compared. */
export function comparable(type: LogicalType, reference: string): string {
  return type === 'json' ? `(${reference}::text collate "C")` : reference
}

export function comparableParameterType(type: LogicalType): string {
  return type === 'json' ? 'text' : parameterType(type)
}

/** Three-valued inequality with null as a value: true where the two differ. */
export function differs(type: LogicalType, left: string, right: string): string {
  return `${comparable(type, left)} is distinct from ${comparable(type, right)}`
}

const MICROSECONDS = `'YYYY-MM-DD"T"HH24:MI:SS.US'`

/** SQL for the text that `parseText` reads; null stays null. */
export function textExpression(type: LogicalType, reference: string): string {
  switch (typeName(type)) {
    case 'string':
      return reference
    case 'timestamp':
      return `to_char(${reference}, ${MICROSECONDS})`
    case 'timestamptz':
      return `to_char(${reference} at time zone 'UTC', ${MICROSECONDS}) || 'Z'`
    case 'binary':
      return `encode(${reference}, 'hex')`
    default:
      return `${reference}::text`
  }
}

/** SQL for the JSON text of a value, as `toJsonValue` of the contract has it; null stays SQL's null. */
export function jsonExpression(type: LogicalType, reference: string): string {
  switch (typeName(type)) {
    case 'string':
      return `to_json(${reference})::text`
    case 'float':
      return floatJson(reference)
    case 'double':
      return doubleJson(reference)
    case 'boolean':
    case 'integer':
    case 'json':
      return `${reference}::text`
    case 'long':
      return `case when ${reference} between -9007199254740991 and 9007199254740991 then ${reference}::text else '"' || ${reference}::text || '"' end`
    case 'binary':
      return `'"' || translate(encode(${reference}, 'base64'), E'\\n', '') || '"'`
    default:
      return `'"' || ${textExpression(type, reference)} || '"'`
  }
}

/** SQL for `x` in scientific notation with as many digits. */
const inDigits = (x: string, digits: number): string =>
  `to_char(${x}, '9${digits > 1 ? `.${'9'.repeat(digits - 1)}` : ''}EEEE')`

/**
 * The shortest digits as JavaScript writes them, with an exponent from 1e+21 on and below 1e-6. PostgreSQL has one sooner,
 * of two digits at least, and takes a digit more where a number in the middle between two stands for the even one, which
 * whole numbers of 54 bits do. Between the first two numbers it does neither.
 */
function doubleJson(reference: string): string {
  const text = `to_json(${reference})::text`
  const tried = [15, 16].map((digits) => inDigits(reference, digits))
  const cases = tried.map((one) => `when ${one}::double precision = ${reference} then ${one}`)
  const shorter = `regexp_replace(ltrim(case ${cases.join(' ')} else ${text} end), '[.]?0*e', 'e')`
  return `case when abs(${reference}) between 0.0001 and 1e14 or ${reference} = 0 then ${text}
    when ${text} ~ 'e(\\+(0[0-9]|1[0-5])|-0[56])$' then ${text}::numeric::text
    when abs(${reference}) < 1e21 and abs(${reference}) > 1 then ${shorter}::numeric::text
    when abs(${reference}) < 1e41 and abs(${reference}) > 1 then ${shorter}
    else replace(${text}, 'e-0', 'e-') end`
}

/** Of the rows below; no column of a product has blanks in its name. */
const [FOUND, PLACES, TRIED] = ['" found "', '" places "', '" tried "']

/**
 * As `toJsonValue` has it. PostgreSQL's own digits are the same below 2^25; from there on, decimals of few digits lie in the
 * middle between two floats, and it takes others.
 */
function floatJson(reference: string): string {
  const text = `to_json(${reference})::text`
  const pattern = `rpad('9', 1 + least(${PLACES}, 1), '.') || repeat('9', ${PLACES}) || 'EEEE'`
  const rounded = `to_char(${reference}::double precision, ${pattern})::double precision`
  const places = `generate_series(case when abs(${reference}) >= ${2 ** -126} then 5 else 0 end, 8) as ${PLACES}`
  const shortest = `select ${FOUND} from (select ${rounded} as ${FOUND}, ${PLACES} from ${places}) as ${TRIED}
    where ${FOUND}::real = ${reference} order by ${PLACES} limit 1`
  return `case when abs(${reference}) between 0.001 and 1e5 or ${reference} = 0 or abs(${reference}) in ('NaN', 'Infinity')
      then ${text}
    when abs(${reference}) between 1e5 and ${2 ** 25 - 2} then ${text}::numeric::text
    else (select ${doubleJson(FOUND)} from (${shortest}) as ${TRIED}) end`
}

export function parseText(type: LogicalType, text: string | null): Value {
  if (text === null) return null
  switch (typeName(type)) {
    case 'boolean':
      return text === 'true' || text === 't'
    case 'integer':
    case 'double':
      return Number(text)
    case 'float':
      return Math.fround(Number(text))
    case 'long':
      return BigInt(text)
    case 'binary':
      return new Uint8Array(Buffer.from(text, 'hex'))
    default:
      return text
  }
}

const INTEGER = /^[+-]?\d{1,20}$/
const NUMBER = /^[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?$/
const NOT_FINITE = ['NaN', 'Infinity', '-Infinity']
const DATE = /^\d{4,6}-\d{2}-\d{2}$/
const TIMESTAMP = /^\d{4,6}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?$/
const TIMESTAMPTZ = /^\d{4,6}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$/
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i

const ACCEPTS: Readonly<Record<ReturnType<typeof typeName>, (text: string) => boolean>> = {
  string: (text) => !text.includes('\0'),
  boolean: (text) => /^(true|false|t|f)$/i.test(text),
  integer: (text) => INTEGER.test(text) && Math.abs(Number(text)) <= 2 ** 31,
  long: (text) => INTEGER.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text),
  float: (text) => NUMBER.test(text) || NOT_FINITE.includes(text),
  double: (text) => NUMBER.test(text) || NOT_FINITE.includes(text),
  decimal: (text) => NUMBER.test(text) && text.length <= 100,
  date: (text) => DATE.test(text),
  timestamp: (text) => TIMESTAMP.test(text),
  timestamptz: (text) => TIMESTAMPTZ.test(text),
  uuid: (text) => UUID.test(text),
  binary: (text) => /^\\x([0-9a-f]{2})*$/i.test(text),
  json: (text) => !text.includes('\0'),
}

/**
 * The text that a value is bound as, or null where it is no value of the type. Checked here and not only by
 * PostgreSQL, which takes 'now' for a date and 'yes' for a boolean, and whose messages repeat the value.
 */
export function parameterText(type: LogicalType, value: NonNullable<Value>): string | null {
  const text =
    value instanceof Uint8Array
      ? `\\x${Buffer.from(value).toString('hex')}`
      : Object.is(value, -0)
        ? '0'
        : String(value)
  return ACCEPTS[typeName(type)](text) ? text : null
}

/** As `parameterText`; throws INVALID_DATA `invalid_value`, which names the column and not the value. */
export function boundText(column: string, type: LogicalType, value: NonNullable<Value>): string {
  const text = parameterText(type, value)
  if (text !== null) return text
  throw new SluiceError('INVALID_DATA', `the value compared with "${column}" is not of its type, ${type}`, {
    code: 'invalid_value',
    remedy: `Give a value of type ${type}.`,
    details: { column, type },
  })
}
