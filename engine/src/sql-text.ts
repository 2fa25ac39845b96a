import { type LogicalType, parseDecimal } from '@sluice/sdk'
import type { EngineColumn, EngineTable } from './job.ts'

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

/** The least whole number that a `long` has no room for; of those below zero, its negative is the last that fits. */
export const BEYOND_LONG = 2n ** 63n

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

/**
 * A column as it is written into a file. No file gets a negative zero: SQL takes the two zeros for equal, so that dictionaries
 * of files, merges and differences keep whichever came first, and each reader would tell another one.
 */
export function fileCell(name: string, type: LogicalType): string {
  const cell = `CAST(${quoteName(name)} AS ${fileType(type)})`
  return `${type === 'float' || type === 'double' ? `${cell} + 0::${sqlType(type)}` : cell} AS ${quoteName(name)}`
}

/**
 * What a file of columns of those types is written with, beside what its writer asks for. DuckDB 1.5 hashes bytes for bloom
 * filters by how it prints them, and a zero by its sign: `=` and joins then pass over row groups that have what they look for.
 */
export function parquetOptions(types: readonly LogicalType[]): readonly string[] {
  const isMistaken = types.some((type) => type === 'binary' || type === 'float' || type === 'double')
  return isMistaken ? ['FORMAT parquet', 'WRITE_BLOOM_FILTER false'] : ['FORMAT parquet']
}

/** Writes rows into one file, each column under the id that it has in the table. `rows` is a whole SELECT. */
export function copyToFile(
  rows: string,
  columns: readonly { readonly id: number; readonly name: string; readonly type: LogicalType }[],
  file: string,
): string {
  const cells = columns.map(({ name, type }) => fileCell(name, type)).join(', ')
  const ids = columns.map(({ id, name }) => `${quoteName(name)}: ${id}`).join(', ')
  const options = [...parquetOptions(columns.map(({ type }) => type)), `FIELD_IDS {${ids}}`].join(', ')
  // On a line of its own, so that a comment at the end of the rows ends with them.
  return `COPY (SELECT ${cells} FROM (${rows}\n)) TO ${quoteText(file)} (${options})`
}

/**
 * A column as it is read from a file that may have been written with such filters. An expression is not looked up in
 * them; zeros of files have no sign, so that bytes alone need it.
 */
export function fromFile(name: string, type: LogicalType, readAs = name): string {
  const column = quoteName(readAs)
  if (type === 'binary') return `${column} || ''::BLOB AS ${quoteName(name)}`
  return readAs === name ? column : `${column} AS ${quoteName(name)}`
}

/** A relation over parquet files, columns by field id and in the order given. */
export function parquetRelation({ also, ...table }: EngineTable): string {
  if (also === undefined) return listedRelation(table)
  return `${listedRelation(table)} UNION ALL ${listedRelation({ name: table.name, columns: table.columns, ...also })}`
}

function listedRelation(table: EngineTable): string {
  const { files, columns, deletes = [], only = [] } = table
  if (files.length === 0) return emptyRelation(columns)
  const findsPlaces = deletes.length + only.length > 0
  // Beside the places of rows the engine has no other column of that name.
  const readAs = ({ name }: EngineColumn) =>
    findsPlaces && name.toLowerCase() === 'file_row_number' ? COLUMN_BESIDE_PLACES : name
  const schema = columns.map(
    (column) =>
      `${column.fieldId}: {name: ${quoteText(readAs(column))}, type: ${quoteText(fileType(column.type))}, default_value: NULL}`,
  )
  const names = columns.map((column) => castFromFile(column, readAs(column))).join(', ')
  const read = `read_parquet([${files.map(quoteText).join(', ')}], schema = MAP {${schema.join(', ')}}`
  if (!findsPlaces) return `SELECT ${names} FROM ${read})`
  const joined = (kind: string, lists: readonly string[], as: string) =>
    lists.length === 0
      ? ''
      : `
    ${kind} JOIN (SELECT file_path, pos FROM read_parquet([${lists.map(quoteText).join(', ')}])) AS ${as}
    ON ${fileNames(table)}[kept.${quoteName(FILE_COLUMN)}] = ${as}.file_path AND kept.file_row_number = ${as}.pos`
  return `SELECT ${names} FROM ${read}, filename = ${quoteText(FILE_COLUMN)}, file_row_number = true) AS kept${joined('SEMI', only, 'listed')}${joined('ANTI', deletes, 'gone')}`
}

/** Of the file that a row is in: a name that no column of a table has. */
export const FILE_COLUMN = '  file  '
const COLUMN_BESIDE_PLACES = '  row number  '

/** From the path that the engine opens to the name that delete files use. */
export function fileNames({ files, deletedFrom = files }: Pick<EngineTable, 'files' | 'deletedFrom'>): string {
  const entries = files.map((file, index) => `${quoteText(file)}: ${quoteText(deletedFrom[index] ?? file)}`)
  return `MAP {${entries.join(', ')}}`
}

function castFromFile({ name, type }: EngineColumn, readAs: string): string {
  return type === 'json' ? `${quoteName(readAs)}::JSON AS ${quoteName(name)}` : fromFile(name, type, readAs)
}

/** A relation of the rows themselves. */
export function literalRelation(
  columns: readonly EngineColumn[],
  rows: readonly (readonly (string | number | null)[])[],
): string {
  const cells = columns.map(({ name, type }, at) => `(row ->> ${at})::${sqlType(type)} AS ${quoteName(name)}`)
  const list = quoteText(JSON.stringify(rows))
  return `SELECT ${cells.join(', ')} FROM (SELECT unnest(from_json(${list}, '["JSON"]')) AS row)`
}

function emptyRelation(columns: readonly EngineColumn[]): string {
  const nulls = columns.map((column) => `NULL::${sqlType(column.type)} AS ${quoteName(column.name)}`)
  return `SELECT ${nulls.join(', ')} WHERE false`
}
