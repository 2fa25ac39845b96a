/**
 * What a transaction of REPEATABLE READ or SERIALIZABLE reads: of every table the rows that were served when its first statement
 * began, or an error. Epochs are found by the time at which they were committed; one that was being committed just then may be
 * found later and not before, which is seen by the table's snapshot.
 */
import type { Visible } from '../../operations/queries/asked-query.ts'
import { WireError } from '../protocol/wire-error.ts'

export class Snapshot {
  readonly #now: () => Promise<Date>
  /** As `performance.now()`: its first statement may ask for no rows yet. */
  readonly #sinceMs = performance.now()
  #instant: string | null = null
  /** By table, its snapshot in the lake. */
  readonly #read = new Map<string, string>()

  /** @param now of the clock by which epochs are committed */
  constructor(now: () => Promise<Date>) {
    this.#now = now
  }

  /** The same in each statement, as RFC 3339. */
  async instant(): Promise<string> {
    if (this.#instant !== null) return this.#instant
    const passedMs = Math.floor(performance.now() - this.#sinceMs)
    // That clock counts microseconds, and what was committed in this same millisecond is there.
    this.#instant = new Date((await this.#now()).getTime() - passedMs + 1).toISOString()
    return this.#instant
  }

  /** Throws 40001 where a table has other rows than the transaction has read. */
  check(tables: readonly Pick<Visible, 'name' | 'snapshotId'>[]): void {
    for (const { name, snapshotId } of tables) {
      const read = this.#read.get(name) ?? snapshotId
      this.#read.set(name, read)
      if (read === snapshotId) continue
      throw new WireError(
        '40001',
        `could not serialize access: ${name} has other rows than this transaction has read`,
        {
          hint: 'Send ROLLBACK, and begin the transaction again.',
        },
      )
    }
  }
}
