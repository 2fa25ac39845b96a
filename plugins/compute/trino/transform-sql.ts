/** A product's transform as one statement for Trino. */

import { selectedText, sqlType } from '@sluice/analytics/trino/statements'
import type { Column, ComputeInput, LogicalType } from '@sluice/sdk'
import { type GivenColumn, lossIn } from './casts.ts'
import { guardedCondition, guardedQuery } from './guard.ts'

/** What an alias of the transform stands for. */
export interface InputRelation extends ComputeInput {
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
  /** What the transform gives for each of `columns`, where that is known: values that lose something are marked. */
  readonly given?: readonly GivenColumn[]
}

export interface TransformSql {
  readonly sql: string
  /** Names the same tables and has the same lines; for an answer to which tables that are. */
  readonly tablesSql: string
  /** Without rows, the columns as the transform gives them; in the lines of `sql`. */
  readonly typesSql: string
  /** Columns whose marks stand behind all columns, in this order: a text where the value has lost something, else null. */
  readonly marked: readonly string[]
  /** The line of `sql` in which the author's text begins, from 1. */
  readonly firstLine: number
}

/** Every cell as text, cast to its column's type first. Throws INVALID_DATA where the guard refuses. */
export function transformSql({ inputs, transform, columns, given = [] }: TransformText): TransformSql {
  const query = transform === null ? `SELECT * FROM ${quoted(inputs[0]?.alias ?? '')}` : guardedQuery(transform)
  const cells = columns.map(({ name, type }) => cellOf(`CAST(${quoted(name)} AS ${sqlType(type)})`, type))
  const losses = columns.flatMap(({ name, type }, at) => {
    const loses = given[at] === undefined ? null : lossIn(quoted(name), given[at], type)
    return loses === null ? [] : [{ name, mark: `CASE WHEN ${loses} THEN '1' END` }]
  })
  const marks = losses.map(({ mark }) => mark)
  const before = (source: Source, selected: readonly string[], from = inputs) =>
    `WITH ${from.map((input) => relation(input, source)).join(',\n')}\nSELECT ${selected.join(', ')} FROM (\n`
  const around = (head: string) => `${head}${query}\n) AS "__output"`
  const empty = inputs.map((input) => ({ ...input, table: null }))
  const names = columns.map(({ name }) => quoted(name))
  const head = before(atSnapshot, [...cells, ...marks])
  return {
    sql: around(head),
    tablesSql: around(before(withoutFilters, cells)),
    typesSql: `${around(before(atSnapshot, names, empty))} LIMIT 0`,
    marked: losses.map(({ name }) => name),
    firstLine: head.split('\n').length,
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

/** Trino's bigint. */
export const MOST_OF_BIGINT = 2n ** 63n - 1n

/**
 * No filter gets behind a LIMIT to the table: where Trino tells which tables a statement reads it writes their filters,
 * too, and fails over those that it has no text for, as of bytes.
 */
export const withoutFilters: Source = (table) => `(SELECT * FROM ${atSnapshot(table)} LIMIT ${MOST_OF_BIGINT})`

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

function cellOf(cell: string, type: LogicalType): string {
  return type === 'binary' ? `'\\x' || lower(to_hex(${cell}))` : selectedText(cell, type)
}
