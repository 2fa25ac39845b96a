/** Reads one table of the source and stages its rows, as its mode and what its products bear with say. */

import { isToBegin, type TableState } from '@sluice/iceberg'
import type { Connector, ConnectorState, DiscoveredTable } from '@sluice/sdk'
import type { RejectedLimit } from '../manifest/manifest-set.ts'
import { unusedColumns } from '../manifest/used-columns.ts'
import { rawTable } from '../materializer/inputs.ts'
import { type Dispensable, heedsMarks, isReadAsUsed, lacksMarkedRows } from '../materializer/raw-summary.ts'
import { type Backfill, backfillsOf } from '../registry/backfills.ts'
import { databaseNow } from '../registry/clock.ts'
import { sourceMark } from '../registry/connections.ts'
import { connectorState } from '../registry/connector-states.ts'
import { type IngestionDeps, type IngestionRun, say } from './ingestion-run.ts'
import { type LoadedTable, loadTable, SweepHeld, takesIncrements } from './load-table.ts'
import { readTable, type TableRead } from './read-table.ts'
import { checkRejected, rejectedLimits } from './rejected-rows.ts'
import type { ReadMode, SourceTable } from './source-tables.ts'
import { progressReporter } from './table-progress.ts'
import type { DeployedProduct } from './wave.ts'

/** That all reads of a connector are as of. */
export interface Moment {
  readonly name: string
  /** Not after it. */
  readonly at: Date
}

export interface LoadedSource extends LoadedTable {
  readonly table: SourceTable
  readonly mode: ReadMode
  readonly readAt: Date
  /** That this read is the answer to. */
  readonly backfill: Backfill | null
}

/** Of a table, what its products bear with and do without. */
export function askedOf(
  run: IngestionRun,
  { name }: SourceTable,
  { columns }: DiscoveredTable,
  products: readonly DeployedProduct[],
) {
  const names = columns.map((column) => column.name)
  const strict = products.filter(({ manifests }) => !heedsMarks(manifests))
  return {
    limits: rejectedLimits(run.connection.name, name, products),
    optional: unusedColumns(run.connection.name, name, names, products),
    marked: unusedColumns(run.connection.name, name, names, strict),
  }
}

/** Whether any value of the table may be missing in a row that says so: a log asks for all columns or none. */
export function isMarked({ primaryKey }: ReadMode, { columns }: DiscoveredTable, { marked }: Dispensable): boolean {
  return columns.every(({ name }) => primaryKey.includes(name) || marked.includes(name))
}

export async function loadSource(
  run: IngestionRun,
  table: SourceTable,
  mode: ReadMode,
  asked: Dispensable & { readonly limits: readonly RejectedLimit[] },
  connector: Connector,
  moment: Moment | null,
  deps: IngestionDeps,
): Promise<LoadedSource> {
  const { connection, lease, signal } = run
  const room = await deps.checkStorage(connection.tenant)
  const ref = rawTable(connection.tenant, connection.name, table.name)
  const backfill =
    (await backfillsOf(deps.pool, connection.id)).find(({ tableName }) => tableName === table.name) ?? null
  // Whoever asks for everything gets it, also where the table cannot be read any more; by itself nothing gives up a history.
  const base = await (backfill === null ? deps.lake.load(ref, { signal }) : deps.lake.loadToReplace(ref, signal))
  if (isToBegin(base)) await say(run, deps, 'warn', `${table.name}: ${BEGUN_ANEW}`)
  const isOthers = (column: string) => !mode.primaryKey.includes(column) && column !== mode.cursorColumn
  const [optional, marked] = [asked.optional.filter(isOthers), asked.marked.filter(isOthers)]
  const summary = summaryOf(base)
  const isAsUsed = isReadAsUsed(summary, { optional, marked })
  const goesOn = backfill === null && mode.mode === 'incremental' && takesIncrements(base, mode.primaryKey) && isAsUsed
  const known = goesOn ? await connectorState(deps.pool, connection.id, table.name) : null
  const previousState = (known?.state ?? null) as ConnectorState | null
  const report = progressReporter(run, table, mode, deps)
  const readAt = moment?.at ?? (await databaseNow(deps.pool))
  const loadFrom = async (state: ConnectorState | null, sweeps: boolean): Promise<LoadedTable> => {
    await report.now('running', 0, 0, 0)
    const { mode: how, primaryKey, cursorColumn } = mode
    const way = how === 'cdc' ? 'full' : how
    const { schema, table: name } = table
    const needs = { optional, ...(marked.length === 0 ? {} : { marked }) }
    const request = { schema, table: name, mode: way, columns: [], primaryKey, cursorColumn, state, ...needs, signal }
    const read = await readTable(connector, request, report.soon)
    if (read.marks && !read.whole && state !== null && lacksMarkedRows(summary, marked)) {
      await read.abandon()
      return loadFrom(null, sweeps)
    }
    return loadTable(
      {
        ref,
        base,
        read,
        mode: how,
        primaryKey,
        cursorColumn,
        previousState: state,
        readKeys: sweeps ? () => readKeys(connector, table, mode, signal) : null,
        runId: lease.runId,
        moment: moment?.name ?? null,
        readAt,
        source: sourceMark(connection),
        limits: { ...deps.limits, room },
        signal,
      },
      deps,
    )
  }
  const load = async (state: ConnectorState | null): Promise<LoadedTable> => {
    try {
      return await loadFrom(state, mode.deletes === 'key_sweep')
    } catch (error) {
      if (!(error instanceof SweepHeld)) throw error
      await say(run, deps, 'warn', `${table.name}: no row was removed as gone: ${error.message}`)
      await report.settle()
      return loadFrom(state, false)
    }
  }
  let loaded = await load(previousState)
  if (!loaded.goesOn) {
    const text = 'rows of the source are not as they had been read, so that all are read again'
    await say(run, deps, 'warn', `${table.name}: ${text}`)
    await report.settle()
    loaded = await load(null)
  }
  checkRejected(table.name, loaded.outcome, asked.limits)
  await report.settle()
  // What the source had before somebody asked does not answer him.
  const isAnswered = backfill !== null && backfill.askedAt <= readAt
  return { ...loaded, table, mode, readAt, backfill: isAnswered ? backfill : null }
}

const BEGUN_ANEW = 'its table in the lake cannot be read, and is begun anew without its history'

function summaryOf(base: TableState | null): Readonly<Record<string, string>> {
  const current = base?.metadata.snapshots.find((snapshot) => String(snapshot['snapshot-id']) === base.snapshotId)
  return current?.summary ?? {}
}

/**
 * The key of every row, in the source's words, and its cursor: what an incremental read does not bring, and a row that is
 * gone cannot. A cursor that cannot be carried is left out.
 */
export function readKeys(
  connector: Connector,
  table: SourceTable,
  mode: ReadMode,
  signal: AbortSignal,
): Promise<TableRead> {
  const { primaryKey, cursorColumn } = mode
  const cursor = cursorColumn === null || primaryKey.includes(cursorColumn) ? [] : [cursorColumn]
  return readTable(
    connector,
    {
      schema: table.schema,
      table: table.table,
      mode: 'full',
      columns: [...primaryKey, ...cursor],
      primaryKey,
      cursorColumn: null,
      state: null,
      optional: cursor,
      signal,
    },
    () => undefined,
  )
}
