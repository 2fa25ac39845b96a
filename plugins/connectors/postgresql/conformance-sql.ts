/** The statements of a source's owner, for the tables that the conformance suite makes. */
import type { SourceTable } from '@sluice/conformance'
import { type Column, type LogicalType, parseDecimal, type Row, typeName, type Value } from '@sluice/sdk'
import { escapeIdentifier, escapeLiteral } from 'pg'

/** Where only a cursor tells what has changed, the connector is shown a view of the table. */
export function baseOf(table: SourceTable): string {
  return escapeIdentifier(table.cursorColumn === undefined ? table.name : `${table.name}_base`)
}

export function createSql(table: SourceTable, reader: string): string {
  const columns = table.columns.map((column) => columnSql(column))
  const key = table.primaryKey.map((name) => escapeIdentifier(name)).join(', ')
  const name = escapeIdentifier(table.name)
  return [
    `CREATE TABLE ${baseOf(table)} (${columns.join(', ')}, PRIMARY KEY (${key}))`,
    ...(table.cursorColumn === undefined ? [] : [`CREATE VIEW ${name} AS SELECT * FROM ${baseOf(table)}`]),
    ...(table.hidden ? [] : [`GRANT SELECT ON ${name} TO ${escapeIdentifier(reader)}`]),
    // Only who owns a table may have the log tell it.
    ...(table.hidden || table.cursorColumn !== undefined
      ? []
      : [`ALTER TABLE ${name} OWNER TO ${escapeIdentifier(reader)}`]),
  ].join('; ')
}

export function columnSql({ name, type, nullable }: Column): string {
  return `${escapeIdentifier(name)} ${sqlType(type)} ${nullable ? '' : 'NOT NULL'}`
}

export function insertSql(table: SourceTable, rows: readonly Row[]): string {
  const names = table.columns.map(({ name }) => escapeIdentifier(name))
  const values = rows.map(
    (row) => `(${table.columns.map(({ type }, index) => literal(row[index] ?? null, type)).join(', ')})`,
  )
  return `INSERT INTO ${baseOf(table)} (${names.join(', ')}) VALUES ${values.join(', ')}`
}

export function putSql(table: SourceTable, rows: readonly Row[]): string {
  const names = table.columns.map(({ name }) => escapeIdentifier(name))
  const key = table.primaryKey.map((name) => escapeIdentifier(name)).join(', ')
  const set = names.map((name) => `${name} = excluded.${name}`).join(', ')
  return `${insertSql(table, rows)}
    ON CONFLICT (${key}) DO UPDATE SET ${set}`
}

export function keySql(table: SourceTable, row: Row): string {
  const parts = table.primaryKey.map((name) => {
    const index = table.columns.findIndex((column) => column.name === name)
    return `${escapeIdentifier(name)} = ${literal(row[index] ?? null, table.columns[index]?.type ?? 'string')}`
  })
  return parts.join(' AND ')
}

export function alterSql(table: SourceTable, next: SourceTable): readonly string[] {
  const added = next.columns.filter(({ name }) => !table.columns.some((column) => column.name === name))
  const dropped = table.columns.filter(({ name }) => !next.columns.some((column) => column.name === name))
  const retyped = next.columns.filter(({ name, type }) =>
    table.columns.some((one) => one.name === name && one.type !== type),
  )
  return [
    ...added.map(({ name, type }) => `ADD COLUMN ${escapeIdentifier(name)} ${sqlType(type)}`),
    ...dropped.map(({ name }) => `DROP COLUMN ${escapeIdentifier(name)}`),
    ...retyped.map(({ name, type }) => {
      const column = escapeIdentifier(name)
      return `ALTER COLUMN ${column} TYPE ${sqlType(type)} USING ${column}::${sqlType(type)}`
    }),
  ].map((change) => `ALTER TABLE ${baseOf(table)} ${change}`)
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'int4',
  long: 'int8',
  float: 'float4',
  double: 'float8',
  binary: 'bytea',
  json: 'jsonb',
}

function sqlType(type: LogicalType): string {
  const decimal = parseDecimal(type)
  if (decimal) return `numeric(${decimal.precision}, ${decimal.scale})`
  return TYPES[typeName(type)] ?? type
}

/** As JavaScript writes it, but for the sign of zero, which it leaves out. */
function textOf(value: NonNullable<Value>): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

export function literal(value: Value, type: LogicalType): string {
  if (value === null) return 'NULL'
  const text = value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : textOf(value)
  return `${escapeLiteral(text)}::${sqlType(type)}`
}
