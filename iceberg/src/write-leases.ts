import type { Catalog } from './catalog.ts'
import type { TableRef } from './table-ref.ts'

/** What keeps cleaning and compaction away from files that no snapshot names yet. */
export type WriteLeases = Pick<Catalog, 'leaseWrite' | 'endWrite'>

/** The leases of one piece of work, which ends those that it did not get to publish. */
export class HeldLeases implements WriteLeases {
  readonly #leases: WriteLeases
  readonly #held = new Map<string, TableRef>()
  /** Published in a transaction of the caller's, which may not have come to its COMMIT. */
  readonly #published = new Set<string>()

  constructor(leases: WriteLeases) {
    this.#leases = leases
  }

  leaseWrite(ref: TableRef, writeId: string, leaseMs: number): Promise<void> {
    this.#held.set(writeId, ref)
    return this.#leases.leaseWrite(ref, writeId, leaseMs)
  }

  endWrite(ref: TableRef, writeId: string): Promise<void> {
    this.#held.delete(writeId)
    return this.#leases.endWrite(ref, writeId)
  }

  notePublished(writeId: string): void {
    this.#published.add(writeId)
  }

  /** Of work that succeeded, what it published needs no second end. */
  async end(outcome: 'succeeded' | 'failed'): Promise<void> {
    for (const [writeId, ref] of this.#held) {
      if (outcome === 'succeeded' && this.#published.has(writeId)) continue
      // What cannot be ended now ends by its time.
      await this.#leases.endWrite(ref, writeId).catch(() => undefined)
    }
  }
}
