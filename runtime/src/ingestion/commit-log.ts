/** A piece of a log into all its tables, in one transaction with the position that it reaches. */
import type { StorageRoom } from '@sluice/engine'
import type { StagedCommit } from '@sluice/iceberg'
import type { ChangePosition, DiscoveredTable } from '@sluice/sdk'
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { expiredByCommit } from '../materializer/expirable-snapshots.ts'
import { rawTable } from '../materializer/inputs.ts'
import { captureStreams, forgetStreams, savePosition, settleStreams } from '../registry/captures.ts'
import { checkSource, sourceMark } from '../registry/connections.ts'
import { fenced } from '../registry/fences.ts'
import { type LogPiece, takenPiece } from '../registry/log-spool.ts'
import { saveQuarantine } from '../registry/quarantine.ts'
import { checkRun } from '../registry/run-claims.ts'
import { saveTableProgress, tableProgress } from '../registry/run-progress.ts'
import { type AppliedTable, applyLog } from './apply-log.ts'
import type { SpooledTable } from './change-spool.ts'
import type { IngestionDeps, IngestionRun } from './ingestion-run.ts'
import { atLake } from './lake-away.ts'
import type { ReadMode, SourceTable } from './source-tables.ts'
import { tells } from './spooled-piece.ts'

export interface LogTable {
  readonly table: SourceTable
  readonly mode: ReadMode
  readonly description: DiscoveredTable
  /** Its rows may lack values, and say so. */
  readonly marks: boolean
}

export interface Piece {
  readonly tables: readonly (LogTable & { readonly spooled: SpooledTable })[]
  readonly position: ChangePosition
  readonly sourceTime: string | null
  /** It reaches where the log stood when it was asked for. */
  readonly isLast: boolean
  readonly readAt: Date
  /** What the tenant might still store when it was begun: none of its tables is published before the others. */
  readonly room: StorageRoom
  /** It comes from the registry, and the source has forgotten it; null: it comes from the source. */
  readonly spooled: LogPiece | null
}

interface Left {
  readonly failed: ReadonlyMap<string, unknown>
  readonly notes: readonly string[]
}

/** Tables that are to be read whole are added to `again`; those that failed are, too, by the next run. */
export async function commitPiece(
  run: IngestionRun,
  piece: Piece,
  state: { readonly moment: string; readonly failures: ReadonlyMap<string, unknown>; readonly again: Set<string> },
  deps: IngestionDeps,
): Promise<Left> {
  const { connection, lease, signal } = run
  const settled = new Map((await captureStreams(deps.pool, connection.id)).map((one) => [one.tableName, one.settled]))
  const failed = new Map<string, unknown>()
  const notes: string[] = []
  const applied = new Map<string, AppliedTable>()
  for (const one of piece.tables) {
    const { name } = one.table
    if (state.failures.has(name) || state.again.has(name) || !tells(one.spooled)) continue
    try {
      const result = one.spooled.mustReread
        ? null
        : await atLake(signal, () => apply(run, one, piece, { ...state, settled }, deps))
      if (result === null || result.counts.unknown > 0) state.again.add(name)
      else applied.set(name, result)
    } catch (error) {
      signal.throwIfAborted()
      if (!isSluiceError(error, 'INVALID_DATA')) throw error
      failed.set(name, error)
    }
  }
  await deps.faultPoint('log.applied')
  const before = new Map((await tableProgress(deps.pool, lease.runId)).map((one) => [one.name, one]))
  await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, lease)
      await checkSource(tx, connection)
      const commits = [...applied.values()].map(({ commit }) => commit)
      await deps.lake.publish(
        registryCatalog(tx),
        commits.filter((commit): commit is StagedCommit => commit !== null),
      )
      for (const { table, mode, spooled } of piece.tables) {
        if (state.failures.has(table.name) || failed.has(table.name) || state.again.has(table.name)) continue
        const counts = applied.get(table.name)?.counts
        const place = { tenant: connection.tenant, connectionId: connection.id, table: table.name }
        const read = { runId: lease.runId, whole: spooled.isTruncated, rows: spooled.refused }
        if (tells(spooled)) await saveQuarantine(tx, deps.masters, place, read)
        const former = before.get(table.name)
        await saveTableProgress(tx, lease, {
          name: table.name,
          mode: 'cdc',
          modeReason: mode.reason,
          cursor: null,
          deletes: mode.deletes,
          deletesReason: null,
          state: 'succeeded',
          rowsRead: (former?.rowsRead ?? 0) + spooled.rows + spooled.rejected,
          rowsWritten: (former?.rowsWritten ?? 0) + (counts?.changed ?? 0),
          rowsRejected: (former?.rowsRejected ?? 0) + spooled.rejected,
          rowsRemoved: (former?.rowsRemoved ?? 0) + (counts?.gone ?? 0),
          bytes: (former?.bytes ?? 0) + spooled.bytes,
          error: null,
          readAt: piece.readAt,
        })
      }
      await forgetStreams(tx, connection.id, [...failed.keys(), ...state.again])
      if (piece.spooled === null) await savePosition(tx, connection.id, piece.position, piece.sourceTime)
      // Another has taken it meanwhile.
      else if (!(await takenPiece(tx, connection.id, piece.spooled))) throw fenced()
      if (piece.isLast) await settleStreams(tx, connection.id)
    },
    { signal },
  )
  for (const { table, spooled } of piece.tables) notes.push(...notesOf(table.name, spooled, applied.get(table.name)))
  return { failed, notes }
}

async function apply(
  run: IngestionRun,
  { table, mode, spooled }: Piece['tables'][number],
  { readAt, room }: Piece,
  { moment, settled }: { readonly moment: string; readonly settled: ReadonlyMap<string, boolean> },
  deps: IngestionDeps,
): Promise<AppliedTable | null> {
  const { connection, lease, signal } = run
  const ref = rawTable(connection.tenant, connection.name, table.name)
  const base = await deps.lake.load(ref, { signal })
  if (base === null || !settled.has(table.name)) return null
  return applyLog(
    {
      ref,
      base,
      table: spooled,
      primaryKey: mode.primaryKey,
      isFresh: settled.get(table.name) !== true,
      runId: lease.runId,
      moment,
      readAt,
      source: sourceMark(connection),
      expired: await expiredByCommit(deps.pool, null, deps.lake, base),
      limits: { ...deps.limits, room },
      signal,
    },
    deps.lake,
  )
}

function notesOf(
  name: string,
  { rejected, reasons, withoutValue }: SpooledTable,
  applied: AppliedTable | undefined,
): string[] {
  const changes = applied?.changes ? [`${name}: its columns have changed in the source: ${applied.changes}`] : []
  const lacking = [...withoutValue].map(
    ([column, values]) =>
      `${name}: ${values} changed rows came without ${column}, and are left out of products that use it`,
  )
  if (rejected === 0) return [...changes, ...lacking]
  const lost = `${name}: ${rejected} changed rows could not be carried, and are gone from the table`
  return [...changes, ...lacking, lost, ...reasons.map((reason) => `${name}: rejected ${reason}`)]
}
