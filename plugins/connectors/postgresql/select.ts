/** The statement that reads a table's rows as CSV. */
import { escapeIdentifier } from 'pg'
import type { RelationColumn } from './relation.ts'

/** The table in the statement, by an alias that no name of the tenant's can be confused with. */
export const ALIAS = 't'

export interface CopyStatement {
  readonly sql: string
  /**
   * Whether a first column tells of a row that cannot be carried whole, by the ordinal of a column (from 1, in `columns`);
   * of those that are optional by the ordinals of all, with blanks between them, where no other is at fault.
   */
  readonly judged: boolean
}

export function copyStatement(
  table: { readonly schema: string; readonly name: string },
  columns: readonly RelationColumn[],
  where: string | null,
  optional: ReadonlySet<string> = new Set(),
  /** Whether rows end with a cell for marks, where any can have some. */
  marks = false,
): CopyStatement {
  const verdict = verdictOf(columns, optional)
  const values = columns.map((column) => column.carriage.express?.(reference(column.name)) ?? reference(column.name))
  const list = (verdict ? [verdict, ...values, ...(marks ? ['NULL'] : [])] : values).join(', ')
  const filter = where ? ` WHERE ${where}` : ''
  const select = `SELECT ${list} FROM ${qualified(table)} AS ${ALIAS}${filter}`
  return { sql: `COPY (${select}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)`, judged: verdict !== null }
}

export function qualified(table: { readonly schema: string; readonly name: string }): string {
  return `${escapeIdentifier(table.schema)}.${escapeIdentifier(table.name)}`
}

export function reference(column: string): string {
  return `${ALIAS}.${escapeIdentifier(column)}`
}

function verdictOf(columns: readonly RelationColumn[], optional: ReadonlySet<string>): string | null {
  const unfit = columns.flatMap(({ name, carriage }, index) =>
    carriage.unfit ? [{ name, when: carriage.unfit.when(reference(name)), ordinal: index + 1 }] : [],
  )
  if (unfit.length === 0) return null
  const needed = unfit
    .filter(({ name }) => !optional.has(name))
    .map(({ when, ordinal }) => `WHEN ${when} THEN '${ordinal}'`)
  const others = unfit.filter(({ name }) => optional.has(name))
  const any = others.map(({ when }) => `(${when})`).join(' OR ')
  const all = others.map(({ when, ordinal }) => `CASE WHEN ${when} THEN '${ordinal}' END`).join(', ')
  return `CASE ${[...needed, ...(others.length === 0 ? [] : [`WHEN ${any} THEN concat_ws(' ', ${all})`])].join(' ')} END`
}
