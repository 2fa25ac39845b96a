/** The statements of a source's owner, for the tables that the conformance suite makes. */
import type { SourceTable } from '@sluice/conformance'
import { type Column, type LogicalType, parseDecimal, type Row, typeName, type Value } from '@sluice/sdk'
import { quoteName, quoteText } from './sql.ts'

/** What the server itself sets with every change: of no interest to who reads all columns, and a cursor for who reads on. */
const CHANGED = `\`changed at\` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6) INVISIBLE`

export function createSql(table: SourceTable): string {
  const columns = table.columns.map((column) => columnSql(column, table.primaryKey.includes(column.name)))
  const key = table.primaryKey.map(quoteName).join(', ')
  return `CREATE TABLE ${quoteName(table.name)} (${columns.join(', ')}, ${CHANGED}, PRIMARY KEY (${key}))`
}

function columnSql({ name, type, nullable }: Column, isKey: boolean): string {
  return `${quoteName(name)} ${sqlType(type, isKey)} ${nullable ? 'NULL' : 'NOT NULL'}`
}

export function putSql(table: SourceTable, rows: readonly Row[]): string {
  const names = table.columns.map(({ name }) => quoteName(name))
  const values = rows.map(
    (row) => `(${table.columns.map(({ type }, index) => literal(row[index] ?? null, type)).join(', ')})`,
  )
  const set = names.map((name) => `${name} = VALUES(${name})`).join(', ')
  return `INSERT INTO ${quoteName(table.name)} (${names.join(', ')}) VALUES ${values.join(', ')}
    ON DUPLICATE KEY UPDATE ${set}`
}

export function removeSql(table: SourceTable, row: Row): string {
  const parts = table.primaryKey.map((name) => {
    const index = table.columns.findIndex((column) => column.name === name)
    return `${quoteName(name)} = ${literal(row[index] ?? null, table.columns[index]?.type ?? 'string')}`
  })
  return `DELETE FROM ${quoteName(table.name)} WHERE ${parts.join(' AND ')}`
}

export function alterSql(table: SourceTable, next: SourceTable): readonly string[] {
  const added = next.columns.filter(({ name }) => !table.columns.some((column) => column.name === name))
  const dropped = table.columns.filter(({ name }) => !next.columns.some((column) => column.name === name))
  const retyped = next.columns.filter(({ name, type }) =>
    table.columns.some((one) => one.name === name && one.type !== type),
  )
  return [
    ...added.map((column) => `ADD COLUMN ${columnSql(column, false)}`),
    ...dropped.map(({ name }) => `DROP COLUMN ${quoteName(name)}`),
    ...retyped.map((column) => `MODIFY COLUMN ${columnSql(column, false)}`),
  ].map((change) => `ALTER TABLE ${quoteName(table.name)} ${change}`)
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'LONGTEXT',
  boolean: 'BIT(1)',
  integer: 'INT',
  long: 'BIGINT',
  date: 'DATE',
  timestamp: 'DATETIME(6)',
  timestamptz: 'TIMESTAMP(6)',
  uuid: 'UUID',
  binary: 'LONGBLOB',
  json: 'JSON',
}

function sqlType(type: LogicalType, isKey: boolean): string {
  const decimal = parseDecimal(type)
  if (decimal) return `DECIMAL(${decimal.precision}, ${decimal.scale})`
  return isKey && type === 'string' ? 'VARCHAR(190)' : (TYPES[typeName(type)] ?? type)
}

function literal(value: Value, type: LogicalType): string {
  if (value === null) return 'NULL'
  if (value instanceof Uint8Array) return `X'${Buffer.from(value).toString('hex')}'`
  if (typeof value === 'boolean') return value ? "b'1'" : "b'0'"
  const text = String(value)
  return quoteText(type === 'timestamptz' ? text.replace('T', ' ').replace('Z', '') : text)
}
