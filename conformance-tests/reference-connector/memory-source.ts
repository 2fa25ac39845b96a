/** A source in memory: tables whose rows are numbered by the commits that wrote them, logins, and a door. */
import { createHash } from 'node:crypto'
import type { Row, Value } from '@sluice/sdk'
import { keyText } from '../compare.ts'
import type { SourceTable } from '../connector-fixture.ts'

export interface StoredRow {
  readonly row: Row
  /** Of the transaction that wrote it; grows in the order in which transactions begin. */
  readonly written: number
}

interface StoredTable {
  readonly table: SourceTable
  readonly rows: ReadonlyMap<string, StoredRow>
  /** Grows with every change of the columns. */
  readonly shape: number
  readonly unfit: number
}

export class MemorySource {
  readonly #tables = new Map<string, StoredTable>()
  readonly #open = new Set<number>()
  #transaction = 0
  #changes = 0
  isUp = true
  refusesLogins = false
  sessions = 0

  create(table: SourceTable): void {
    const shape = this.begin()
    this.#open.delete(shape)
    this.#set({ table, rows: new Map(), shape, unfit: 0 })
  }

  drop({ name }: SourceTable): void {
    this.#tables.delete(name)
    this.#changes += 1
  }

  put(table: SourceTable, rows: readonly Row[], written: number = this.begin()): void {
    const stored = this.#named(table.name)
    const next = new Map(stored.rows)
    for (const row of rows) next.set(keyText(table, row), { row, written })
    this.#set({ ...stored, rows: next })
    this.#open.delete(written)
  }

  putUnfit({ name }: SourceTable, count: number): void {
    const stored = this.#named(name)
    this.#set({ ...stored, unfit: stored.unfit + count })
  }

  remove(table: SourceTable, rows: readonly Row[]): void {
    const stored = this.#named(table.name)
    const next = new Map(stored.rows)
    for (const row of rows) next.delete(keyText(table, row))
    this.#set({ ...stored, rows: next })
  }

  /** Columns keep their values by name; those of another type by their text. */
  alter({ name }: SourceTable, next: SourceTable): void {
    const { table, rows, unfit } = this.#named(name)
    const moved = [...rows.values()].map(({ row, written }) => ({ row: reshaped(table, next, row), written }))
    const shape = this.begin()
    this.#open.delete(shape)
    this.#set({ table: next, rows: new Map(moved.map((one) => [keyText(next, one.row), one])), shape, unfit })
  }

  /** The number of a transaction that is open until its rows are put. */
  begin(): number {
    this.#transaction += 1
    this.#open.add(this.#transaction)
    return this.#transaction
  }

  /** Every transaction up to this number has ended. */
  get horizon(): number {
    return Math.min(this.#transaction, ...[...this.#open].map((transaction) => transaction - 1))
  }

  table(name: string): StoredTable | undefined {
    return this.#tables.get(name)
  }

  get tables(): readonly SourceTable[] {
    const tables = [...this.#tables.values()].map(({ table }) => table)
    return tables.sort((left, right) => (left.name < right.name ? -1 : 1))
  }

  digest(): string {
    return createHash('sha256').update(String(this.#changes)).digest('hex')
  }

  #named(name: string): StoredTable {
    const stored = this.#tables.get(name)
    if (stored) return stored
    throw new Error(`the source has no table ${name}`)
  }

  #set(stored: StoredTable): void {
    this.#tables.set(stored.table.name, stored)
    this.#changes += 1
  }
}

function reshaped(from: SourceTable, to: SourceTable, row: Row): Row {
  return to.columns.map(({ name, type }): Value => {
    const index = from.columns.findIndex((column) => column.name === name)
    const value = row[index] ?? null
    return value !== null && type === 'string' ? String(value) : value
  })
}
