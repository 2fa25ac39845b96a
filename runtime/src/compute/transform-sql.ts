/** A product's transform as one statement for Trino, and the rows that it gives as CSV. */

import { selectedText, sqlType, type TrinoRow } from '@sluice/analytics/trino/statements'
import type { Column, LogicalType } from '@sluice/sdk'
import { guardedCondition, guardedQuery } from './trino-text.ts'

/** What an alias of the transform stands for. */
export interface InputRelation {
  readonly alias: string
  readonly columns: readonly Pick<Column, 'name' | 'type'>[]
  /** The author's condition; null: every row. */
  readonly where: string | null
  /** Null: a relation of these columns without rows. */
  readonly table: TablePlace | null
}

export interface TablePlace {
  readonly catalog: string
  readonly schema: string
  readonly name: string
  readonly snapshotId: string
}

export interface TransformText {
  readonly inputs: readonly InputRelation[]
  /** Null: the only input as it is. */
  readonly transform: string | null
  readonly columns: readonly Column[]
}

export interface TransformSql {
  readonly sql: string
  /** Names the same tables and has the same lines; for an answer to which tables that are. */
  readonly tablesSql: string
  /** The line of `sql` in which the author's text begins, from 1. */
  readonly firstLine: number
}

/** Every cell as text, cast to its column's type first. Throws INVALID_DATA where the guard refuses. */
export function transformSql({ inputs, transform, columns }: TransformText): TransformSql {
  const query = transform === null ? `SELECT * FROM ${quoted(inputs[0]?.alias ?? '')}` : guardedQuery(transform)
  const cells = columns.map(({ name, type }) => cellOf(`CAST(${quoted(name)} AS ${sqlType(type)})`, type))
  const before = (source: Source) =>
    `WITH ${inputs.map((input) => relation(input, source)).join(',\n')}\nSELECT ${cells.join(', ')} FROM (\n`
  const around = (source: Source) => `${before(source)}${query}\n) AS "__output"`
  return {
    sql: around(atSnapshot),
    tablesSql: around(withoutFilters),
    firstLine: before(atSnapshot).split('\n').length,
  }
}

export type Source = (table: TablePlace) => string

/** What stands for an alias, as an item of WITH. */
export function relation({ alias, columns, where, table }: InputRelation, source: Source): string {
  const names = columns.map(({ name }) => quoted(name)).join(', ')
  const typed = columns.map(({ name, type }) => `CAST(NULL AS ${sqlType(type)}) AS ${quoted(name)}`).join(', ')
  // A condition may name columns that the alias does not show: it stands beside the table itself.
  const rows = table === null ? `(SELECT ${typed}) AS t WHERE false` : `${source(table)} AS t WHERE true`
  const condition = where === null ? '' : ` AND (\n${guardedCondition(where)}\n)`
  return `${quoted(alias)} AS (SELECT ${names} FROM ${rows}${condition})`
}

export const atSnapshot: Source = ({ catalog, schema, name, snapshotId }) => {
  if (!/^\d{1,19}$/.test(snapshotId)) throw new Error('a snapshot id is a number')
  return `${[catalog, schema, name].map(quoted).join('.')} FOR VERSION AS OF ${snapshotId}`
}

/**
 * No filter gets behind a LIMIT to the table: where Trino tells which tables a statement reads it writes their filters,
 * too, and fails over those that it has no text for, as of bytes.
 */
export const withoutFilters: Source = (table) => `(SELECT * FROM ${atSnapshot(table)} LIMIT ${2n ** 63n - 1n})`

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

function cellOf(cell: string, type: LogicalType): string {
  return type === 'binary' ? `lower(to_hex(${cell}))` : selectedText(cell, type)
}

/** A column of the CSV behind all others, so that no line of it is empty. */
export const LAST_COLUMN = '__end'

/** The columns of the CSV. Binary arrives as hexadecimal text. */
export function csvColumns(
  columns: readonly Column[],
): readonly { readonly name: string; readonly type: LogicalType }[] {
  const own = columns.map(({ name, type }) => ({ name, type: type === 'binary' ? ('string' as const) : type }))
  return [...own, { name: LAST_COLUMN, type: 'string' }]
}

export function csvOf(rows: readonly TrinoRow[]): Uint8Array {
  let text = ''
  for (const row of rows) text += csvLine(row)
  return Buffer.from(text)
}

/** Every value quoted, null an empty field without quotes, and `LAST_COLUMN`. */
export function csvLine(cells: readonly unknown[]): string {
  let text = ''
  for (const cell of cells) text += cell === null ? ',' : `"${String(cell).replaceAll('"', '""')}",`
  return `${text}""\n`
}
