/** From DuckDB's values to the JSON in which a lake engine answers. */
import {
  type DuckDBDateValue,
  type DuckDBDecimalType,
  type DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBValue,
} from '@duckdb/node-api'
import { type LogicalType, toJsonValue, type Value } from '@sluice/sdk'

const NAMES: Readonly<Partial<Record<DuckDBTypeId, LogicalType>>> = {
  [DuckDBTypeId.BOOLEAN]: 'boolean',
  [DuckDBTypeId.INTEGER]: 'integer',
  [DuckDBTypeId.BIGINT]: 'long',
  [DuckDBTypeId.HUGEINT]: 'long',
  [DuckDBTypeId.FLOAT]: 'float',
  [DuckDBTypeId.DOUBLE]: 'double',
  [DuckDBTypeId.DATE]: 'date',
  [DuckDBTypeId.TIMESTAMP]: 'timestamp',
  [DuckDBTypeId.TIMESTAMP_TZ]: 'timestamptz',
  [DuckDBTypeId.UUID]: 'uuid',
  [DuckDBTypeId.BLOB]: 'binary',
}

/** Text for every type that is not named: what a check selects has logical types. */
export function resultType(type: DuckDBType | undefined): LogicalType {
  if (type?.typeId === DuckDBTypeId.VARCHAR) return type.alias === 'JSON' ? 'json' : 'string'
  if (type?.typeId === DuckDBTypeId.DECIMAL) {
    const { width, scale } = type as DuckDBDecimalType
    return `decimal(${width},${scale})`
  }
  return NAMES[type?.typeId ?? DuckDBTypeId.VARCHAR] ?? 'string'
}

export function jsonRow(row: readonly DuckDBValue[], types: readonly DuckDBType[]): string {
  const cells = row.map((value, index) => {
    const type = resultType(types[index])
    const told = toJsonValue(logicalValue(value, type), type)
    return Object.is(told, -0) ? '-0' : JSON.stringify(told)
  })
  return `[${cells.join(',')}]`
}

function logicalValue(value: DuckDBValue, type: LogicalType): Value {
  if (value === null) return null
  if (type === 'date') return new Date((value as DuckDBDateValue).days * 86_400_000).toISOString().slice(0, 10)
  if (type === 'timestamp') return instantText((value as DuckDBTimestampValue).micros)
  if (type === 'timestamptz') return `${instantText((value as DuckDBTimestampValue).micros)}Z`
  if (type === 'binary') return (value as unknown as { readonly bytes: Uint8Array }).bytes
  return typeof value === 'object' ? String(value) : (value as Value)
}

/** From microseconds since 1970, which may lie before it. */
function instantText(micros: bigint): string {
  const rest = ((micros % 1000n) + 1000n) % 1000n
  const text = new Date(Number((micros - rest) / 1000n)).toISOString()
  return text.replace('Z', String(rest).padStart(3, '0'))
}
