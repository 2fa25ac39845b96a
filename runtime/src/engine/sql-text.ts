import { type LogicalType, parseDecimal } from '@sluice/sdk'
import type { EngineColumn } from './job.ts'

/** DuckDB text made from parts that may be hostile. Nothing else in this folder quotes. */

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

export function quoteTable(name: readonly string[]): string {
  return name.map(quoteName).join('.')
}

const SQL_TYPES: Readonly<Record<string, string>> = {
  string: 'VARCHAR',
  boolean: 'BOOLEAN',
  integer: 'INTEGER',
  long: 'BIGINT',
  float: 'FLOAT',
  double: 'DOUBLE',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  timestamptz: 'TIMESTAMPTZ',
  uuid: 'UUID',
  binary: 'BLOB',
  json: 'JSON',
}

export function sqlType(type: LogicalType): string {
  const decimal = parseDecimal(type)
  if (decimal) return `DECIMAL(${decimal.precision},${decimal.scale})`
  const name = SQL_TYPES[type]
  if (!name) throw new Error(`"${type}" is no logical type`)
  return name
}

/** The type that stands in a parquet file: json and uuid travel there as text and as UUID. */
export function fileType(type: LogicalType): string {
  return type === 'json' ? 'VARCHAR' : sqlType(type)
}

/** A relation over parquet files, columns by field id and in the order given. */
export function parquetRelation(
  files: readonly string[],
  columns: readonly EngineColumn[],
  deletes: readonly string[],
): string {
  if (files.length === 0) return emptyRelation(columns)
  const schema = columns.map(
    (column) =>
      `${column.fieldId}: {name: ${quoteText(column.name)}, type: ${quoteText(fileType(column.type))}, default_value: NULL}`,
  )
  const names = columns.map((column) => castFromFile(column))
  const list = files.map(quoteText).join(', ')
  const read = `read_parquet([${list}], schema = MAP {${schema.join(', ')}}`
  if (deletes.length === 0) return `SELECT ${names.join(', ')} FROM ${read})`
  return `SELECT ${names.join(', ')} FROM ${read}, filename = '  file', file_row_number = true) AS data
    ANTI JOIN read_parquet([${deletes.map(quoteText).join(', ')}]) AS gone
    ON data."  file" = gone.file_path AND data.file_row_number = gone.pos`
}

function castFromFile(column: EngineColumn): string {
  const name = quoteName(column.name)
  return column.type === 'json' ? `${name}::JSON AS ${name}` : name
}

function emptyRelation(columns: readonly EngineColumn[]): string {
  const nulls = columns.map((column) => `NULL::${sqlType(column.type)} AS ${quoteName(column.name)}`)
  return `SELECT ${nulls.join(', ')} WHERE false`
}
