import {
  batchFromRows,
  type ChangeSet,
  type Column,
  type ColumnBatch,
  type CsvChunk,
  type KeyTemplate,
  keyedLine,
  type LakeSnapshot,
  type LogicalType,
  type Row,
  renderKey,
  type TableSchema,
  toJsonValue,
  type Value,
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
    upsertsKeyed: (template, columns) => pieces(keyedText(schema, upserts, template, columns)),
    lake,
  }
}

async function* batches(rows: readonly Row[], width: number): AsyncGenerator<ColumnBatch> {
  for (let start = 0; start < rows.length; start += BATCH_ROWS) {
    yield batchFromRows(rows.slice(start, start + BATCH_ROWS), width)
  }
}

function csv(rows: readonly Row[]): AsyncGenerator<CsvChunk> {
  return pieces(rows.map(csvLine).join(''))
}

function keyedText(
  schema: TableSchema,
  rows: readonly Row[],
  template: KeyTemplate,
  columns: readonly string[],
): string {
  return rows
    .map((row) => {
      const key = renderKey(template, schema, (name) => row[indexOf(schema, name)] ?? null)
      const members = columns.map((name) => {
        const at = indexOf(schema, name)
        return `${JSON.stringify(name)}:${jsonText(row[at] ?? null, (schema.columns[at] as Column).type)}`
      })
      return keyedLine(key, `{${members.join(',')}}`)
    })
    .join('')
}

function jsonText(value: Value, type: LogicalType): string {
  // A line break in a document is white space.
  if (type === 'json' && typeof value === 'string') return value.replace(/[\r\n]/g, ' ')
  return Object.is(value, -0) ? '-0.0' : JSON.stringify(toJsonValue(value, type))
}

/** Chunks end in the middle of a line, as a stream's do. */
async function* pieces(whole: string): AsyncGenerator<Uint8Array> {
  const text = Buffer.from(whole)
  const half = Math.ceil(text.length / 2)
  if (text.length > 0) yield text.subarray(0, half)
  if (text.length > half) yield text.subarray(half)
}
