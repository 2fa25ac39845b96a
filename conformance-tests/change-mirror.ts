/** The tables of a source as they are by what its log tells: what the runtime makes of it, in memory. */
import type { ChangeStream, Row, TableSchema } from '@sluice/sdk'
import type { Told, ToldRow } from './change-reading.ts'
import { cellsText, indexOf, keyText } from './compare.ts'

interface Mirrored {
  readonly schema: TableSchema
  readonly rows: Map<string, Row>
  /** Rows that are gone, by key: what has come from them under another key may be unchanged. */
  readonly gone: Map<string, Row>
}

export class ChangeMirror {
  readonly #tables = new Map<number, Mirrored>()
  /** Streams of which the log has said that they are to be read whole. */
  readonly stale = new Set<number>()

  fill(stream: number, schema: TableSchema, rows: readonly Row[]): void {
    this.#tables.set(stream, { schema, rows: new Map(rows.map((row) => [keyText(schema, row), row])), gone: new Map() })
    this.stale.delete(stream)
  }

  apply(told: readonly Told[]): void {
    for (const one of told) this.#applyOne(one)
  }

  rows(stream: number): readonly Row[] {
    return [...(this.#tables.get(stream)?.rows.values() ?? [])]
  }

  #applyOne(one: Told): void {
    if (one.kind === 'checkpoint') return
    const table = this.#tables.get(one.stream)
    if (one.kind === 'schema') {
      if (one.mustReread) this.stale.add(one.stream)
      const rows = [...(table?.rows.values() ?? [])].map((row) => reshaped(table?.schema, one.schema, row))
      const next = new Map(rows.map((row) => [keyText(one.schema, row), row]))
      const gone = [...(table?.gone ?? [])].map(
        ([key, row]) => [key, reshaped(table?.schema, one.schema, row)] as const,
      )
      this.#tables.set(one.stream, { schema: one.schema, rows: next, gone: new Map(gone) })
    } else if (one.kind === 'truncate') table?.rows.clear()
    else if (one.kind === 'reject') {
      const key = table && one.key && cellsText(table.schema.primaryKey.map((name) => one.key?.[name] ?? null))
      if (key) table.rows.delete(key)
    } else if (table) applyRow(table, one)
  }
}

function applyRow({ schema, rows, gone }: Mirrored, { op, row, from, unchanged }: ToldRow): void {
  const key = keyText(schema, row)
  const there = rows.get(key)
  if (op === 'd') {
    if (there) gone.set(key, there)
    rows.delete(key)
    return
  }
  const former = (from === null ? there : gone.get(cellsText(from))) ?? there
  rows.set(
    key,
    schema.columns.map(({ name }, index) => (unchanged.includes(name) ? former?.[index] : row[index]) ?? null),
  )
}

function reshaped(from: TableSchema | undefined, to: TableSchema, row: Row): Row {
  return to.columns.map(({ name }) => (from ? (row[indexOf(from, name)] ?? null) : null))
}

export function streamOf(
  schema: string,
  table: { readonly name: string; readonly primaryKey: readonly string[] },
): ChangeStream {
  return { schema, table: table.name, primaryKey: table.primaryKey }
}
