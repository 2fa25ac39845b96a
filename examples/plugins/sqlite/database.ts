/** The file: opened, laid out, and guarded, so that nothing that SQLite says leaves in an error. */
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { Cell } from './cells.ts'

const BUSY_MS = 2000
const MAX_STATEMENTS = 200

/** Datasets by tenant first; their rows are in tables that are named by number. */
const LAYOUT = `
  CREATE TABLE IF NOT EXISTS datasets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL, domain TEXT NOT NULL, product TEXT NOT NULL, variant TEXT NOT NULL,
    schema TEXT NOT NULL, config TEXT NOT NULL, policy TEXT, fence TEXT, epoch INTEGER, epoch_fence TEXT,
    committed_at TEXT, UNIQUE (tenant, domain, product, variant)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS stages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset INTEGER NOT NULL, epoch INTEGER NOT NULL
  ) STRICT;
`

export type Found = Readonly<Record<string, Cell>>

export class Database {
  readonly #database: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  #isClosed = false

  constructor(file: string) {
    this.#database = guarded(() => new DatabaseSync(file, { timeout: BUSY_MS }))
    this.run('PRAGMA journal_mode = WAL')
    this.run('PRAGMA synchronous = FULL')
    guarded(() => this.#database.exec(LAYOUT))
  }

  /** Statements that are not worth keeping: definitions. */
  run(sql: string): void {
    guarded(() => this.#database.exec(sql))
  }

  change(sql: string, ...values: readonly Cell[]): number {
    return guarded(() => Number(this.#statement(sql).run(...(values as SQLInputValue[])).changes))
  }

  all(sql: string, ...values: readonly Cell[]): readonly Found[] {
    return guarded(() => this.#statement(sql).all(...(values as SQLInputValue[])) as unknown as readonly Found[])
  }

  /** One row after the other, for what is too much to hold; who leaves early ends the statement. */
  *each(sql: string, ...values: readonly Cell[]): Generator<Found> {
    const rows = guarded(() => this.#statement(sql).iterate(...(values as SQLInputValue[])))
    try {
      for (let one = guarded(() => rows.next()); !one.done; one = guarded(() => rows.next())) {
        yield one.value as Found
      }
    } finally {
      rows.return?.()
    }
  }

  /** Everything in it or nothing, at one moment: nothing is awaited inside. */
  transaction<T>(mode: 'DEFERRED' | 'IMMEDIATE', run: () => T): T {
    this.run(`BEGIN ${mode}`)
    try {
      const result = run()
      this.run('COMMIT')
      return result
    } catch (error) {
      // SQLite may have rolled back by itself, on a full disk for example.
      if (this.#database.isTransaction) this.run('ROLLBACK')
      throw error
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#statements.clear()
    this.#database.close()
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known) return known
    const made = this.#database.prepare(sql)
    made.setReadBigInts(true)
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear()
    this.#statements.set(sql, made)
    return made
  }
}

export function openDatabase(folder: string, file: string): Database {
  return new Database(join(folder, file))
}

/** By SQLite's result codes: https://www.sqlite.org/rescode.html */
const BUSY = [5, 6]
const DISK = [10, 13, 14, 23, 26]

function guarded<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw isSluiceError(error) ? error : translated(error)
  }
}

/** SQLITE_CORRUPT_VTAB: of an index of text alone, which is made anew from the rows. */
const UNSOUND = 267

function translated(cause: unknown): SluiceError {
  const { errcode = 0 } = cause as { readonly errcode?: number }
  if (errcode === UNSOUND) {
    const remedy = 'It is made anew once the runtime compares the copy with the lake.'
    return new SluiceError('TRANSIENT', 'a text index is damaged', { code: 'index_unsound', remedy, cause })
  }
  const code = errcode & 0xff
  if (BUSY.includes(code)) {
    const remedy = 'Try again.'
    return new SluiceError('TRANSIENT', 'another writer holds the file', { code: 'store_busy', remedy, cause })
  }
  if (DISK.includes(code) || (cause as { readonly code?: string }).code === 'ERR_INVALID_STATE') {
    const remedy = 'Check the disk and the folder of the store.'
    return new SluiceError('TRANSIENT', 'the file cannot be used', { code: 'store_unavailable', remedy, cause })
  }
  return new SluiceError('INTERNAL', 'the store failed', { code: 'store_failed', cause })
}
