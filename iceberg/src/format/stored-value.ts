import { type LogicalType, parseDecimal, typeName } from '@sluice/sdk'

/**
 * A value as Iceberg orders and stores it. By type: integer and date (days) a number; long, timestamp, timestamptz
 * (microseconds) and decimal (unscaled) a bigint; float and double a number; string, json and uuid text; binary bytes.
 */
export type StoredValue = boolean | number | bigint | string | Uint8Array

/** Iceberg's single-value serialisation: https://iceberg.apache.org/spec/#binary-single-value-serialization */
export function encodeStored(type: LogicalType, value: StoredValue): Buffer {
  switch (typeName(type)) {
    case 'boolean':
      return Buffer.from([value === true ? 1 : 0])
    case 'integer':
    case 'date':
      return written(4, (bytes) => bytes.writeInt32LE(Number(value)))
    case 'long':
    case 'timestamp':
    case 'timestamptz':
      return written(8, (bytes) => bytes.writeBigInt64LE(BigInt(value as bigint)))
    case 'float':
      return written(4, (bytes) => bytes.writeFloatLE(Number(value)))
    case 'double':
      return written(8, (bytes) => bytes.writeDoubleLE(Number(value)))
    case 'decimal':
      return twosComplement(value as bigint)
    case 'uuid':
      return Buffer.from(String(value).replaceAll('-', ''), 'hex')
    case 'binary':
      return Buffer.from(value as Uint8Array)
    case 'string':
    case 'json':
      return Buffer.from(String(value), 'utf8')
  }
}

/** The reverse. Reads what was written before the column was widened: a long of 4 bytes, a double of 4. */
export function decodeStored(type: LogicalType, bytes: Uint8Array): StoredValue {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  switch (typeName(type)) {
    case 'boolean':
      return buffer[0] !== 0
    case 'integer':
    case 'date':
      return buffer.readInt32LE()
    case 'long':
    case 'timestamp':
    case 'timestamptz':
      return buffer.length === 4 ? BigInt(buffer.readInt32LE()) : buffer.readBigInt64LE()
    case 'float':
      return buffer.readFloatLE()
    case 'double':
      return buffer.length === 4 ? buffer.readFloatLE() : buffer.readDoubleLE()
    case 'decimal':
      return fromTwosComplement(buffer)
    case 'uuid':
      return buffer.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    case 'binary':
      return buffer
    case 'string':
    case 'json':
      return buffer.toString('utf8')
  }
}

/** Big-endian, in the fewest bytes that keep the sign. */
export function twosComplement(value: bigint): Buffer {
  let bits = 8
  while (BigInt.asIntN(bits, value) !== value) bits += 8
  return Buffer.from(
    BigInt.asUintN(bits, value)
      .toString(16)
      .padStart(bits / 4, '0'),
    'hex',
  )
}

export function fromTwosComplement(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString('hex')}`))
}

function written(size: number, write: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.alloc(size)
  write(bytes)
  return bytes
}

/**
 * A value as DuckDB prints it, or null where it has none that Iceberg could hold exactly: infinities, NaN, dates BC.
 * Binary is not read: the printed form is ambiguous.
 */
export function parsePrinted(type: LogicalType, text: string): StoredValue | null {
  switch (typeName(type)) {
    case 'boolean':
      return text === '1' || text === 'true' ? true : text === '0' || text === 'false' ? false : null
    case 'integer':
      return /^-?\d+$/.test(text) ? Number(text) : null
    case 'long':
      return /^-?\d+$/.test(text) ? BigInt(text) : null
    case 'float':
    case 'double':
      return text !== '' && Number.isFinite(Number(text)) ? Number(text) : null
    case 'decimal':
      return parseUnscaled(text, parseDecimal(type)?.scale ?? 0)
    case 'date':
      return parseDays(text)
    case 'timestamp':
    case 'timestamptz':
      return parseMicros(text)
    case 'uuid':
      return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text) ? text : null
    case 'string':
    case 'json':
      return text
    case 'binary':
      return null
  }
}

function parseUnscaled(text: string, scale: number): bigint | null {
  const match = /^(-?)(\d*)(?:\.(\d+))?$/.exec(text)
  if (match === null || (match[3] ?? '').length > scale || `${match[2]}${match[3] ?? ''}` === '') return null
  const digits = BigInt(`${match[2]}${(match[3] ?? '').padEnd(scale, '0')}`)
  return match[1] === '-' ? -digits : digits
}

function parseDays(text: string): number | null {
  const match = /^(\d{4,6})-(\d\d)-(\d\d)$/.exec(text)
  return match === null ? null : daysOf(Number(match[1]), Number(match[2]), Number(match[3]))
}

const MICROS_PER_SECOND = 1_000_000n

function parseMicros(text: string): bigint | null {
  const match =
    /^(\d{4,6}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?$/.exec(
      text,
    )
  const days = match === null ? null : parseDays(match[1] ?? '')
  if (match === null || days === null) return null
  const clock = secondsOf(match[2], match[3], match[4])
  const offset = secondsOf(match[7], match[8], match[9]) * (match[6] === '-' ? -1 : 1)
  const seconds = BigInt(days) * 86_400n + BigInt(clock - offset)
  return seconds * MICROS_PER_SECOND + BigInt((match[5] ?? '').padEnd(6, '0'))
}

function secondsOf(hours = '0', minutes = '0', seconds = '0'): number {
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
}

const MS_PER_DAY = 86_400_000

/** Days since 1970-01-01; null where no such day exists. `Date` counts years 0–99 from 1900 unless they are set apart. */
function daysOf(year: number, month: number, day: number): number | null {
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  const days = date.getTime() / MS_PER_DAY
  return Number.isInteger(days) && date.getUTCDate() === day && date.getUTCMonth() === month - 1 ? days : null
}
