/** The tables of a source as they are by what its log tells: what the runtime makes of it, in memory. */
import type { ChangeStream, Row, TableSchema } from '@sluice/sdk'
import type { Told, ToldRow } from './change-reading.ts'
import { cellsText, indexOf, keyText } from './compare.ts'

interface Mirrored {
  readonly schema: TableSchema
  readonly rows: Map<string, Row>
  /** By key of a row, those that are gone too: the columns that it lacks. */
  readonly lacking: Map<string, readonly string[]>
  /** Rows that are gone, by key: what has come from them under another key may be unchanged. */
  readonly gone: Map<string, Row>
}

export class ChangeMirror {
  readonly #tables = new Map<number, Mirrored>()
  /** Streams of which the log has said that they are to be read whole. */
  readonly stale = new Set<number>()

  /** `marks`: of each row, the columns that it lacks. */
  fill(stream: number, schema: TableSchema, rows: readonly Row[], marks: readonly (readonly string[])[] = []): void {
    const keys = rows.map((row) => keyText(schema, row))
    this.#tables.set(stream, {
      schema,
      rows: new Map(rows.map((row, index) => [keys[index] ?? '', row])),
      lacking: new Map(keys.map((key, index) => [key, marks[index] ?? []])),
      gone: new Map(),
    })
    this.stale.delete(stream)
  }

  apply(told: readonly Told[]): void {
    for (const one of told) this.#applyOne(one)
  }

  rows(stream: number): readonly Row[] {
    return [...(this.#tables.get(stream)?.rows.values() ?? [])]
  }

  /** Of the rows that are there and lack something, by key. */
  lacking(stream: number): ReadonlyMap<string, readonly string[]> {
    const { rows, lacking } = this.#tables.get(stream) ?? { rows: new Map(), lacking: new Map() }
    return new Map([...lacking].filter(([key, names]) => rows.has(key) && names.length > 0))
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
      this.#tables.set(one.stream, {
        schema: one.schema,
        rows: next,
        gone: new Map(gone),
        lacking: table?.lacking ?? new Map(),
      })
    } else if (one.kind === 'truncate') table?.rows.clear()
    else if (one.kind === 'reject') {
      // What is carried has come in the row.
      if (one.carried === true) return
      const key = table && one.key && cellsText(table.schema.primaryKey.map((name) => one.key?.[name] ?? null))
      if (key) table.rows.delete(key)
    } else if (table) applyRow(table, one)
  }
}

function applyRow({ schema, rows, gone, lacking }: Mirrored, { op, row, from, unchanged, ...told }: ToldRow): void {
  const key = keyText(schema, row)
  const there = rows.get(key)
  if (op === 'd') {
    if (there) gone.set(key, there)
    rows.delete(key)
    return
  }
  const formerKey = from === null || !gone.has(cellsText(from)) ? key : cellsText(from)
  const former = (from === null ? there : gone.get(cellsText(from))) ?? there
  // A column that is left out as unchanged lacks what it lacked.
  const lackedStill = (lacking.get(formerKey) ?? []).filter((name) => unchanged.includes(name))
  lacking.set(key, [...(told.lacking ?? []), ...lackedStill])
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
