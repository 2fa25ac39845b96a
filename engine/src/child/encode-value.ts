import {
  type DuckDBArrayType,
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBUnionType,
  type DuckDBValue,
} from '@duckdb/node-api'
import { toJsonValue } from '@sluice/sdk'

/** `values`: json cells as text, for `rowsOf`. `json`: json cells nested, for answers. */
export type JsonFlavour = 'values' | 'json'

/** A non-null DuckDB value as the JSON text that stands for it. */
export type CellEncoder = (value: DuckDBValue) => string

/**
 * The encoding of `toJsonValue`, with the sign of a zero, and for the other types: hugeint, bignum like long; time
 * `HH:MM:SS.ffffff`, timetz the same with its offset, both and timestamps with nine digits where there are nanoseconds;
 * years beyond four digits as `12345-01-01`, those before the year 0 as `-000043-03-15`; interval as PostgreSQL writes it;
 * bit a string of 0 and 1; list an array; struct an object; map an object where its keys are text, else a list of
 * `[key, value]`; union `{tag, value}`.
 */
export function encoderFor(type: DuckDBType, flavour: JsonFlavour): CellEncoder {
  if (type.typeId === DuckDBTypeId.VARCHAR) return type.alias === 'JSON' ? jsonEncoder(flavour) : text
  return scalarEncoder(type) ?? nestedEncoder(type, flavour) ?? text
}

function jsonEncoder(flavour: JsonFlavour): CellEncoder {
  // A line break inside valid JSON can only be white space, and the row formats are lines.
  return flavour === 'values' ? text : (value) => checkedJson(String(value)).replace(/[\r\n]/g, ' ')
}

function checkedJson(source: string): string {
  JSON.parse(source)
  return source
}

function scalarEncoder(type: DuckDBType): CellEncoder | null {
  switch (type.typeId) {
    case DuckDBTypeId.BOOLEAN:
    case DuckDBTypeId.TINYINT:
    case DuckDBTypeId.SMALLINT:
    case DuckDBTypeId.INTEGER:
    case DuckDBTypeId.UTINYINT:
    case DuckDBTypeId.USMALLINT:
    case DuckDBTypeId.UINTEGER:
      return String
    case DuckDBTypeId.BIGINT:
    case DuckDBTypeId.UBIGINT:
    case DuckDBTypeId.HUGEINT:
    case DuckDBTypeId.UHUGEINT:
    case DuckDBTypeId.BIGNUM:
      return (value) => integer(value as bigint)
    case DuckDBTypeId.FLOAT:
      return (value) => float(value as number, 'float')
    case DuckDBTypeId.DOUBLE:
      return (value) => float(value as number, 'double')
    case DuckDBTypeId.BLOB:
      return (value) => `"${Buffer.from((value as { bytes: Uint8Array }).bytes).toString('base64')}"`
    default:
      return timeEncoder(type)
  }
}

function timeEncoder(type: DuckDBType): CellEncoder | null {
  switch (type.typeId) {
    case DuckDBTypeId.DATE:
      return (value) => date((value as { days: number }).days)
    case DuckDBTypeId.TIMESTAMP:
      return (value) => timestamp((value as { micros: bigint }).micros, '')
    case DuckDBTypeId.TIMESTAMP_TZ:
      return (value) => timestamp((value as { micros: bigint }).micros, 'Z')
    case DuckDBTypeId.TIMESTAMP_S:
      return (value) => timestamp((value as { seconds: bigint }).seconds * 1_000_000n, '')
    case DuckDBTypeId.TIMESTAMP_MS:
      return (value) => timestamp((value as { millis: bigint }).millis * 1000n, '')
    case DuckDBTypeId.TIMESTAMP_NS:
      return (value) => timestampNs((value as { nanos: bigint }).nanos)
    case DuckDBTypeId.TIME:
      return (value) => `"${clock((value as { micros: bigint }).micros, 0n)}"`
    case DuckDBTypeId.TIME_NS:
      return (value) => {
        const { nanos } = value as { nanos: bigint }
        return `"${clock(nanos / 1000n, nanos % 1000n)}"`
      }
    case DuckDBTypeId.TIME_TZ:
      return (value) => zonedClock(String(value))
    default:
      return null
  }
}

function nestedEncoder(type: DuckDBType, flavour: JsonFlavour): CellEncoder | null {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
      return listEncoder(encoderFor((type as DuckDBListType).valueType, flavour))
    case DuckDBTypeId.ARRAY:
      return listEncoder(encoderFor((type as DuckDBArrayType).valueType, flavour))
    case DuckDBTypeId.STRUCT:
      return structEncoder(type as DuckDBStructType, flavour)
    case DuckDBTypeId.MAP:
      return mapEncoder(type as DuckDBMapType, flavour)
    case DuckDBTypeId.UNION:
      return unionEncoder(type as DuckDBUnionType, flavour)
    default:
      return null
  }
}

function orNull(encode: CellEncoder, value: DuckDBValue | undefined): string {
  return value === null || value === undefined ? 'null' : encode(value)
}

function listEncoder(item: CellEncoder): CellEncoder {
  return (value) =>
    `[${(value as { items: readonly DuckDBValue[] }).items.map((each) => orNull(item, each)).join(',')}]`
}

function structEncoder(type: DuckDBStructType, flavour: JsonFlavour): CellEncoder {
  const members = type.entryNames.map((name, index) => ({
    name,
    label: JSON.stringify(name),
    encode: encoderFor(type.entryTypes[index] as DuckDBType, flavour),
  }))
  return (value) => {
    const entries = (value as { entries: Readonly<Record<string, DuckDBValue>> }).entries
    return `{${members.map(({ name, label, encode }) => `${label}:${orNull(encode, entries[name])}`).join(',')}}`
  }
}

function mapEncoder(type: DuckDBMapType, flavour: JsonFlavour): CellEncoder {
  const key = encoderFor(type.keyType, flavour)
  const item = encoderFor(type.valueType, flavour)
  const textKeys = type.keyType.typeId === DuckDBTypeId.VARCHAR
  return (value) => {
    const entries = (value as { entries: readonly { key: DuckDBValue; value: DuckDBValue }[] }).entries
    const parts = entries.map((entry) => [key(entry.key), orNull(item, entry.value)] as const)
    if (textKeys) return `{${parts.map(([name, each]) => `${name}:${each}`).join(',')}}`
    return `[${parts.map(([name, each]) => `[${name},${each}]`).join(',')}]`
  }
}

function unionEncoder(type: DuckDBUnionType, flavour: JsonFlavour): CellEncoder {
  const encoders = new Map(
    type.memberTags.map((tag, index) => [tag, encoderFor(type.memberTypes[index] as DuckDBType, flavour)] as const),
  )
  return (value) => {
    const union = value as { tag: string; value: DuckDBValue }
    return `{"tag":${JSON.stringify(union.tag)},"value":${orNull(encoders.get(union.tag) ?? text, union.value)}}`
  }
}

function text(value: DuckDBValue): string {
  return JSON.stringify(String(value))
}

/** The shortest digits, and a zero with its sign. */
function float(value: number, type: 'float' | 'double'): string {
  return Object.is(value, -0) ? '-0' : JSON.stringify(toJsonValue(value, type))
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER)

function integer(value: bigint): string {
  return value > MAX_SAFE || value < -MAX_SAFE ? `"${value}"` : value.toString()
}

const DAY_MS = 86_400_000
const INFINITE_DAYS = 2 ** 31 - 1
const INFINITE_MICROS = 2n ** 63n - 1n

function date(days: number): string {
  if (Math.abs(days) === INFINITE_DAYS) return days > 0 ? '"infinity"' : '"-infinity"'
  return `"${isoDay(days)}"`
}

/** After as many days the calendar repeats itself, 400 years on. */
const CYCLE_DAYS = 146_097
const DAYS_TO_YEAR_0 = 719_528

function isoDay(days: number): string {
  const cycles = Math.floor((days + DAYS_TO_YEAR_0) / CYCLE_DAYS)
  const within = new Date((days - cycles * CYCLE_DAYS) * DAY_MS)
  const year = within.getUTCFullYear() + 400 * cycles
  const text = year < 0 ? `-${String(-year).padStart(6, '0')}` : String(year).padStart(4, '0')
  return `${text}${within.toISOString().slice(4, 10)}`
}

const DAY_MICROS = 86_400_000_000n

function timestamp(micros: bigint, zone: string, nanos = 0n): string {
  if (micros === INFINITE_MICROS || micros === -INFINITE_MICROS) return micros > 0n ? '"infinity"' : '"-infinity"'
  const clockMicros = ((micros % DAY_MICROS) + DAY_MICROS) % DAY_MICROS
  return `"${isoDay(Number((micros - clockMicros) / DAY_MICROS))}T${clock(clockMicros, nanos)}${zone}"`
}

const INFINITE_NANOS = 2n ** 63n - 1n

function timestampNs(nanos: bigint): string {
  if (nanos === INFINITE_NANOS || nanos === -INFINITE_NANOS) return timestamp(nanos, '')
  const rest = ((nanos % 1000n) + 1000n) % 1000n
  return timestamp((nanos - rest) / 1000n, '', rest)
}

/** Microseconds; three digits more where there are nanoseconds besides. */
function clock(micros: bigint, nanos: bigint): string {
  const total = Number(micros)
  const seconds = Math.floor(total / 1_000_000)
  const pad = (part: number | bigint, digits = 2) => String(part).padStart(digits, '0')
  const fraction = `${pad(total % 1_000_000, 6)}${nanos === 0n ? '' : pad(nanos, 3)}`
  return `${pad(Math.floor(seconds / 3600))}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}.${fraction}`
}

/** `12:00:00.5+05:30` of DuckDB's. */
function zonedClock(value: string): string {
  const [, seconds = '', fraction = '', zone = ''] = /^([0-9:]+)(?:[.]([0-9]+))?(.*)$/.exec(value) ?? []
  return `"${seconds}.${fraction.padEnd(6, '0')}${zone}"`
}
