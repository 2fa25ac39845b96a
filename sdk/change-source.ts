/**
 * The contract of a source that has a log of its changes. The log is one for all tables of a connection; the runtime
 * reads it from the position that it has committed, applies what came to its tables, commits, and only then
 * acknowledges. What was not acknowledged comes again.
 *
 * A table's first rows come by `Connector.read`, after `prepare` and before `changes`: the log from the prepared
 * position on, to where it stood when `changes` began, is then true of them, though some of it tells what the read has
 * seen already. So applying a change twice must give what applying it once gives: rows are whole, and found by key.
 */
import type { CsvChunk } from './batch.ts'
import type { TableSchema } from './schema.ts'

/** A place in a log, between two transactions. */
export interface ChangePosition {
  /** Which history it is a place of: a source that was put back, or a log begun anew, is another. At most 200 characters. */
  readonly lineage: string
  /** Grows along one lineage, compared as text. At most 200 characters of ASCII. */
  readonly order: string
}

/** A table whose changes are read. */
export interface ChangeStream {
  readonly schema: string
  readonly table: string
  /** By which its rows are found; what the source enforces, and logs of a row that is gone. */
  readonly primaryKey: readonly string[]
  /**
   * Of what `changes` is asked for: a row may come without values of columns that are not of the key, if it says so. Where a
   * connector heeds it, `schema` has `marks`. Else a value that cannot be carried costs the row.
   */
  readonly marks?: boolean
}

/** What a log cannot tell of a table, and what would let it. */
export interface RefusedStream {
  readonly schema: string
  readonly table: string
  readonly code: string
  readonly reason: string
  readonly remedy: string
}

/** Which table of that name a source has, and how it is shaped. */
export interface TableIncarnation {
  readonly schema: string
  readonly table: string
  /**
   * Another one whenever rows have changed that no log tells of: by a default of a new column, another type, another table in
   * its place, or a time in which the log did not tell it. At most 200 characters.
   */
  readonly incarnation: string
}

export interface PreparedChanges {
  /** Where the log begins, if nothing was read yet; else not after what was acknowledged last. */
  readonly position: ChangePosition
  readonly refused: readonly RefusedStream[]
  /**
   * Of the streams that are told, as they are at this moment. The log knows nothing of what happened to a table while nobody
   * read: one whose incarnation is another than when it was read whole is read whole again.
   */
  readonly incarnations?: readonly TableIncarnation[]
}

/** Columns before those of the table in the CSV of `rows`, each as text. */
export const CHANGE_COLUMNS = ['_op', '_seq', '_unchanged', '_from'] as const

/**
 * Rows of one stream are in the order of the log. A transaction lies whole between two checkpoints; what was rolled
 * back does not come. The last event is a checkpoint.
 */
export type ChangeEvent =
  /**
   * Before the first rows of a stream, and whenever its columns change: how the rows after it are shaped. `mustReread`:
   * values of rows that do not come have changed with it (a default, another type, another table of that name), so that
   * the table is to be read whole. `marks`, of a stream that was asked for with it, and of all its schemas or of none: every
   * row after it has one cell more at its end, as in a read that has `marks`: a JSON array of the names of its columns that are
   * null in place of what cannot be carried, or null. A column whose value is left out as unchanged lacks what it lacked. Whoever
   * gives marks in a log gives them in a read of the table.
   */
  | {
      readonly kind: 'schema'
      readonly stream: number
      readonly schema: TableSchema
      readonly mustReread?: boolean
      readonly marks?: boolean
    }
  /**
   * `_op`: `u` for a row as it is now, `d` for one that is gone (only its key is told, the other columns are null).
   * `_seq`: place in the log, grows as text. `_unchanged`: a JSON array of the columns whose values the log leaves out
   * since they are as they were, else null; the row has null there. `_from`: where the key has changed, the former one, a
   * JSON array of texts in the key's order: what is unchanged is so of that row; a `d` of the former key came before.
   */
  | { readonly kind: 'rows'; readonly stream: number; readonly chunk: CsvChunk; readonly rows: number }
  /** All rows of the stream before it are gone. */
  | { readonly kind: 'truncate'; readonly stream: number; readonly seq: string }
  /**
   * A changed row that cannot be carried: the row of that key is gone from what is served, else it were an old one. `carried`: the
   * row has come, as the last one before it and of its `seq`, with null in `column`, which is one of its mark.
   */
  | {
      readonly kind: 'reject'
      readonly stream: number
      readonly seq: string
      readonly reason: string
      readonly column: string | null
      readonly key?: Readonly<Record<string, string | null>>
      readonly raw?: string
      readonly carried?: boolean
    }
  /** All before it is whole. `sourceTime`: of the last transaction, by the source's clock, ISO 8601 in UTC. */
  | { readonly kind: 'checkpoint'; readonly position: ChangePosition; readonly sourceTime: string | null }

export interface ChangeHealth {
  /** `lost`: the log from the saved position on is gone, and all tables are to be read whole, after another `prepare`. */
  readonly state: 'ok' | 'at_risk' | 'lost'
  /** What the source keeps for us alone; null where it does not say. */
  readonly retainedBytes: number | null
  /** How much it keeps before it lets go; null: without end. */
  readonly limitBytes: number | null
  readonly message: string
  readonly remedy?: string
}

export interface AwaitRequest {
  readonly capture: string
  readonly after: ChangePosition
  readonly streams: readonly ChangeStream[]
  readonly waitMs: number
  readonly signal: AbortSignal
}

/** `quiet`: up to there the log has nothing of these streams, so that the source may forget it. */
export type ChangeNews = { readonly kind: 'changed' } | { readonly kind: 'quiet'; readonly position: ChangePosition }

export interface RefusalsRequest {
  /** Whether what this capture needs could be made, too, where it is not there yet: throws what `prepare` would. Absent: of the tables alone. */
  readonly capture?: string
  readonly streams: readonly ChangeStream[]
  readonly signal: AbortSignal
}

/**
 * Every call names the capture: at most 40 of a-z, 0-9 and _, of one connection of one installation. Each ends with its signal,
 * TRANSIENT.
 */
export interface ChangeSource {
  /** What `prepare` would refuse of these, without a change of the source; a plan asks it. Absent: nobody can say. */
  refusals?(request: RefusalsRequest): Promise<readonly RefusedStream[]>
  /**
   * Lets the log tell these streams from now on. Repeatable: makes one place at the source, not two. Adds what is missing,
   * takes away what is not among them. Never makes a statement of the source's writers fail: a table that cannot be told
   * is refused. `anew`: what was kept is given up, the position is of a lineage of its own.
   */
  prepare(request: {
    readonly capture: string
    readonly streams: readonly ChangeStream[]
    readonly anew?: boolean
    readonly signal: AbortSignal
  }): Promise<PreparedChanges>
  /**
   * The log after a position, to where it stands when this is called. Bounded memory, whatever a transaction holds. Throws
   * `position_lost` (CONFLICT) where the source has not that position, or not that lineage: never begins later in silence.
   */
  changes(request: {
    readonly capture: string
    readonly after: ChangePosition
    readonly streams: readonly ChangeStream[]
    readonly signal: AbortSignal
  }): AsyncIterable<ChangeEvent>
  /**
   * Waits until the log has a change of these streams after a position, and for `waitMs` at most. Costs the source and us next
   * to nothing while nothing changes; what has come is not told, and is read by `changes`. Throws as `changes` does. Absent:
   * the log is read from time to time, as far as its first change.
   */
  awaitChanges?(request: AwaitRequest): Promise<ChangeNews>
  /** The runtime has committed all up to there: the source may forget it. Goes exactly there, and never back. */
  ack(request: {
    readonly capture: string
    readonly position: ChangePosition
    readonly signal: AbortSignal
  }): Promise<void>
  health(request: {
    readonly capture: string
    readonly saved: ChangePosition | null
    readonly signal: AbortSignal
  }): Promise<ChangeHealth>
  /** Leaves nothing of the capture at the source. Repeatable. */
  release(request: { readonly capture: string; readonly signal: AbortSignal }): Promise<void>
}
