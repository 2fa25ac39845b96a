import type { ComparisonOperator, ReadPolicy } from './policy.ts'
import type { Value } from './schema.ts'

/**
 * - `get`: rows that equal the filters (a point read by key or index).
 * - `scan`: rows by filter, ordered, page by page.
 * - `range`: rows of a time range, ordered by time.
 * - `aggregate`: the kept aggregate of a time range.
 * - `key`: the one value under a rendered key.
 */
export const READ_OPERATIONS = ['get', 'scan', 'range', 'aggregate', 'key'] as const

export type ReadOperation = (typeof READ_OPERATIONS)[number]

export type FilterOperator = ComparisonOperator | 'in'

/** Filters are joined by AND; `values` has one entry but for `in`. A null never matches. */
export interface Filter {
  readonly column: string
  readonly operator: FilterOperator
  readonly values: readonly NonNullable<Value>[]
}

/** Null stands above every value: last when ascending, first when descending. */
export interface Ordering {
  readonly column: string
  readonly direction: 'asc' | 'desc'
}

/** Half-open: `from` ≤ time < `to`. Values of the time column's type; null is unbounded. */
export interface TimeRange {
  readonly from: string | null
  readonly to: string | null
}

/** Which state of a row where the store keeps history: all of them, or those that held at an instant. */
export type HistorySelection = { readonly kind: 'all' } | { readonly kind: 'at'; readonly instant: string }

/**
 * One bounded read. Everything in it is checked: columns exist, filters fit the declared operations, `limit` is at
 * most what the store declares. A store adds the key columns to the order so that it is total.
 */
export interface ReadPlan {
  readonly operation: ReadOperation
  /** The projection, in answer order; every name stands in `policy.visibleColumns`. */
  readonly columns: readonly string[]
  readonly filters: readonly Filter[]
  readonly orderBy: readonly Ordering[]
  /** Rows at most, 1 … the declared `maxReadRows`. */
  readonly limit: number
  /** A former answer's `next`: the page begins after that row. */
  readonly after?: readonly Value[]
  readonly range?: TimeRange
  /** For `aggregate`: which kept aggregate, as the config names it (`1 week`). */
  readonly interval?: string
  /** For `key`: the key as the template renders it, without the tenant's prefix. */
  readonly key?: string
  readonly history?: HistorySelection
  readonly policy: ReadPolicy
  /** How long the read may take; the store ends it then with TRANSIENT `deadline_exceeded`. At 0 its time is over. */
  readonly timeoutMs: number
  /**
   * Aborted, the read ends with TRANSIENT `aborted`, between two batches too. May be made when it is first asked for: a
   * store that needs no more than `isCalledOff` leaves it alone.
   */
  readonly signal: AbortSignal
  /** Whether nobody waits for the read any more, without a signal being made for it. Absent: the signal says it. */
  readonly isCalledOff?: () => boolean
  /** `json` where the caller can take a JsonBatch; a store that cannot make one gives columns. */
  readonly encoding: 'columns' | 'json'
}

export function isCalledOff(plan: Pick<ReadPlan, 'signal' | 'isCalledOff'>): boolean {
  return plan.isCalledOff?.() ?? plan.signal.aborted
}
