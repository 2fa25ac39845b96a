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
import type { JsonFlavour } from './encode.ts'

/** A non-null DuckDB value as the JSON text that stands for it. */
export type CellEncoder = (value: DuckDBValue) => string

/**
 * The encoding of `toJsonValue`, and for the other types: hugeint, bignum like long; time `HH:MM:SS.ffffff`; interval
 * as PostgreSQL writes it; bit a string of 0 and 1; list an array; struct an object; map an object where its keys are
 * text, else a list of `[key, value]`; union `{tag, value}`.
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
      return (value) => JSON.stringify(toJsonValue(value as number, 'float'))
    case DuckDBTypeId.DOUBLE:
      return (value) => JSON.stringify(toJsonValue(value as number, 'double'))
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
      return (value) => timestamp((value as { nanos: bigint }).nanos / 1000n, '')
    case DuckDBTypeId.TIME:
      return (value) => `"${clock((value as { micros: bigint }).micros)}"`
    case DuckDBTypeId.TIME_NS:
      return (value) => `"${clock((value as { nanos: bigint }).nanos / 1000n)}"`
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

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER)

function integer(value: bigint): string {
  return value > MAX_SAFE || value < -MAX_SAFE ? `"${value}"` : value.toString()
}

const DAY_MS = 86_400_000
const MAX_DATE_MS = 8_640_000_000_000_000
const INFINITE_DAYS = 2 ** 31 - 1
const INFINITE_MICROS = 2n ** 63n - 1n

function date(days: number): string {
  if (Math.abs(days) === INFINITE_DAYS) return days > 0 ? '"infinity"' : '"-infinity"'
  return `"${isoDay(days * DAY_MS)}"`
}

function isoDay(milliseconds: number): string {
  if (Math.abs(milliseconds) > MAX_DATE_MS) throw new RangeError('a date lies outside the years −271821 to 275760')
  const iso = new Date(milliseconds).toISOString()
  return iso.slice(0, iso.indexOf('T'))
}

function timestamp(micros: bigint, zone: string): string {
  if (micros === INFINITE_MICROS || micros === -INFINITE_MICROS) return micros > 0n ? '"infinity"' : '"-infinity"'
  const dayMicros = 86_400_000_000n
  const clockMicros = ((micros % dayMicros) + dayMicros) % dayMicros
  return `"${isoDay(Number((micros - clockMicros) / 1000n))}T${clock(clockMicros)}${zone}"`
}

function clock(micros: bigint): string {
  const total = Number(micros)
  const seconds = Math.floor(total / 1_000_000)
  const pad = (part: number) => String(part).padStart(2, '0')
  const fraction = String(total % 1_000_000).padStart(6, '0')
  return `${pad(Math.floor(seconds / 3600))}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}.${fraction}`
}
