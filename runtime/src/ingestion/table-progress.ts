/** What a run tells about each of its tables: how far it is, how it was read, and why it failed. */

import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { recordedError } from '../registry/deployments.ts'
import { type RefusedRow, saveQuarantine } from '../registry/quarantine.ts'
import { checkRun } from '../registry/run-claims.ts'
import { saveTableProgress, type TableProgress } from '../registry/run-progress.ts'
import { type IngestionDeps, type IngestionRun, say } from './ingestion-run.ts'
import { TooManyRejected } from './rejected-rows.ts'
import type { ReadMode, SourceTable } from './source-tables.ts'

/** How a table is read, and why. */
export function chosen(table: SourceTable, { mode, reason, cursorColumn, deletes, deletesReason }: ReadMode) {
  return { name: table.name, mode, modeReason: reason, cursor: cursorColumn, deletes, deletesReason }
}

const REPORT_EVERY_MS = 500

/** Progress while rows flow: at most one statement at a time, none of them waited for. */
export function progressReporter(run: IngestionRun, table: SourceTable, mode: ReadMode, deps: IngestionDeps) {
  let lastAt = 0
  let pending: Promise<void> = Promise.resolve()
  const now = (state: TableProgress['state'], rowsRead: number, rowsWritten: number, bytes: number): Promise<void> =>
    saveTableProgress(deps.pool, run.lease, {
      ...chosen(table, mode),
      state,
      rowsRead,
      rowsWritten,
      rowsRejected: 0,
      rowsRemoved: null,
      bytes,
      error: null,
    })
  return {
    now,
    soon(progress: { readonly rows: number; readonly bytes: number }): void {
      if (performance.now() - lastAt < REPORT_EVERY_MS) return
      lastAt = performance.now()
      // A lost lease is found by the commit; a report that fails is no reason to stop.
      pending = pending.then(() => now('running', progress.rows, 0, progress.bytes)).catch(() => undefined)
    },
    settle: () => pending,
  }
}

export async function reportFailure(
  run: IngestionRun,
  name: string,
  error: unknown,
  deps: IngestionDeps,
): Promise<void> {
  const recorded = recordedError(error)
  await saveTableProgress(deps.pool, run.lease, {
    name,
    mode: 'full',
    modeReason: null,
    deletes: null,
    deletesReason: null,
    state: 'failed',
    rowsRead: 0,
    rowsWritten: 0,
    rowsRejected: 0,
    rowsRemoved: null,
    bytes: 0,
    cursor: null,
    error: recorded,
  })
  await say(run, deps, 'error', `${name}: ${recorded.message}`)
  if (error instanceof TooManyRejected) await reportRefused(run, name, error, deps)
}

/** Beside those that are there: the table is as it was, and its rows that are left out are, too. */
async function reportRefused(
  run: IngestionRun,
  name: string,
  { outcome }: TooManyRejected,
  deps: IngestionDeps,
): Promise<void> {
  const { rejected, rowCount, rejectReasons, refused } = outcome
  await inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, run.lease)
    await keepRefused(tx, run, name, { whole: false, rows: refused }, deps)
  })
  await say(run, deps, 'error', `${name}: ${rejected} of ${rejected + rowCount} rows cannot be carried`)
  for (const reason of rejectReasons) await say(run, deps, 'error', `${name}: rejected ${reason}`)
}

/** In the place of those that were kept of the table, where all of it was read. */
export function keepRefused(
  tx: pg.PoolClient,
  { connection, lease }: IngestionRun,
  table: string,
  read: { readonly whole: boolean; readonly rows: readonly RefusedRow[] },
  { masters }: IngestionDeps,
): Promise<void> {
  const place = { tenant: connection.tenant, connectionId: connection.id, table }
  return saveQuarantine(tx, masters, place, { ...read, runId: lease.runId })
}
