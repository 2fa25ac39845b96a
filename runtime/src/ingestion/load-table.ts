/** One source table into its raw table of the lake: read, write, stage. The commit is the caller's. */

import { type EngineLimits, quoteName } from '@sluice/engine'
import {
  type ChangedFiles,
  type CommitRequest,
  hasMarks,
  type Lake,
  MARKS,
  type PresentKeys,
  type Scan,
  type StagedCommit,
  type TableRef,
  type TableState,
  type WrittenData,
} from '@sluice/iceberg'
import type { Column, ConnectorState, TableSchema } from '@sluice/sdk'
import type { FaultPoint } from '../fault-points.ts'
import { type ColumnsAtFault, faultsSummary, MOMENT, READ_AT, ROWS_REJECTED } from '../materializer/raw-summary.ts'
import { changesText, columnChanges } from '../materializer/source-changes.ts'
import { SOURCE_MARK } from '../registry/connections.ts'
import type { ReadOutcome, TableRead } from './read-table.ts'

export interface LoadRequest {
  readonly ref: TableRef
  /** The raw table as it was when the read began; null: there is none. */
  readonly base: TableState | null
  readonly read: TableRead
  /** `cdc`: whole, and from then on by the log. */
  readonly mode: 'full' | 'incremental' | 'cdc'
  /** The key by which an incremental read replaces rows. */
  readonly primaryKey: readonly string[]
  readonly cursorColumn: string | null
  /** Null: the read began from nothing, so the rows are the whole table. */
  readonly previousState: ConnectorState | null
  /** Begins a read of the key columns of every row, as the source has them now; null: rows that are gone stay. */
  readonly readKeys: (() => Promise<TableRead>) | null
  readonly runId: string
  /** Equal of tables that are of one instant of the source; null: of its own. */
  readonly moment: string | null
  /** When the read began, by the database's clock. */
  readonly readAt: Date
  /** Which source of the connection is read: `sourceMark`. */
  readonly source: string
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

export interface LoadedTable {
  readonly commit: StagedCommit
  readonly outcome: ReadOutcome
  /** Whether rows that did not come, or could not be carried, stay as they were. */
  readonly keepsOthers: boolean
  /** Of a read of the keys; null where none was made. */
  readonly sweep: Sweep | null
  /**
   * False: the source is not what was read before, be it that an earlier copy was put back, or what came of a source that
   * repeats keys is not the newest that it has of them; it is to be read whole.
   */
  readonly goesOn: boolean
  /** How the columns have changed since the read before, in words; empty where they have not, null: there was none. */
  readonly changes: string | null
}

export interface Sweep {
  /** Rows that were gone from the source, and are now from the raw table. */
  readonly removed: number
  readonly keys: number
  readonly bytes: number
  /**
   * Rows that the source has, and the raw table has not, or in another state: besides those that could not be carried,
   * there are none where the source went on from what was read before.
   */
  readonly unexplained: number
  /** Keys of which the source has another state than came: the newest is in what was not read again. */
  readonly outdated: number
}

/** The keys that the source gives are no measure of what is gone from it: nothing was staged, and no row may go by them. */
export class SweepHeld extends Error {
  override readonly name = 'SweepHeld'
}

/** Of a raw table's snapshot: rows of the source that it lacks, or has in another state, for they could not be carried. */
const ROWS_UNEXPLAINED = 'sluice.rows-unexplained'

/** How many rows of the source may differ from those of the raw table: those that were left out. */
function explained(before: Scan['summary'] | null, { rejected }: ReadOutcome): number {
  return rejected + Number(before?.[ROWS_UNEXPLAINED] ?? before?.[ROWS_REJECTED] ?? 0)
}

/** Between reads that are not as of one moment, rows come and change. */
function isExplained({ moment }: LoadRequest, { unexplained }: Sweep, most: number): boolean {
  return moment === null || unexplained <= most
}

const INCOMING = 'incoming'
const KEYS = 'keys'

/**
 * Whether rows can be merged into the raw table by that key. A raw table requires the columns of the key that it was
 * written by, and no others: by another key, or none, its rows may have been kept more than once.
 */
export function takesIncrements(base: TableState | null, primaryKey: readonly string[]): boolean {
  if (base === null || base.snapshotId === null) return false
  const required = base.schema.fields.filter((field) => !field.nullable).map((field) => field.name)
  return required.length === primaryKey.length && primaryKey.every((name) => required.includes(name))
}

/** Throws `SweepHeld`: the same without `readKeys` is to be done then. */
export async function loadTable(
  request: LoadRequest,
  deps: { readonly lake: Lake; readonly faultPoint: FaultPoint },
): Promise<LoadedTable> {
  const { ref, base, read, signal } = request
  const former = base === null || base.snapshotId === null ? null : base
  const schema: TableSchema = {
    columns: read.schema.columns.map(asRaw(request.primaryKey)),
    primaryKey: request.primaryKey,
  }
  const changes = former === null ? null : columnChanges(former.schema.fields, schema.columns)
  const merges = request.mode === 'incremental' && request.previousState !== null && !read.whole
  // Of what nothing stays nothing has to be readable.
  const before = merges && former ? await deps.lake.scan(former, {}, signal) : null
  const { written, sweep, ...change } =
    former && before
      ? await mergeRows(request, former, before, schema, deps.lake)
      : await replaceRows(request, base, schema, deps.lake)
  await deps.faultPoint('ingestion.table-written')
  const outcome = read.outcome()
  const kept = before?.summary ?? null
  const commit = await deps.lake.stage(
    ref,
    {
      base,
      plan: written.plan,
      ...change,
      files: written.files,
      writeId: written.writeId,
      summary: {
        'sluice.run': request.runId,
        'sluice.mode': request.mode,
        ...(request.moment === null ? {} : { [MOMENT]: request.moment }),
        [READ_AT]: request.readAt.toISOString(),
        [SOURCE_MARK]: request.source,
        'sluice.rows-read': String(outcome.rowCount),
        [ROWS_REJECTED]: String(outcome.rejected + Number(kept?.[ROWS_REJECTED] ?? 0)),
        ...faultsSummary(faultsOf(request, outcome), kept),
        'sluice.cursor': cursorText(outcome.state),
        ...(sweep === null ? {} : { 'sluice.rows-gone': String(sweep.removed) }),
        ...(sweep === null ? {} : { [ROWS_UNEXPLAINED]: String(sweep.unexplained) }),
      },
    },
    signal,
  )
  await deps.faultPoint('ingestion.table-staged')
  return {
    commit,
    outcome,
    keepsOthers: change.operation === 'overwrite',
    sweep,
    goesOn: sweep === null || (sweep.outdated === 0 && isExplained(request, sweep, explained(kept, outcome))),
    changes: changes && changesText(changes),
  }
}

function faultsOf({ read, mode }: LoadRequest, { withoutValue, rejectedFor }: ReadOutcome): ColumnsAtFault {
  const { marks, isAskedForMarks } = read
  // A log that goes on brings none of them: only a read by which they may come is worth another one.
  const comeBack = mode === 'cdc' && isAskedForMarks ? [] : rejectedFor
  return { withoutValue: withoutValue.keys(), rejectedFor: comeBack, marks }
}

const MAX_CURSOR_CHARACTERS = 1_000

/** Where the source was read to, as its connector says it; a raw table's own readers may know. */
function cursorText(state: ConnectorState | null): string {
  const text = state === null ? '' : JSON.stringify(state.value)
  return text.length <= MAX_CURSOR_CHARACTERS ? text : ''
}

interface WrittenRows extends Pick<CommitRequest, 'operation' | 'removed' | 'removedFrom'> {
  readonly written: WrittenData
  readonly sweep: Sweep | null
}

/** Files without any of the rows that came stay as they are. */
async function mergeRows(
  request: LoadRequest,
  base: TableState,
  scan: Scan,
  schema: TableSchema,
  lake: Lake,
): Promise<WrittenRows> {
  const { readKeys, read, cursorColumn } = request
  // Where the keys are read, what came and is not the newest has the table read whole.
  const told = readKeys === null && read.repeats && cursorColumn !== null && !request.primaryKey.includes(cursorColumn)
  const newest = told && schema.columns.some(({ name }) => name === cursorColumn) ? { newest: cursorColumn } : {}
  const marks = read.marks || hasMarks(scan.summary)
  let keys: TableRead | null = null
  const present = async (): Promise<PresentKeys> => {
    keys = await (readKeys as () => Promise<TableRead>)()
    const held = unlikeKeys(keys.schema, schema)
    if (held !== null) {
      await keys.abandon()
      throw held
    }
    const csvInput = { name: KEYS, columns: keys.schema.columns, source: keys.rows }
    const isThere = ({ columns }: TableSchema) => columns.some(({ name }) => name === request.cursorColumn)
    const version = isThere(keys.schema) && isThere(schema) ? cursorColumn : null
    return { job: { csvInput, limits: request.limits }, keys: `SELECT * FROM ${KEYS}`, version, repeats: read.repeats }
  }
  const { written, removed, removedFrom, ...found } = await lake.merge(
    {
      base,
      scan,
      schema,
      rows: keepsTypes(scan, schema) ? 'keep' : 'rewrite',
      key: request.primaryKey,
      job: { csvInput: incoming(request), limits: request.limits },
      changed: newestByKey(request, marks),
      ...newest,
      sortBy: request.primaryKey,
      ...(marks ? { marks } : {}),
      ...(readKeys === null ? {} : { present }),
    },
    request.signal,
  )
  return { written, operation: 'overwrite', removed, removedFrom, sweep: keys && sweepOf(keys, found) }
}

/** A source whose types are found out may give keys by another one than its rows: equal keys are not equal then. */
export function unlikeKeys(keys: Pick<TableSchema, 'columns'>, { columns, primaryKey }: TableSchema): SweepHeld | null {
  const typeIn = (of: readonly Column[], name: string) => of.find((column) => column.name === name)?.type
  const other = primaryKey.find((name) => typeIn(keys.columns, name) !== typeIn(columns, name))
  if (other === undefined) return null
  return new SweepHeld(`the read of keys gave ${other} another type than the read of rows`)
}

/**
 * Throws where the keys did not come to their end, and `SweepHeld` where one of them could not be told: what is missing of
 * them is not gone.
 */
export function sweepOf(
  keys: Pick<TableRead, 'outcome'>,
  { gone, unexplained, outdated }: Pick<ChangedFiles, 'gone' | 'unexplained' | 'outdated'>,
): Sweep {
  const { rowCount, bytes, rejected } = keys.outcome()
  if (gone > 0 && rejected > 0)
    throw new SweepHeld(
      `${rejected} rows were rejected by the read of keys, and may be any of ${gone} that are missing`,
    )
  return { removed: gone, keys: rowCount, bytes, unexplained, outdated }
}

export function keepsTypes(scan: Scan, { columns }: TableSchema): boolean {
  return columns.every(
    ({ name, type }) => (scan.schema.fields.find((field) => field.name === name)?.type ?? type) === type,
  )
}

async function replaceRows(
  request: LoadRequest,
  base: TableState | null,
  schema: TableSchema,
  lake: Lake,
): Promise<WrittenRows> {
  const { ref, limits, signal, read, mode, primaryKey } = request
  const { marks } = read
  const repeats = read.repeats && mode === 'incremental' && primaryKey.length > 0
  const select = repeats ? newestByKey(request, marks) : `SELECT * FROM ${INCOMING}`
  const target = { ref, base, select, schema, partitioning: [], rows: 'rewrite', ...(marks ? { marks } : {}) } as const
  const { written } = await lake.write({ csvInput: incoming(request), limits }, [target], signal)
  const [rows] = written
  if (!rows) throw new Error('the lake wrote nothing')
  return { written: rows, operation: 'replace', sweep: null }
}

const incoming = ({ read }: LoadRequest) => {
  const columns = read.marks ? [...read.schema.columns, MARKS] : read.schema.columns
  return { name: INCOMING, columns, source: read.rows }
}

/** Raw tables take what the source has: only keys are required. */
export function asRaw(primaryKey: readonly string[]): (column: Column) => Column {
  return (column) => ({ ...column, nullable: !primaryKey.includes(column.name) })
}

/** No source has a column of that name. */
const ARRIVAL = '_sluice_arrival'

/**
 * A key that the source does not enforce may come more than once: the row with the newest cursor counts, of a source that repeats
 * keys the last that came of these. A source may read by a column that it shows to nobody who does not name it: no row says
 * then which is the newest.
 */
export function newestByKey(
  {
    primaryKey,
    cursorColumn,
    read,
  }: Pick<LoadRequest, 'primaryKey' | 'cursorColumn'> & {
    readonly read: Pick<TableRead, 'repeats' | 'marks' | 'schema'>
  },
  marks: boolean,
): string {
  const tells = read.schema.columns.some(({ name }) => name === cursorColumn)
  const order = [
    ...(cursorColumn !== null && tells ? [`${quoteName(cursorColumn)} DESC NULLS LAST`] : []),
    ...(read.repeats ? [`${ARRIVAL} DESC`] : []),
  ]
  const all = read.repeats ? `* EXCLUDE (${ARRIVAL})` : '*'
  const from = read.repeats ? `(SELECT *, row_number() OVER () AS ${ARRIVAL} FROM ${INCOMING})` : INCOMING
  const columns = marks && !read.marks ? `${all}, NULL AS ${quoteName(MARKS.name)}` : all
  const by = `PARTITION BY ${primaryKey.map(quoteName).join(', ')}${order.length > 0 ? ` ORDER BY ${order.join(', ')}` : ''}`
  return `SELECT ${columns} FROM ${from} QUALIFY row_number() OVER (${by}) = 1`
}
