/** The statement that reads a table's rows as CSV. */
import { escapeIdentifier } from 'pg'
import type { RelationColumn } from './relation.ts'

/** The table in the statement, by an alias that no name of the tenant's can be confused with. */
export const ALIAS = 't'

export interface CopyStatement {
  readonly sql: string
  /** Whether a first column tells the ordinal of the column (from 1, in `columns`) that keeps a row from being carried. */
  readonly judged: boolean
}

export function copyStatement(
  table: { readonly schema: string; readonly name: string },
  columns: readonly RelationColumn[],
  where: string | null,
): CopyStatement {
  const verdict = verdictOf(columns)
  const values = columns.map((column) => column.carriage.express?.(reference(column.name)) ?? reference(column.name))
  const list = (verdict ? [verdict, ...values] : values).join(', ')
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

function verdictOf(columns: readonly RelationColumn[]): string | null {
  const cases = columns.flatMap((column, index) => {
    const unfit = column.carriage.unfit
    return unfit ? [`WHEN ${unfit.when(reference(column.name))} THEN ${index + 1}`] : []
  })
  return cases.length > 0 ? `CASE ${cases.join(' ')} END` : null
}
