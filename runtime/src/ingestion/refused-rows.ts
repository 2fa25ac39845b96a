/** What a source could not let be carried: counted, with the first reasons and as many rows as a quarantine holds. */
import type { ReadEvent, TableSchema } from '@sluice/sdk'
import { MAX_QUARANTINED, type RefusedRow } from '../registry/quarantine.ts'
import { toldKey } from './told-key.ts'

const MAX_REASONS = 10

export type Reject = Omit<Extract<ReadEvent, { kind: 'reject' }>, 'kind'>

/** Bounded: a source may reject as many rows as it likes. */
export class RefusedRows {
  readonly rows: RefusedRow[] = []
  /** Without those that were carried. */
  rejected = 0
  readonly #reasons = new Set<string>()
  #bytes = 0

  /** Why rows did not come, without values. */
  get reasons(): readonly string[] {
    return [...this.#reasons]
  }

  add({ column, reason, carried = false, ...event }: Reject, schema: TableSchema): void {
    if (!carried) {
      this.rejected += 1
      if (this.#reasons.size < MAX_REASONS) this.#reasons.add(column ? `${column}: ${reason}` : reason)
    }
    const { key, raw } = { key: event.key ?? null, raw: event.raw ?? null }
    if (this.rows.length >= MAX_QUARANTINED.rows || this.#bytes >= MAX_QUARANTINED.bytes) return
    this.rows.push({ column, reason, key, toldKey: toldKey(key, schema), raw, carried })
    this.#bytes += JSON.stringify([reason, key, raw]).length
  }
}
