/** The contract of a source connector: a read-only view of somebody else's system. */
import type { ColumnBatch, CsvChunk } from './batch.ts'
import type { ChangeSource } from './change-source.ts'
import type { LogicalType, TableSchema } from './schema.ts'

export const CHECK_STEPS = ['dns', 'tcp', 'tls', 'auth', 'privileges'] as const

/** Steps run in order; after the first that fails the others are left out. */
export interface CheckStep {
  readonly name: (typeof CHECK_STEPS)[number]
  readonly ok: boolean
  readonly message: string
  readonly remedy?: string
}

export interface CheckReport {
  readonly ok: boolean
  readonly steps: readonly CheckStep[]
  readonly latencyMs: number
  readonly serverVersion?: string
}

export interface DiscoveredColumn {
  readonly name: string
  /** The logical type it is read as. */
  readonly type: LogicalType
  readonly sourceType: string
  readonly nullable: boolean
}

export interface DiscoveredTable {
  readonly schema: string
  readonly name: string
  readonly kind: 'table' | 'view' | 'materialized_view' | 'foreign_table' | 'partitioned_table'
  /** The source's own estimate, a whole number from 0 on, which may be old; null where it has none. */
  readonly estimatedRows: number | null
  readonly primaryKey: readonly string[]
  readonly columns: readonly DiscoveredColumn[]
  /** A column that grows with every change, where one can be had safely; never the primary key. */
  readonly suggestedCursor: string | null
}

export interface DiscoverPage {
  readonly tables: readonly DiscoveredTable[]
  readonly next: string | null
}

/** Opaque to the runtime but for `version`; JSON, at most 64 KiB. */
export interface ConnectorState {
  readonly version: number
  readonly value: Readonly<Record<string, unknown>>
}

export interface ReadRequest {
  readonly schema: string
  readonly table: string
  readonly mode: 'full' | 'incremental'
  /** Columns to read, in order; empty: all. */
  readonly columns: readonly string[]
  readonly primaryKey: readonly string[]
  readonly cursorColumn: string | null
  /** Of the last committed read; null for the first, or after a full one. */
  readonly state: ConnectorState | null
  /**
   * Columns that nobody uses, never of the key: a value of them that cannot be carried need not keep its row. Where a
   * connector heeds it, such a row comes with null in their place, and a `reject` that is `carried` names each.
   */
  readonly optional?: readonly string[]
  /**
   * Columns, never of the key nor the cursor, without whose values a row may come if it says so: where a connector heeds it, its
   * `schema` has `marks`, and what cannot be carried of them comes as of `optional`. Of other columns it costs the row.
   */
  readonly marked?: readonly string[]
  readonly signal: AbortSignal
}

/**
 * What a read yields: one `schema` first, then rows (as batches or as CSV), `reject` for a row that cannot be
 * carried, and one `state` last, with counts that match what was sent since the former. A read that finds nothing new
 * still ends with a state, equal to the one it was given.
 *
 * `estimate` says how many rows are to be expected, a whole number from 0 on, or null; it binds nobody.
 *
 * `marks` with the schema, in a read that was asked for it by `marked`: every row has one cell more at its end, a JSON array of
 * the names of its columns that are null in place of what cannot be carried, or null.
 *
 * `whole` with the schema says of an incremental read that it could not go on from its state and brings every row of
 * the table: rows of former reads that do not come again are gone.
 *
 * `repeats` with the schema says that nothing keeps a key from coming more than once, as where each file of a folder brings some
 * keys anew: of an incremental read the row with the greatest cursor counts then, of several the last that comes, whether it is
 * the first read or not.
 */
export type ReadEvent =
  | {
      readonly kind: 'schema'
      readonly schema: TableSchema
      readonly whole?: boolean
      readonly marks?: boolean
      readonly repeats?: boolean
    }
  | { readonly kind: 'estimate'; readonly rows: number | null }
  | { readonly kind: 'batch'; readonly batch: ColumnBatch }
  | { readonly kind: 'csv'; readonly chunk: CsvChunk }
  | {
      readonly kind: 'reject'
      /** Without a value. */
      readonly reason: string
      /** The column that is at fault, where it is one. */
      readonly column: string | null
      /** The row's key by column, values as texts of the shared CSV; absent where it has none, or it is not known. */
      readonly key?: Readonly<Record<string, string | null>>
      /** What cannot be carried, in the source's own words: the value of `column`, or the whole row. It may be cut. */
      readonly raw?: string
      /**
       * The whole row, by column, each value as `valueReader` of the column's type is given it, and null where there is none: so
       * that the row can be taken once the column holds it. Absent where that cannot be said.
       */
      readonly row?: Readonly<Record<string, string | null>>
      /** The row came, with null in `column`, one of those that the request calls optional or marked: the state counts it. */
      readonly carried?: boolean
    }
  | { readonly kind: 'state'; readonly state: ConnectorState; readonly rows: number }

/**
 * Every call ends with its signal, TRANSIENT, whatever it waits for; a `check` may say it by a step that fails. Nothing that is given
 * back or thrown holds a secret of the settings, causes of errors included.
 */
export interface Connector {
  /** Never writes; each failing step names its remedy. Does not throw for what a step can say. */
  check(signal: AbortSignal): Promise<CheckReport>
  /** Only what the login may read; the same order every time; at most `limit` tables a page. */
  discover(page: { readonly after: string | null; readonly limit: number }, signal: AbortSignal): Promise<DiscoverPage>
  /** Streams one table in one consistent snapshot, with bounded memory, read-only. */
  read(request: ReadRequest): AsyncIterable<ReadEvent>
  /** Told only after the lake has committed what led to this state. */
  ack(request: { readonly schema: string; readonly table: string }, state: ConnectorState): Promise<void>
  close(): Promise<void>
  /** Of a connector whose plugin names the mode `cdc`. */
  readonly changes?: ChangeSource
}
