/** Writes orders all the time: inserts, updates, deletes, other keys, and now and then a transaction that is rolled back. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Commit } from './live-freshness.ts'
import { MARKER, ROWS } from './live-source.ts'

/** Between two transactions. */
const PAUSE_MS = 40
const RECENT = 6
/** So many changes a reader may be behind, and is still asked for one of them. */
const TOUCHED = 10_000

export interface Written {
  readonly transactions: number
  readonly inserted: number
  readonly updated: number
  readonly deleted: number
  readonly rolledBack: number
  /** In the table, as of the last commit. */
  readonly rows: number
}

/** A statement, how it is shown, and what the writer knows once it is committed. */
interface Change {
  readonly sql: string
  readonly values: readonly unknown[]
  readonly told: string
  readonly count: 'inserted' | 'updated' | 'deleted'
  readonly once: () => void
}

const NAMES = ['Ada Byron', 'Grace Hopper', 'Alan Mathison', 'Edsger Wybe', 'Barbara Huberman', 'Donald Ervin']
const STATUSES = ['open', 'paid', 'sent']

export class LiveWriter {
  readonly #client: pg.Client
  readonly #onCommit: (commit: Commit) => void
  /** Keys that are there, but for the marker. */
  readonly #keys = Array.from({ length: ROWS }, (_, at) => at + 1).filter((key) => key !== MARKER)
  readonly #recent: string[] = []
  readonly #counts = { transactions: 0, inserted: 0, updated: 0, deleted: 0, rolledBack: 0 }
  #nextKey = ROWS + 1
  #changeNo = 0
  /** What was inserted and updated of late, oldest first. */
  readonly #touched: { readonly changeNo: number; readonly key: number }[] = []
  #isStopping = false
  #running: Promise<void> = Promise.resolve()

  constructor(client: pg.Client, onCommit: (commit: Commit) => void) {
    this.#client = client
    this.#onCommit = onCommit
  }

  start(): void {
    this.#running = this.#write()
    // Told by `stop`, or by whoever asks for `failed`.
    this.#running.catch(() => undefined)
  }

  /** Rejects when it can write no more. */
  get running(): Promise<void> {
    return this.#running
  }

  /** Ends after the transaction under way. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
  }

  get written(): Written {
    return { ...this.#counts, rows: this.#keys.length + 1 }
  }

  /** Statements of committed transactions, newest last. */
  get recent(): readonly string[] {
    return this.#recent
  }

  /** The number of the newest committed transaction. */
  get changeNo(): number {
    return this.#changeNo
  }

  /** An order that transactions up to this number have written, as late as possible, and that is still there. */
  keyUpTo(changeNo: number): number {
    const isThere = (one: { readonly changeNo: number; readonly key: number }) =>
      one.changeNo <= changeNo && this.#keys.includes(one.key)
    return this.#touched.findLast(isThere)?.key ?? MARKER
  }

  /** All keys that there ever were are from 1 to below this. */
  get nextKey(): number {
    return this.#nextKey
  }

  async #write(): Promise<void> {
    while (!this.#isStopping) {
      await this.#transaction()
      await sleep(PAUSE_MS)
    }
  }

  async #transaction(): Promise<void> {
    const changeNo = this.#changeNo + 1
    const taken = new Set<number>()
    const changes = Array.from({ length: 1 + any(4) }, () => this.#change(changeNo, taken))
    const isRolledBack = any(20) === 0
    await this.#client.query('BEGIN')
    for (const { sql, values } of changes) await this.#client.query(sql, [...values])
    await this.#client.query('UPDATE orders SET change_no = $1, changed_at = now() WHERE order_no = $2', [
      changeNo,
      MARKER,
    ])
    // Before it is sent: nobody can have read it by then, so no time is too short.
    const atMs = performance.now()
    await this.#client.query(isRolledBack ? 'ROLLBACK' : 'COMMIT')
    if (isRolledBack) {
      this.#counts.rolledBack += 1
      this.#tell(`ROLLBACK of ${changes.length + 1} statements`)
      return
    }
    this.#changeNo = changeNo
    this.#counts.transactions += 1
    for (const { count, told, once } of changes) {
      this.#counts[count] += 1
      this.#tell(told)
      once()
    }
    this.#onCommit({ changeNo, atMs })
  }

  #change(changeNo: number, taken: Set<number>): Change {
    const kind = any(20)
    if (kind < 6) return this.#insert(changeNo)
    const key = this.#anyKey(taken)
    if (kind < 13) return this.#update(changeNo, key)
    return kind < 14 ? this.#otherKey(changeNo, key) : this.#delete(key)
  }

  #insert(changeNo: number): Change {
    const key = this.#nextKey++
    const customer = NAMES[any(NAMES.length)] as string
    const email = `${customer.toLowerCase().replace(' ', '.')}.${key}@example.com`
    const amount = anyAmount()
    return {
      sql: "INSERT INTO orders VALUES ($1, $2, $3, 'open', $4, $5, clock_timestamp())",
      values: [key, customer, email, amount, changeNo],
      told: `INSERT ${key} ${customer} ${amount}`,
      count: 'inserted',
      once: () => {
        this.#keys.push(key)
        this.#touch(changeNo, key)
      },
    }
  }

  #update(changeNo: number, key: number): Change {
    const [status, amount] = [STATUSES[any(STATUSES.length)] as string, anyAmount()]
    return {
      sql: 'UPDATE orders SET status = $1, amount = $2, change_no = $3, changed_at = clock_timestamp() WHERE order_no = $4',
      values: [status, amount, changeNo, key],
      told: `UPDATE ${key} ${status} ${amount}`,
      count: 'updated',
      once: () => this.#touch(changeNo, key),
    }
  }

  #otherKey(changeNo: number, key: number): Change {
    const other = this.#nextKey++
    return {
      sql: 'UPDATE orders SET order_no = $1, change_no = $2 WHERE order_no = $3',
      values: [other, changeNo, key],
      told: `UPDATE ${key} is now ${other}`,
      count: 'updated',
      once: () => {
        this.#forget(key)
        this.#keys.push(other)
        this.#touch(changeNo, other)
      },
    }
  }

  #delete(key: number): Change {
    return {
      sql: 'DELETE FROM orders WHERE order_no = $1',
      values: [key],
      told: `DELETE ${key}`,
      count: 'deleted',
      once: () => this.#forget(key),
    }
  }

  /** One that no other statement of the transaction has to do with. */
  #anyKey(taken: Set<number>): number {
    for (;;) {
      const key = this.#keys[any(this.#keys.length)] as number
      if (!taken.has(key)) {
        taken.add(key)
        return key
      }
    }
  }

  #forget(key: number): void {
    this.#keys.splice(this.#keys.indexOf(key), 1)
  }

  #touch(changeNo: number, key: number): void {
    this.#touched.push({ changeNo, key })
    if (this.#touched.length > TOUCHED) this.#touched.shift()
  }

  #tell(text: string): void {
    this.#recent.push(text)
    if (this.#recent.length > RECENT) this.#recent.shift()
  }
}

/** A whole number below `count`. */
const any = (count: number): number => Math.floor(Math.random() * count)
const anyAmount = (): string => (any(100_000) / 100).toFixed(2)
