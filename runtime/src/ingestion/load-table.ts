/** One source table into its raw table of the lake: read, write, stage. The commit is the caller's. */
import type { Column, ConnectorState, TableSchema } from '@sluice/sdk'
import { SluiceError } from '@sluice/sdk'
import type { EngineLimits } from '../engine/engine.ts'
import { quoteName } from '../engine/sql-text.ts'
import type { FaultPoint } from '../fault-points.ts'
import type { Lake, StagedCommit, TableRef } from '../lake/lake.ts'
import type { SchemaChangeMode } from '../manifest/manifest-set.ts'
import { mergeSelect } from '../materializer/difference.ts'
import { stateOfScan, stateTable } from '../materializer/lake-state.ts'
import type { ReadOutcome, TableRead } from './read-table.ts'

export interface LoadRequest {
  readonly ref: TableRef
  readonly read: TableRead
  readonly mode: 'full' | 'incremental'
  /** The key by which an incremental read replaces rows. */
  readonly primaryKey: readonly string[]
  readonly cursorColumn: string | null
  /** Null: the read began from nothing, so the rows are the whole table. */
  readonly previousState: ConnectorState | null
  readonly onSchemaChange: SchemaChangeMode
  readonly runId: string
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

export interface LoadedTable {
  readonly commit: StagedCommit
  readonly outcome: ReadOutcome
}

const INCOMING = 'incoming'
const BEFORE = '__before'

export async function loadTable(
  request: LoadRequest,
  deps: { readonly lake: Lake; readonly faultPoint: FaultPoint },
): Promise<LoadedTable> {
  const { ref, read, signal } = request
  const base = await deps.lake.load(ref, { signal })
  const before = base === null ? null : stateOfScan(await deps.lake.scan(base, {}, signal))
  const schema: TableSchema = {
    columns: read.schema.columns.map(asRaw(request.primaryKey)),
    primaryKey: request.primaryKey,
  }
  if (before) checkSchemaChange(before.columns, schema.columns, request)
  const merges = request.mode === 'incremental' && request.previousState !== null && before !== null
  const columns = schema.columns.map((column) => ({
    ...column,
    id: before?.columns.find((known) => known.name === column.name)?.id ?? UNKNOWN_FIELD,
  }))
  const run = await deps.lake.write(
    {
      csvInput: { name: INCOMING, columns: read.schema.columns, source: read.rows },
      tables: merges && before ? [stateTable(BEFORE, before, columns)] : [],
      steps: merges ? [{ sql: `CREATE TEMP TABLE changed AS ${newestByKey(request)}` }] : [],
      limits: request.limits,
    },
    [
      {
        ref,
        base,
        select: merges ? mergeSelect(BEFORE, 'changed', schema) : `SELECT * FROM ${INCOMING}`,
        schema,
        partitioning: [],
        rows: 'rewrite',
      },
    ],
    signal,
  )
  await deps.faultPoint('ingestion.table-written')
  const [written] = run.written
  if (!written) throw new Error('the lake wrote nothing')
  const outcome = read.outcome()
  const commit = await deps.lake.stage(
    ref,
    {
      base,
      plan: written.plan,
      operation: 'replace',
      files: written.files,
      writeId: written.writeId,
      summary: {
        'sluice.run': request.runId,
        'sluice.mode': request.mode,
        'sluice.rows-read': String(outcome.rowCount),
      },
    },
    signal,
  )
  await deps.faultPoint('ingestion.table-staged')
  return { commit, outcome }
}

/** No file has a column of such an id: it reads as null. */
const UNKNOWN_FIELD = 2_000_000_000

/** Raw tables take what the source has: only keys are required. */
function asRaw(primaryKey: readonly string[]): (column: Column) => Column {
  return (column) => ({ ...column, nullable: !primaryKey.includes(column.name) })
}

/** A key that the source does not enforce may come more than once: the row with the newest cursor counts. */
function newestByKey(request: LoadRequest): string {
  const key = request.primaryKey.map(quoteName).join(', ')
  const order = request.cursorColumn ? ` ORDER BY ${quoteName(request.cursorColumn)} DESC NULLS LAST` : ''
  return `SELECT * FROM ${INCOMING} QUALIFY row_number() OVER (PARTITION BY ${key}${order}) = 1`
}

function checkSchemaChange(before: readonly Column[], now: readonly Column[], request: LoadRequest): void {
  if (request.onSchemaChange === 'evolve') return
  const name = (column: Column) => column.name
  const added = now.filter((column) => !before.map(name).includes(column.name)).map(name)
  const removed = before.filter((column) => !now.map(name).includes(column.name)).map(name)
  const retyped = now
    .filter((column) => before.some((known) => known.name === column.name && known.type !== column.type))
    .map(name)
  if (added.length + removed.length + retyped.length === 0) return
  throw new SluiceError('INVALID_DATA', `the columns of ${request.ref.table} have changed in the source`, {
    code: 'source_schema_changed',
    remedy: 'Take over the change in the manifests, or set on_schema_change: evolve.',
    details: { added, removed, retyped },
  })
}
