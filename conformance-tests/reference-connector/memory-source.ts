/** A source in memory: tables whose rows are numbered by the commits that wrote them, a log, logins, and a door. */
import { createHash } from 'node:crypto'
import type { Column, Row, Value } from '@sluice/sdk'
import { keyText } from '../compare.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { type LogEntry, type LoggedTable, MemoryLog } from './memory-log.ts'
import { MemoryTransaction } from './memory-transaction.ts'
import { type MemoryWrite, written } from './memory-write.ts'

export interface StoredRow {
  readonly row: Row
  /** Of the transaction that wrote it; grows in the order in which transactions begin. */
  readonly written: number
  /** The column whose value nothing can carry. */
  readonly unfit?: string
}

export interface StoredTable extends LoggedTable {
  readonly rows: ReadonlyMap<string, StoredRow>
  readonly unfit: number
  /** Whether the log can name its rows that are gone. */
  readonly isTold: boolean
}

export class MemorySource {
  readonly log = new MemoryLog()
  /** Tables that every statement of a writer fails on. */
  readonly locked = new Set<string>()
  readonly #tables = new Map<string, StoredTable>()
  readonly #open = new Set<number>()
  #transaction = 0
  #changes = 0
  isUp = true
  refusesLogins = false
  sessions = 0
  /** Called by whoever asks the source while it answers nobody; it answers once this resolves. */
  stalled: (() => Promise<void>) | null = null

  create(table: SourceTable, isTold = true): void {
    const shape = this.begin()
    this.end(shape)
    const made = { table, id: shape, rows: new Map(), shape, rereads: 0, unfit: 0, isTold }
    this.#set(made)
    this.log.append([{ kind: 'altered', of: made, mustReread: true }])
  }

  drop({ name }: SourceTable): void {
    this.#tables.delete(name)
    this.#changes += 1
  }

  put(table: SourceTable, rows: readonly Row[], number: number = this.begin()): void {
    const stored = this.named(table.name)
    const next = new Map(stored.rows)
    for (const row of rows) next.set(keyText(table, row), { row, written: number })
    this.#set({ ...stored, rows: next })
    this.log.append(rows.map((row) => ({ kind: 'row', op: 'u', of: stored, row, unchanged: [], from: null })))
    this.end(number)
  }

  putUnfit({ name, primaryKey }: SourceTable, count: number): void {
    const stored = this.named(name)
    this.#set({ ...stored, unfit: stored.unfit + count })
    const key = (index: number) => JSON.stringify(primaryKey.map(() => `-${stored.unfit + index + 1}`))
    this.log.append(Array.from({ length: count }, (_, index) => ({ kind: 'unfit', of: stored, key: key(index) })))
  }

  /** A row whose value of that column nothing can carry. */
  putWithout(table: SourceTable, row: Row, unfit: string): void {
    const stored = this.named(table.name)
    const written = this.begin()
    this.#set({ ...stored, rows: new Map(stored.rows).set(keyText(table, row), { row, written, unfit }) })
    this.#open.delete(written)
  }

  remove(table: SourceTable, rows: readonly Row[]): void {
    const there = this.named(table.name).rows
    const gone = rows.filter((row) => there.has(keyText(table, row)))
    this.commit(
      gone.map((row) => ({ kind: 'remove', table, row })),
      this.begin(),
    )
  }

  /** Columns keep their values by name, those of another type by their text; `filled` are new and have a value in every row. */
  alter({ name }: SourceTable, next: SourceTable, filled: Readonly<Record<string, Value>> = {}): void {
    const stored = this.named(name)
    const moved = [...stored.rows.values()].map((one) => ({
      ...one,
      row: reshaped(stored.table, next, one.row, filled),
    }))
    const shape = this.begin()
    this.end(shape)
    const mustReread = Object.keys(filled).length > 0 || next.columns.some((column) => isRetyped(stored.table, column))
    const altered: StoredTable = {
      ...stored,
      table: next,
      rows: new Map(moved.map((one) => [keyText(next, one.row), one])),
      shape,
      rereads: stored.rereads + (mustReread ? 1 : 0),
    }
    this.#set(altered)
    this.log.append([{ kind: 'altered', of: altered, mustReread }])
  }

  transaction(): MemoryTransaction {
    return new MemoryTransaction(this)
  }

  /** All of it, or nothing where a statement fails. */
  commit(writes: readonly MemoryWrite[], number: number): void {
    const tables = new Map<string, StoredTable>()
    const entries: LogEntry[] = []
    for (const write of writes) {
      const { name } = write.table
      if (this.locked.has(name)) throw new Error(`nothing may be written to ${name}`)
      const outcome = written(tables.get(name) ?? this.named(name), write, number)
      tables.set(name, outcome.table)
      entries.push(...outcome.entries)
    }
    for (const table of tables.values()) this.#set(table)
    if (entries.length > 0) this.log.append(entries)
    this.end(number)
  }

  /** The number of a transaction that is open until it ends. */
  begin(): number {
    this.#transaction += 1
    this.#open.add(this.#transaction)
    return this.#transaction
  }

  end(transaction: number): void {
    this.#open.delete(transaction)
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
    return createHash('sha256').update(`${this.#changes} ${this.log.captures.join()}`).digest('hex')
  }

  named(name: string): StoredTable {
    const stored = this.#tables.get(name)
    if (stored) return stored
    throw new Error(`the source has no table ${name}`)
  }

  #set(stored: StoredTable): void {
    this.#tables.set(stored.table.name, stored)
    this.#changes += 1
  }
}

function isRetyped(from: SourceTable, { name, type }: Column): boolean {
  return from.columns.some((column) => column.name === name && column.type !== type)
}

function reshaped(from: SourceTable, to: SourceTable, row: Row, filled: Readonly<Record<string, Value>>): Row {
  return to.columns.map(({ name, type }): Value => {
    const index = from.columns.findIndex((column) => column.name === name)
    const value = row[index] ?? filled[name] ?? null
    return value !== null && type === 'string' ? String(value) : value
  })
}
