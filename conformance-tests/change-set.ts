import {
  batchFromRows,
  type ChangeSet,
  type ColumnBatch,
  type CsvChunk,
  type LakeSnapshot,
  type Row,
  type TableSchema,
} from '@sluice/sdk'
import { indexOf } from './compare.ts'
import { csvLine } from './csv.ts'

/** Small, so that every change set of a check is more than one batch. */
const BATCH_ROWS = 7

/** Where a store keeps rows, nothing of the lake is there for it to read. */
export const NO_LAKE: LakeSnapshot = { snapshotId: '0', files: [], fieldIds: {} }

export interface ChangeSetParts {
  readonly mode: 'full' | 'delta'
  readonly schema: TableSchema
  readonly upserts: readonly Row[]
  /** The primary key's values alone. */
  readonly deletes: readonly Row[]
  readonly lake: LakeSnapshot
}

export function changeSetOf({ mode, schema, upserts, deletes, lake }: ChangeSetParts): ChangeSet {
  return {
    mode,
    schema,
    upsertCount: upserts.length,
    deleteCount: deletes.length,
    upserts: () => batches(upserts, schema.columns.length),
    deletes: () => batches(deletes, schema.primaryKey.length),
    upsertsCsv: (columns) => csv(upserts.map((row) => columns.map((name) => row[indexOf(schema, name)] ?? null))),
    deletesCsv: () => csv(deletes),
    lake,
  }
}

async function* batches(rows: readonly Row[], width: number): AsyncGenerator<ColumnBatch> {
  for (let start = 0; start < rows.length; start += BATCH_ROWS) {
    yield batchFromRows(rows.slice(start, start + BATCH_ROWS), width)
  }
}

/** Chunks end in the middle of a line, as a stream's do. */
async function* csv(rows: readonly Row[]): AsyncGenerator<CsvChunk> {
  const text = Buffer.from(rows.map(csvLine).join(''))
  const half = Math.ceil(text.length / 2)
  if (text.length > 0) yield text.subarray(0, half)
  if (text.length > half) yield text.subarray(half)
}
