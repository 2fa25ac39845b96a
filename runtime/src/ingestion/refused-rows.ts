/** What a source could not let be carried: counted, with the first reasons and as many rows as a quarantine holds. */
import type { ReadEvent, TableSchema } from '@sluice/sdk'
import { MAX_QUARANTINED, type RefusedRow } from '../registry/quarantine.ts'
import { toldKey } from './told-key.ts'

const MAX_REASONS = 10
/** Of each value of a key; an index may take far longer ones. */
const MAX_KEY_CHARS = 2000

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
    if (this.rows.length >= MAX_QUARANTINED.rows || this.#bytes >= MAX_QUARANTINED.bytes) return
    const { key, raw } = { key: event.key ? cutKey(event.key) : null, raw: event.raw ?? null }
    this.rows.push({ column, reason, key, toldKey: toldKey(key, schema), raw, carried })
    this.#bytes += JSON.stringify([reason, key, raw]).length
  }
}

function cutKey(key: NonNullable<Reject['key']>): NonNullable<Reject['key']> {
  const cut = Object.entries(key).map(([name, text]) => [name, text?.slice(0, MAX_KEY_CHARS) ?? null])
  return Object.fromEntries(cut)
}
