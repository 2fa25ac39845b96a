/** Cells and questions as SQL: in DuckDB's words, which also write the tables, and in Trino's. */
import type { LogicalType } from '@sluice/sdk'
import { kindOf, numberOf } from './cells.ts'
import type { Question } from './filters.ts'
import { KEY, type ModelColumn, type Step } from './history.ts'

export interface Dialect {
  literal(cell: string, type: LogicalType): string
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`

const spaced = (instant: string): string => instant.replace('T', ' ').replace('Z', '')

const DUCKDB_NAMES: Readonly<Record<string, string>> = {
  string: 'VARCHAR',
  json: 'VARCHAR',
  long: 'BIGINT',
}

export const duckdb: Dialect = {
  literal(cell, type) {
    const kind = kindOf(type)
    if (kind === 'binary') return `from_hex('${cell}')`
    if (kind === 'float' || kind === 'double') return `CAST('${floatText(numberOf(cell))}' AS ${type})`
    const value = kind === 'timestamptz' ? `${spaced(cell)}+00` : kind === 'timestamp' ? spaced(cell) : cell
    return `CAST(${text(value)} AS ${DUCKDB_NAMES[kind] ?? type})`
  },
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  return Object.is(value, -0) ? '-0.0' : String(value).replace('Infinity', 'inf')
}

export const trino: Dialect = {
  literal(cell, type) {
    switch (kindOf(type)) {
      case 'boolean':
        return cell
      case 'integer':
        return `INTEGER '${cell}'`
      case 'long':
        return `BIGINT '${cell}'`
      case 'float':
        return `REAL '${trinoFloat(numberOf(cell))}'`
      case 'double':
        return `DOUBLE '${trinoFloat(numberOf(cell))}'`
      case 'decimal':
        return `CAST('${cell}' AS ${type})`
      case 'date':
        return `DATE '${cell}'`
      case 'timestamp':
        return `TIMESTAMP '${spaced(cell)}'`
      case 'timestamptz':
        return `TIMESTAMP '${spaced(cell)} UTC'`
      case 'uuid':
        return `UUID '${cell}'`
      case 'binary':
        return `X'${cell}'`
      default:
        return text(cell)
    }
  },
}

function trinoFloat(value: number): string {
  return Object.is(value, -0) ? '-0.0' : String(value)
}

export interface WrittenRows {
  readonly written: Step['written']
  readonly after: { readonly columns: readonly ModelColumn[] }
}

/** The rows of a step as the statement that writes them; columns in the order of the schema. */
export function writingSelect({ written, after: { columns } }: WrittenRows): string {
  const nulls = columns.map(({ name, type }) => `CAST(NULL AS ${duckdbType(type)}) AS ${quoted(name)}`).join(', ')
  if (written.length === 0) return `SELECT ${nulls} WHERE false`
  const tuple = (row: Step['written'][number]) =>
    columns.map(({ id, type }) => {
      const cell = row.get(id) ?? null
      return cell === null ? `CAST(NULL AS ${duckdbType(type)})` : duckdb.literal(cell, type)
    })
  const rows = written.map((row) => `(${tuple(row).join(', ')})`)
  return `SELECT * FROM (VALUES ${rows.join(', ')}) AS v(${columns.map(({ name }) => quoted(name)).join(', ')})`
}

function duckdbType(type: LogicalType): string {
  return DUCKDB_NAMES[kindOf(type)] ?? (kindOf(type) === 'binary' ? 'BLOB' : type)
}

export function condition({ column, type, operator, values }: Omit<Question, 'expected'>, dialect: Dialect): string {
  const name = quoted(column)
  const literals = values.map((value) => dialect.literal(value, type))
  switch (operator) {
    case 'is_null':
      return `${name} IS NULL`
    case 'not_null':
      return `${name} IS NOT NULL`
    case 'in':
      return `${name} IN (${literals.join(', ')})`
    case 'starts_with':
      return `${name} LIKE ${text(`${values[0]}%`)}`
    default:
      return `${name} ${{ eq: '=', lt: '<', ge: '>=' }[operator]} ${literals[0]}`
  }
}

/** The keys of the rows that pass each question, in one statement: `q` numbers the question. */
export function trinoQuestions(asked: readonly Question[], table: string): string {
  return asked
    .map((question, at) => `SELECT ${at} AS q, ${KEY} FROM ${table} WHERE ${condition(question, trino)}`)
    .join(' UNION ALL ')
}

/** A column as its cell. */
export function trinoCell({ name, type }: ModelColumn): string {
  const column = quoted(name)
  switch (kindOf(type)) {
    case 'float':
      return `CASE WHEN is_nan(${column}) THEN 'nan' ELSE lower(to_hex(to_ieee754_32(${column}))) END`
    case 'double':
      return `CASE WHEN is_nan(${column}) THEN 'nan' ELSE lower(to_hex(to_ieee754_64(${column}))) END`
    case 'timestamp':
      return `replace(CAST(${column} AS varchar), ' ', 'T')`
    case 'timestamptz':
      return `replace(CAST(CAST(${column} AT TIME ZONE 'UTC' AS timestamp(6)) AS varchar), ' ', 'T') || 'Z'`
    case 'binary':
      return `lower(to_hex(${column}))`
    case 'string':
    case 'json':
      return column
    default:
      return `CAST(${column} AS varchar)`
  }
}
