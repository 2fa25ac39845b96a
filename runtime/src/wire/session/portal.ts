/** A statement with its parameters, on the way to its end: its rows are read in parts, as its reader wants them. */
import type { TenantCall } from '../../flow.ts'
import type { Format } from '../protocol/client-messages.ts'
import { cutBatch, type RowBatch } from '../protocol/row-batch.ts'
import type { WireColumn } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import type { Bound, OpenRows, RowPlan } from './row-plan.ts'

export class Portal {
  readonly plan: RowPlan
  readonly #bound: Bound
  readonly #ended = new AbortController()
  #opening: Promise<readonly WireColumn[]> | null = null
  #rows: AsyncIterator<RowBatch> | null = null
  #left: RowBatch | null = null
  #isDone = false
  #heldBytes = 0
  /** What the client was told of its statement; another answer would be read wrongly. */
  readonly #toldOids: readonly number[] | null

  constructor(plan: RowPlan, bound: Bound, toldOids: readonly number[] | null = null) {
    this.plan = plan
    this.#bound = bound
    this.#toldOids = toldOids
  }

  get formats(): readonly Format[] {
    return this.#bound.formats
  }

  get isOpen(): boolean {
    return this.#opening !== null && !this.#isDone
  }

  /** Whether its rows were begun: what follows is admitted anew by whoever asks. */
  get hasBegun(): boolean {
    return this.#opening !== null
  }

  /** Of rows that are here already, until the last is read. */
  get heldBytes(): number {
    return this.#isDone ? 0 : this.#heldBytes
  }

  /** Begins what gives the rows, where that has not been. `admit` lets a statement begin, with a signal of its own. */
  columns(admit: (signal: AbortSignal) => Promise<TenantCall>): Promise<readonly WireColumn[]> {
    this.#opening ??= this.#open(admit)
    return this.#opening
  }

  async #open(admit: (signal: AbortSignal) => Promise<TenantCall>): Promise<readonly WireColumn[]> {
    const call = await admit(this.#ended.signal)
    const open: OpenRows = await this.plan.open(call, this.#bound)
    const oids = open.columns.map(({ oid }) => oid)
    if (this.#toldOids !== null && oids.join() !== this.#toldOids.join()) {
      this.close()
      // In the words by which drivers know that they have to prepare it again.
      throw new WireError('0A000', 'cached plan must not change result type', {
        hint: 'Prepare it again; where types depend on the values of parameters, cast these: $1::bigint.',
        routine: 'RevalidateCachedQuery',
      })
    }
    this.#rows = open.rows[Symbol.asyncIterator]()
    this.#heldBytes = open.heldBytes
    return open.columns
  }

  /** Messages of rows in parts, up to so many in all (0: every one). `isDone` tells whether there are more. */
  async *read(maxRows: number): AsyncGenerator<RowBatch> {
    for (let given = 0; maxRows === 0 || given < maxRows; ) {
      const some = await this.#some()
      if (some === null) return
      const [taken, left] = cutBatch(some, maxRows === 0 ? some.rows : maxRows - given)
      this.#left = left.rows === 0 ? null : left
      given += taken.rows
      yield taken
    }
  }

  /** Only known where the last row was asked for and not there, as PostgreSQL has it. */
  get isDone(): boolean {
    return this.#isDone
  }

  async #some(): Promise<RowBatch | null> {
    if (this.#left !== null) return this.#left
    if (this.#isDone) return null
    const next = await this.#rows?.next()
    if (next === undefined || next.done === true) {
      this.#isDone = true
      this.#rows = null
      return null
    }
    return next.value
  }

  /** Ends its engine's work. May be repeated. */
  close(): void {
    this.#isDone = true
    this.#left = null
    this.#ended.abort(new WireError('57014', 'the statement was ended'))
    // Whoever waits for it is told; who closes wants no more of it.
    this.#opening?.catch(() => undefined)
    // Where it waits for rows it is told by the signal.
    void this.#rows?.return?.()?.catch(() => undefined)
    this.#rows = null
  }
}
