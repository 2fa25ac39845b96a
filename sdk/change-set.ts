import type { ColumnBatch, CsvChunk } from './batch.ts'
import type { KeyTemplate } from './key-template.ts'
import type { KeyedChunk } from './keyed-rows.ts'
import type { TableSchema } from './schema.ts'

/**
 * What separates the epoch a store has from the epoch it is to have.
 *
 * - `full`: the upserts are the whole content; whatever else the dataset holds goes.
 * - `delta`: upserts replace or add rows by key, deletes remove them. A dataset without a key gets full sets only,
 *   or deltas without deletes whose upserts are plainly added.
 *
 * Every view may be taken again from the start, and all views of one part hold the same rows.
 */
export interface ChangeSet {
  readonly mode: 'full' | 'delta'
  readonly schema: TableSchema
  readonly upsertCount: number
  readonly deleteCount: number
  /** All columns of the schema, at most 10,000 rows a batch. Within one set a key occurs once. */
  upserts(): AsyncIterable<ColumnBatch>
  /** The primary key's columns alone. */
  deletes(): AsyncIterable<ColumnBatch>
  /** The same rows as CSV (see `CsvChunk`), made by the lake's engine: no row crosses JavaScript. */
  upsertsCsv(columns: readonly string[]): AsyncIterable<CsvChunk>
  deletesCsv(): AsyncIterable<CsvChunk>
  /**
   * The rows to upsert as key and JSON text (see `KeyedChunk`, `keyedRows`), made by the lake's engine: the key of the
   * template, and an object with these columns in their order.
   */
  upsertsKeyed(template: KeyTemplate, columns: readonly string[]): AsyncIterable<KeyedChunk>
  /** The committed content itself, for engines that read the lake. */
  readonly lake: LakeSnapshot
}

export interface LakeSnapshot {
  /** 63-bit number in decimal notation. */
  readonly snapshotId: string
  /** Absolute URIs of the data files. Not secret, but of one tenant: they never stand in an answer. */
  readonly files: readonly string[]
  /**
   * Iceberg position delete files: rows that they name are gone. Where a store does not say that it passes over them
   * (`Capabilities.lakeDeletes`), there are none.
   */
  readonly deletes?: readonly string[]
  /** What these call each of `files`, in the same order. */
  readonly deletedFrom?: readonly string[]
  /** Iceberg field ids by column name: files are read by id, so that renamed columns are found. */
  readonly fieldIds: Readonly<Record<string, number>>
}

/** The epoch a write is for, and who writes. */
export interface Commit {
  /** 1, 2, 3 …; grows by each materialization of the product. */
  readonly epoch: number
  /** The epoch the change set starts from; null for a full set on whatever is there. */
  readonly previousEpoch: number | null
  /** Grows whenever another worker takes over; a store refuses a token below one it has seen (FENCED). */
  readonly fence: bigint
  /** When the lake committed the epoch, RFC 3339 UTC with microseconds: the instant of histories and of ttl. */
  readonly committedAt: string
  readonly signal: AbortSignal
}

export interface Receipt {
  readonly epoch: number
  /** `already_applied`: the store had this epoch; nothing was changed. */
  readonly outcome: 'applied' | 'already_applied'
  readonly upserted: number
  readonly deleted: number
}

/** What `recover` finds: null where nothing was ever committed. */
export interface AppliedEpoch {
  readonly epoch: number
  readonly fence: bigint
  readonly committedAt: string
}
