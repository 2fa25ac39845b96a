/**
 * Values as a file of parquet has them. Of some types DuckDB's writer keeps less than there is and says nothing: whole numbers of
 * more than 64 bits become doubles, times of day lose their zone, and intervals what is less than a millisecond. Those numbers are
 * decimals, those times the texts that every answer tells, and such an interval is refused, as DuckDB refuses one below zero.
 */
import {
  type DuckDBArrayType,
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBUnionType,
} from '@duckdb/node-api'
import { quoteName } from '../sql-text.ts'
import { csvCell, jsonOf, MAX_LISTS, tooNested } from './json-sql.ts'

/** Whether parquet holds less of it than there is. */
export function isLossy(type: DuckDBType): boolean {
  switch (type.typeId) {
    case DuckDBTypeId.HUGEINT:
    case DuckDBTypeId.UHUGEINT:
    case DuckDBTypeId.INTERVAL:
    case DuckDBTypeId.TIME_TZ:
      return true
    default:
      return partsOf(type).some(isLossy)
  }
}

function partsOf(type: DuckDBType): readonly DuckDBType[] {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
      return [(type as DuckDBListType).valueType]
    case DuckDBTypeId.ARRAY:
      return [(type as DuckDBArrayType).valueType]
    case DuckDBTypeId.STRUCT:
      return (type as DuckDBStructType).entryTypes
    case DuckDBTypeId.MAP:
      return [(type as DuckDBMapType).keyType, (type as DuckDBMapType).valueType]
    case DuckDBTypeId.UNION:
      return (type as DuckDBUnionType).memberTypes
    default:
      return []
  }
}

/**
 * SQL for the value as it is to be written. Whole numbers of more than 38 digits are an error of the statement. Throws INVALID_DATA
 * `sql_unsupported` for more than `MAX_LISTS` lists or maps in each other.
 */
export function parquetValue(type: DuckDBType, sql: string, depth = 0): string {
  if (!isLossy(type)) return sql
  if (depth > MAX_LISTS) throw tooNested()
  switch (type.typeId) {
    case DuckDBTypeId.HUGEINT:
    case DuckDBTypeId.UHUGEINT:
      return `(${sql})::DECIMAL(38,0)`
    case DuckDBTypeId.INTERVAL:
      return `CASE WHEN date_part('microsecond', ${sql}) % 1000 = 0 THEN (${sql}) WHEN (${sql}) IS NOT NULL THEN error('Parquet files do not support microseconds of intervals') END`
    case DuckDBTypeId.LIST:
      return each((type as DuckDBListType).valueType, sql, depth)
    case DuckDBTypeId.ARRAY:
      return orNull(sql, each((type as DuckDBArrayType).valueType, `list_concat([], ${sql})`, depth))
    case DuckDBTypeId.STRUCT:
      return orNull(sql, struct(type as DuckDBStructType, sql, depth))
    case DuckDBTypeId.MAP:
      return orNull(sql, map(type as DuckDBMapType, sql, depth))
    case DuckDBTypeId.UNION:
      return jsonOf(type, sql, 'json', depth)
    default:
      return csvCell(type, sql)
  }
}

const orNull = (sql: string, value: string) => `CASE WHEN (${sql}) IS NOT NULL THEN ${value} END`

function each(item: DuckDBType, sql: string, depth: number): string {
  const name = `part${depth}`
  return `list_transform(${sql}, lambda ${name}: ${parquetValue(item, name, depth + 1)})`
}

function struct({ entryNames, entryTypes }: DuckDBStructType, sql: string, depth: number): string {
  const values = entryTypes.map((type, at) => parquetValue(type, `struct_extract_at(${sql}, ${at + 1})`, depth))
  // Of ROW, whose members have no names.
  if (entryNames.some((name) => name === '')) return `row(${values.join(', ')})`
  return `struct_pack(${values.map((value, at) => `${quoteName(entryNames[at] ?? '')} := ${value}`).join(', ')})`
}

function map({ keyType, valueType }: DuckDBMapType, sql: string, depth: number): string {
  const name = `entry${depth}`
  const [key, value] = [keyType, valueType].map((type, at) =>
    parquetValue(type, `${name}.${at === 0 ? 'key' : 'value'}`, depth + 1),
  )
  return `map_from_entries(list_transform(map_entries(${sql}), lambda ${name}: row(${key}, ${value})))`
}
