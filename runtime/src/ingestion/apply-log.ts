/** A piece of a log into the raw table of one source table: folded, merged, staged. The commit is the caller's. */
import type { EngineLimits } from '@sluice/engine'
import {
  engineTable,
  hasMarks,
  type Lake,
  MARKS,
  type Scan,
  type SnapshotId,
  type StagedCommit,
  type TableRef,
  type TableState,
  toTableSchema,
} from '@sluice/iceberg'
import type { Column, TableSchema } from '@sluice/sdk'
import { faultsSummary, MOMENT, READ_AT, ROWS_REJECTED } from '../materializer/raw-summary.ts'
import { changesText, columnChanges } from '../materializer/source-changes.ts'
import { SOURCE_MARK } from '../registry/connections.ts'
import { BASE, type FoldCounts, foldCounts, foldLog } from './change-fold.ts'
import { brokenLog, type SpooledTable } from './change-spool.ts'
import { asRaw, keepsTypes } from './load-table.ts'

export interface ApplyRequest {
  readonly ref: TableRef
  /** Null: there is none yet. */
  readonly base: TableState | null
  readonly table: SpooledTable
  readonly primaryKey: readonly string[]
  /** See `FoldRequest.isFresh`. */
  readonly isFresh: boolean
  readonly runId: string
  /** Equal of all tables of one log: what was committed together is of one place in it. Null: it is of its own. */
  readonly moment: string | null
  readonly readAt: Date
  readonly source: string
  /** Snapshots that leave the table's history with the commit. Absent: none. */
  readonly expired?: readonly SnapshotId[]
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

export interface AppliedTable {
  /** Null: nothing of the table has changed. */
  readonly commit: StagedCommit | null
  readonly counts: FoldCounts
  /** How the columns have changed, in words; empty where they have not. */
  readonly changes: string
}

/** Throws as `Lake.merge` does. `counts.unknown` above 0: nothing was staged. */
export async function applyLog(request: ApplyRequest, lake: Lake): Promise<AppliedTable> {
  const { base, table, signal } = request
  const schema = schemaOf(request)
  const found = base === null ? null : columnChanges(base.schema.fields, schema.columns)
  const changes = found === null ? '' : changesText(found)
  const scan = base === null ? null : await lake.scan(base, {}, signal)
  const { written, counts, removed, removedFrom, operation } =
    table.isTruncated || base === null || scan === null
      ? await replace(request, schema, lake)
      : await merge(request, schema, base, scan, lake)
  checkConserved(table, counts)
  const isSame = written.files.length === 0 && removed.length === 0 && operation === 'overwrite'
  // That rows were left out for a column is for the next read to know.
  const isTold = changes === '' && table.rejectedFor.size === 0
  if (counts.unknown > 0 || (isSame && isTold)) return { commit: null, counts, changes }
  const commit = await lake.stage(
    request.ref,
    {
      base,
      plan: written.plan,
      operation,
      ...(operation === 'overwrite' ? { removed, removedFrom } : {}),
      files: written.files,
      writeId: written.writeId,
      summary: summaryOf(request, scan?.summary ?? {}, counts),
      expired: request.expired ?? [],
    },
    signal,
  )
  return { commit, counts, changes }
}

/** Each row that the source has counted is in the table, has another after it, or says that one is gone. */
function checkConserved({ rows }: SpooledTable, { changed, deleted, superseded }: FoldCounts): void {
  const found = changed + deleted + superseded
  if (found !== rows) throw brokenLog(`it counted ${rows} rows of a table, and gave ${found}`)
}

function schemaOf({ base, table, primaryKey }: ApplyRequest): TableSchema {
  const last: readonly Column[] =
    table.segments.at(-1)?.columns ?? (base === null ? [] : toTableSchema(base.schema).columns)
  return { columns: last.map(asRaw(primaryKey)), primaryKey }
}

function summaryOf(request: ApplyRequest, before: Scan['summary'], { changed, gone, superseded }: FoldCounts) {
  const { segments, isTruncated, withoutValue, rejectedFor } = request.table
  const kept = isTruncated ? {} : before
  const marks = segments.some((one) => one.marks)
  return {
    'sluice.run': request.runId,
    'sluice.mode': 'cdc',
    ...(request.moment === null ? {} : { [MOMENT]: request.moment }),
    [READ_AT]: request.readAt.toISOString(),
    [SOURCE_MARK]: request.source,
    'sluice.rows-read': String(request.table.rows),
    'sluice.rows-changed': String(changed),
    'sluice.rows-gone': String(gone),
    'sluice.rows-superseded': String(superseded),
    [ROWS_REJECTED]: String(request.table.rejected + Number(kept[ROWS_REJECTED] ?? 0)),
    ...faultsSummary({ withoutValue: withoutValue.keys(), rejectedFor, marks }, kept),
  }
}

/** Whether rows of the table say what they lack, as `before` it those of the table do, or as the log does. */
function marksOf({ table }: ApplyRequest, before: Scan | null): boolean {
  return table.segments.some(({ marks }) => marks) || (before !== null && hasMarks(before.summary))
}

function foldOf({ table, base, isFresh }: ApplyRequest, schema: TableSchema, marks: boolean) {
  const names = table.isTruncated || base === null ? null : base.schema.fields.map(({ name }) => name)
  const { segments, kinds } = table
  const fold = foldLog({ segments, schema, base: names, marks, isFresh, kinds })
  return { ...fold, readPaths: table.segments.map(({ file }) => file) }
}

/** Files without any of the rows that were told of stay as they are. */
async function merge(request: ApplyRequest, schema: TableSchema, base: TableState, scan: Scan, lake: Lake) {
  const { primaryKey, limits, signal } = request
  const marks = marksOf(request, scan)
  const { steps, changed, gone, readsBase, readPaths } = foldOf(request, schema, marks)
  // Files of before have no marks, and then none of their rows lacks anything.
  const fields = marks ? [...base.schema.fields, MARKS] : base.schema.fields
  const { written, removed, removedFrom, results } = await lake.merge(
    {
      base,
      scan,
      schema,
      rows: keepsTypes(scan, schema) ? 'keep' : 'rewrite',
      key: primaryKey,
      job: {
        tables: readsBase ? [engineTable(scan, [BASE], { ...base.schema, fields })] : [],
        steps,
        readPaths,
        limits,
      },
      changed,
      ...(gone === null ? {} : { gone }),
      sortBy: primaryKey,
      ...(marks ? { marks } : {}),
    },
    signal,
  )
  return { written, removed, removedFrom, counts: foldCounts(results[0]?.rows[0]), operation: 'overwrite' } as const
}

/** Of the rows before it none is left: those after it are the table. */
async function replace(request: ApplyRequest, schema: TableSchema, lake: Lake) {
  const { ref, base, limits, signal, primaryKey } = request
  const marks = marksOf(request, null)
  const { steps, changed, readPaths } = foldOf(request, schema, marks)
  const more = { sortBy: primaryKey, ...(marks ? { marks } : {}) }
  const target = { ref, base, select: changed, schema, rows: 'rewrite', ...more } as const
  const { written, results } = await lake.write({ steps, readPaths, limits }, [target], signal)
  const [data] = written
  if (data === undefined) throw new Error('the lake wrote nothing')
  const counts = foldCounts(results[0]?.rows[0])
  return { written: data, removed: [], removedFrom: [], counts, operation: 'replace' } as const
}
