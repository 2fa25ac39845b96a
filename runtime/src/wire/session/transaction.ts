/** The state of a transaction, as clients are told it. Nothing is written: its end changes settings alone. */
import type { TransactionState } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import { checkName } from './kept.ts'
import type { Snapshot } from './snapshot.ts'

const MOST_SAVEPOINTS = 100

export class Transaction {
  #state: TransactionState = 'I'
  #savepoints: string[] = []
  #snapshot: Snapshot | null = null

  get state(): TransactionState {
    return this.#state
  }

  /** Of its savepoints. */
  get depth(): number {
    return this.#savepoints.length
  }

  begin(): void {
    if (this.#state !== 'I') return
    this.#state = 'T'
    this.#snapshot = null
  }

  /** The statements of a message, or of several up to a Sync, are done: outside of a transaction they were one themselves. */
  settle(): void {
    if (this.#state === 'I') this.#snapshot = null
  }

  /** How the end is told: one that had failed is rolled back by COMMIT, too. */
  end(command: 'COMMIT' | 'ROLLBACK'): 'COMMIT' | 'ROLLBACK' {
    const tag = this.#state === 'E' ? 'ROLLBACK' : command
    this.#state = 'I'
    this.#savepoints = []
    this.#snapshot = null
    return tag
  }

  /** What its statements read, made by the first of them. */
  reading(make: () => Snapshot): Snapshot {
    this.#snapshot ??= make()
    return this.#snapshot
  }

  /** Throws 25001 once a statement of it has read, or where it has a savepoint. */
  checkFresh(what: string): void {
    if (this.#state === 'I' || (this.#snapshot === null && this.#savepoints.length === 0)) return
    throw new WireError('25001', `${what} is set before the first statement of a transaction that reads`)
  }

  fail(): void {
    if (this.#state === 'T') this.#state = 'E'
  }

  /** Throws 25P02 in a failed one. */
  check(): void {
    if (this.#state !== 'E') return
    throw new WireError('25P02', 'the transaction has failed: its statements are not run until it ends', {
      hint: 'Send ROLLBACK.',
    })
  }

  /** Throws 25P01 outside of a transaction. */
  requireOpen(command: string): void {
    if (this.#state === 'I') throw new WireError('25P01', `${command} is for transactions: send BEGIN first`)
  }

  /** Returns its place among the savepoints, from 0. */
  save(name: string): number {
    this.requireOpen('SAVEPOINT')
    checkName(name)
    if (this.#savepoints.length >= MOST_SAVEPOINTS) throw new WireError('54000', 'there are too many savepoints')
    return this.#savepoints.push(name) - 1
  }

  /** Returns the place that it had. */
  release(name: string): number {
    const place = this.#place(name)
    this.#savepoints.length = place
    return place
  }

  /** Returns its place. */
  rollBackTo(name: string): number {
    const place = this.#place(name)
    this.#savepoints.length = place + 1
    this.#state = 'T'
    return place
  }

  #place(name: string): number {
    this.requireOpen('a savepoint')
    const at = this.#savepoints.lastIndexOf(name)
    if (at < 0) throw new WireError('3B001', 'there is no such savepoint')
    return at
  }
}
