/** The log of a source in memory: what its transactions have changed, kept for as long as somebody waits for it. */
import { randomUUID } from 'node:crypto'
import type { Row } from '@sluice/sdk'
import type { SourceTable } from '../connector-fixture.ts'
import { csvLine } from '../csv.ts'

/** A table as it was when something was logged of it. */
export interface LoggedTable {
  readonly table: SourceTable
  /** Another one for a table that was made anew. */
  readonly id: number
  /** Grows with every change of the columns. */
  readonly shape: number
  /** Grows whenever rows have got other values that the log does not tell. */
  readonly rereads: number
}

export type LogEntry = { readonly of: LoggedTable } & (
  | {
      readonly kind: 'row'
      readonly op: 'u' | 'd'
      readonly row: Row
      readonly unchanged: readonly string[]
      /** The row that had the former key. */
      readonly from: Row | null
      /** The column whose value nothing can carry. */
      readonly unfit?: string
    }
  | { readonly kind: 'truncate' }
  | { readonly kind: 'altered'; readonly mustReread: boolean }
  | { readonly kind: 'unfit'; readonly key: string }
)

export interface LoggedTransaction {
  readonly order: string
  readonly at: string
  readonly entries: readonly LogEntry[]
  readonly bytes: number
}

/** What the source keeps for one capture. */
export interface Place {
  readonly lineage: string
  /** The streams that are told, by table; since when, and which table it was. */
  readonly streams: ReadonlyMap<string, { readonly since: string; readonly of: LoggedTable }>
  /** Everything up to there may be forgotten. */
  readonly acked: string
  readonly isLost: boolean
}

const ORDER_DIGITS = 15

export class MemoryLog {
  readonly #places = new Map<string, Place>()
  #kept: readonly LoggedTransaction[] = []
  #order = 0
  #onNews: (() => void)[] = []
  /** How much is kept at most; null: without end. */
  limitBytes: number | null = null

  /** Where the log stands. */
  get head(): string {
    return String(this.#order).padStart(ORDER_DIGITS, '0')
  }

  get captures(): readonly string[] {
    return [...this.#places.keys()]
  }

  place(capture: string): Place | undefined {
    return this.#places.get(capture)
  }

  append(entries: readonly LogEntry[], bytes: number = bytesOf(entries)): void {
    this.#order += 1
    this.#tell()
    if (this.#places.size === 0) return
    this.#kept = [...this.#kept, { order: this.head, at: new Date().toISOString(), entries, bytes }]
    for (const [capture, place] of this.#places) {
      const isTooMuch = this.limitBytes !== null && this.retainedBytes(capture) > this.limitBytes
      if (isTooMuch) this.#places.set(capture, { ...place, isLost: true })
    }
    this.#forget()
  }

  /** The place of a capture, with these streams and no others. Of one that is lost, or to be made anew, nothing is left. */
  prepare(capture: string, streams: readonly LoggedTable[], isAnew: boolean): Place {
    const known = isAnew ? undefined : this.#places.get(capture)
    const former = known?.isLost ? undefined : known
    const told = streams.map((of) => {
      const was = former?.streams.get(of.table.name)
      const since = was?.of.id === of.id ? was.since : this.head
      return [of.table.name, { since, of }] as const
    })
    const begun = { lineage: `memory-${randomUUID()}`, acked: this.head, isLost: false }
    const place = { ...(former ?? begun), streams: new Map(told) }
    this.#places.set(capture, place)
    this.#forget()
    return place
  }

  /** What has come after a place, up to where the log stands now. */
  after(order: string): readonly LoggedTransaction[] {
    return this.#kept.filter((transaction) => transaction.order > order)
  }

  ack(capture: string, order: string): void {
    const place = this.#places.get(capture)
    if (place && order > place.acked) this.#places.set(capture, { ...place, acked: order })
    this.#forget()
  }

  release(capture: string): void {
    this.#places.delete(capture)
    this.#forget()
  }

  retainedBytes(capture: string): number {
    const place = this.#places.get(capture)
    if (place === undefined || place.isLost) return 0
    return this.after(place.acked).reduce((sum, { bytes }) => sum + bytes, 0)
  }

  lose(): void {
    for (const [capture, place] of this.#places) this.#places.set(capture, { ...place, isLost: true })
    this.#forget()
    this.#tell()
  }

  /** Resolves when something is written next, or let go of. */
  news(): Promise<void> {
    return new Promise((resolve) => this.#onNews.push(resolve))
  }

  #tell(): void {
    for (const tell of this.#onNews.splice(0)) tell()
  }

  #forget(): void {
    const needed = [...this.#places.values()].filter(({ isLost }) => !isLost).map(({ acked }) => acked)
    const from = needed.sort()[0] ?? this.head
    this.#kept = this.after(from)
  }
}

const ENTRY_BYTES = 24

function bytesOf(entries: readonly LogEntry[]): number {
  return entries.reduce((sum, entry) => sum + ENTRY_BYTES + (entry.kind === 'row' ? csvLine(entry.row).length : 0), 0)
}
