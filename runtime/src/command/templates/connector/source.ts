/** Somebody else's system. Replace this by a client of yours. */
import type { Row, TableSchema } from '@sluice/sdk'

export interface SourceTable {
  readonly schema: TableSchema
  /** Another number for every table and every change of its columns. */
  readonly shape: number
  /** Rows in the order of their last change, each with the number of that change. */
  readonly rows: readonly { readonly row: Row; readonly change: number }[]
}

/** Each change makes another table object, so that whoever reads one sees one moment of it. */
export class Source {
  readonly #tables = new Map<string, SourceTable>()
  #change = 0

  get change(): number {
    return this.#change
  }

  table(name: string): SourceTable | undefined {
    return this.#tables.get(name)
  }

  names(): readonly string[] {
    return [...this.#tables.keys()].sort()
  }

  create(name: string, schema: TableSchema): void {
    this.#tables.set(name, { schema, shape: this.#next(), rows: [] })
  }

  drop(name: string): void {
    this.#tables.delete(name)
    this.#next()
  }

  /** Adds rows, and replaces those of the same key. */
  put(name: string, rows: readonly Row[]): void {
    const { table, keyOf } = this.#known(name)
    const keys = new Set(rows.map(keyOf))
    const kept = table.rows.filter(({ row }) => !keys.has(keyOf(row)))
    const change = this.#next()
    this.#tables.set(name, { ...table, rows: [...kept, ...rows.map((row) => ({ row, change }))] })
  }

  remove(name: string, rows: readonly Row[]): void {
    const { table, keyOf } = this.#known(name)
    const keys = new Set(rows.map(keyOf))
    this.#next()
    this.#tables.set(name, { ...table, rows: table.rows.filter(({ row }) => !keys.has(keyOf(row))) })
  }

  /** Other columns; values stay by name, and become text where the column does. */
  alter(name: string, schema: TableSchema): void {
    const { table } = this.#known(name)
    const from = schema.columns.map((column) => table.schema.columns.findIndex((one) => one.name === column.name))
    const reshaped = (row: Row): Row =>
      schema.columns.map(({ type }, index) => {
        const value = row[from[index] ?? -1] ?? null
        return value !== null && type === 'string' ? String(value) : value
      })
    const rows = table.rows.map(({ row, change }) => ({ row: reshaped(row), change }))
    this.#tables.set(name, { schema, shape: this.#next(), rows })
  }

  #known(name: string) {
    const table = this.#tables.get(name)
    if (table === undefined) throw new Error(`there is no table ${name}`)
    const key = table.schema.primaryKey.map((column) => table.schema.columns.findIndex((one) => one.name === column))
    return { table, keyOf: (row: Row) => JSON.stringify(key.map((index) => String(row[index]))) }
  }

  #next(): number {
    this.#change += 1
    return this.#change
  }
}

const sources = new Map<string, Source>()

export function sourceNamed(name: string): Source {
  const source = sources.get(name) ?? new Source()
  sources.set(name, source)
  return source
}
