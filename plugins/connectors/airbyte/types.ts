/** Which logical type a property of a stream's JSON Schema is read as. */
import { type LogicalType, type ValueReader, valueReader } from '@sluice/sdk'
import { type Fields, fieldsOf } from './messages.ts'

/** What no type of ours holds for certain is carried as the JSON that it is. */
export function typeOf(schema: unknown): LogicalType {
  const fields = fieldsOf(schema)
  if (fields === null) return 'json'
  const names = namesOf(fields['type'])
  if (names === null || names.length !== 1) return 'json'
  switch (names[0]) {
    case 'boolean':
      return 'boolean'
    case 'integer':
      return 'long'
    case 'number':
      return fields['airbyte_type'] === 'integer' ? 'long' : 'double'
    case 'string':
      return textType(fields)
    default:
      return 'json'
  }
}

/** Null where it says none, or not only by names. */
function namesOf(type: unknown): readonly string[] | null {
  const all = typeof type === 'string' ? [type] : type
  if (!Array.isArray(all) || !all.every((name) => typeof name === 'string')) return null
  return all.filter((name) => name !== 'null')
}

function textType({ format, airbyte_type: airbyteType }: Fields): LogicalType {
  if (format === 'date') return 'date'
  if (format !== 'date-time') return 'string'
  return airbyteType === 'timestamp_without_timezone' ? 'timestamp' : 'timestamptz'
}

/** As `valueReader`, for numbers as JSON has them: what a double would change is no double, and 1.0 is whole. */
export function cellReader(type: LogicalType): ValueReader {
  const read = valueReader(type)
  if (type === 'long')
    return (text) => read(/^-?\d{1,20}\.0{1,20}$/.test(text) ? text.slice(0, text.indexOf('.')) : text)
  if (type !== 'double') return read
  return (text) => {
    const value = read(text)
    return value !== null && (text.length <= SURELY_EXACT || isSame(text, value)) ? value : null
  }
}

/** Fifteen digits come back from a double as they were. */
const SURELY_EXACT = 15

function isSame(text: string, read: string): boolean {
  const [a, b] = [plain(text), plain(read)]
  return a !== null && a === b
}

/** Digits without zeroes at the ends, and where the point stands. */
function plain(text: string): string | null {
  const match = /^(-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text)
  if (match === null) return null
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits === '') return '0'
  const kept = digits.replace(/0+$/, '')
  return `${sign}${kept}e${Number(exponent) - fraction.length + digits.length - kept.length}`
}
