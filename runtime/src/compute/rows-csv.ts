/** Rows of Trino's as CSV for an engine job. */
import type { TrinoRow } from '@sluice/analytics/trino/statements'
import type { Column, LogicalType } from '@sluice/sdk'

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
  for (const cell of cells) text += cell === null ? ',' : `"${textOf(cell).replaceAll('"', '""')}",`
  return `${text}""\n`
}

/** A zero keeps its sign. */
export function textOf(cell: unknown): string {
  return Object.is(cell, -0) ? '-0' : String(cell)
}
