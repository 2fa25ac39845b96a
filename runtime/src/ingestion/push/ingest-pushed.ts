/**
 * Rows that were pushed, from the registry into the raw tables: folded to the last state of each key, merged, and gone from the
 * registry in the transaction that moves the table's pointer. So whatever dies, a row is in one of the two, and in one alone.
 * A table that cannot take its rows keeps them waiting, and holds up no other.
 */
import { rm } from 'node:fs/promises'
import type { StorageRoom } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { newTenantScratch } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import { expiredByCommit } from '../../materializer/expirable-snapshots.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { databaseNow } from '../../registry/clock.ts'
import { type Connection, checkSource, findConnection, sourceMark } from '../../registry/connections.ts'
import { fenced } from '../../registry/fences.ts'
import { forgetPushes, newestPush, pushedEvents } from '../../registry/push-spool.ts'
import { checkRun } from '../../registry/run-claims.ts'
import { saveTableProgress, tableProgress } from '../../registry/run-progress.ts'
import { type AppliedTable, applyLog } from '../apply-log.ts'
import { ChangeSpool, type SpooledTable } from '../change-spool.ts'
import type { LogHooks } from '../ingest-log.ts'
import type { IngestionDeps, IngestionRun } from '../ingestion-run.ts'
import { takesIncrements } from '../load-table.ts'
import { type SourceTable, tableNotFound } from '../source-tables.ts'
import { readChanges } from './changes.ts'
import { type PushTable, pushTables } from './settings.ts'

/** Rows are committed when they have come to so much, and what is left in the next transaction. */
const PIECE_BYTES = 64 * 1024 * 1024

/** Tables that failed, with why. */
export async function ingestPushed(
  run: IngestionRun,
  tables: readonly SourceTable[],
  hooks: Pick<LogHooks, 'fail' | 'say'>,
  deps: IngestionDeps,
): Promise<ReadonlyMap<string, unknown>> {
  const failures = new Map<string, unknown>()
  const upTo = await newestPush(deps.pool, run.connection.id)
  // Read after the number: rows up to it have come by these settings, or by former ones.
  const connection = await findConnection(deps.pool, run.connection.tenant, run.connection.id)
  if (connection === null) return failures
  const declared = new Map([...pushTables(connection.config).values()].map((table) => [qualified(table.name), table]))
  for (const table of tables) {
    try {
      const settings = declared.get(table.name)
      if (settings === undefined) throw tableNotFound(table.name)
      await ingestTable({ run, connection, table, settings, upTo, hooks, deps, startedMs: performance.now() })
    } catch (error) {
      run.signal.throwIfAborted()
      if (isSluiceError(error, 'FENCED')) throw error
      failures.set(table.name, error)
      await hooks.fail(table.name, error)
    }
  }
  return failures
}

interface Taking {
  readonly run: IngestionRun
  readonly connection: Connection
  readonly table: SourceTable
  readonly settings: PushTable
  /** Newer rows are the next run's. */
  readonly upTo: number
  readonly hooks: Pick<LogHooks, 'fail' | 'say'>
  readonly deps: IngestionDeps
  readonly startedMs: number
}

async function ingestTable(taking: Taking): Promise<void> {
  const { run, table, hooks, deps, startedMs } = taking
  for (;;) {
    const dir = await newTenantScratch(deps.scratchDirectory, run.connection.tenant, 'pushed-')
    try {
      const piece = await nextPiece(taking, dir)
      await deps.faultPoint('push.spooled')
      const { changes } = await commitPiece(taking, piece)
      await deps.faultPoint('push.committed')
      if (changes !== '') await hooks.say('warn', `${table.name}: its columns have changed: ${changes}`)
      if (piece.isLast) return
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
    if (performance.now() - startedMs > deps.limits.timeoutMs) {
      await hooks.say('info', `${table.name}: what is left of the rows comes with the next run`)
      return
    }
  }
}

interface Piece {
  readonly spooled: SpooledTable
  /** Of the newest request among these; 0 where there is none. */
  readonly last: number
  readonly requests: number
  readonly isLast: boolean
  readonly readAt: Date
  /** What the tenant might still store when it was begun. */
  readonly room: StorageRoom
}

async function nextPiece({ run, connection, table, settings, upTo, deps }: Taking, dir: string): Promise<Piece> {
  const { id: connectionId, tenant } = connection
  const { schema, table: name } = table
  const readAt = await databaseNow(deps.pool)
  const streams = [{ schema, table: name, primaryKey: settings.primaryKey }]
  const room = await deps.checkStorage(tenant)
  const spool = new ChangeSpool(dir, streams, room)
  const schemaOf = (columns: PushTable['columns']) => ({ columns, primaryKey: settings.primaryKey })
  let last = 0
  let requests = 0
  let isLast = true
  const place = { tenant, connectionId, table: table.name }
  for await (const event of pushedEvents(deps.pool, deps.masters, place, { after: 0, upTo })) {
    run.signal.throwIfAborted()
    const { columns, chunk } = readChanges(event.changes)
    await spool.take({ kind: 'schema', stream: 0, schema: schemaOf(columns) })
    await spool.take({ kind: 'rows', stream: 0, chunk, rows: event.rows })
    last = event.sequence
    requests += 1
    if (spool.bytes < PIECE_BYTES) continue
    isLast = false
    break
  }
  // Columns that no row has yet are the table's, too, whichever rows these are.
  await spool.take({ kind: 'schema', stream: 0, schema: schemaOf(settings.columns) })
  await spool.flush()
  return { spooled: spool.table(0), last, requests, isLast, readAt, room }
}

async function commitPiece(taking: Taking, piece: Piece): Promise<AppliedTable> {
  const { run, connection, table, settings, deps } = taking
  const { lease, signal } = run
  const ref = rawTable(connection.tenant, connection.name, table.name)
  const found = await deps.lake.load(ref, { signal })
  const base = found?.snapshotId == null ? null : found
  if (base !== null && !takesIncrements(base, settings.primaryKey)) throw otherKey(table.name)
  const applied = await applyLog(
    {
      ref,
      base,
      table: piece.spooled,
      primaryKey: settings.primaryKey,
      isFresh: false,
      runId: lease.runId,
      moment: null,
      readAt: piece.readAt,
      source: sourceMark(connection),
      expired: await expiredByCommit(deps.pool, null, deps.lake, base),
      limits: { ...deps.limits, room: piece.room },
      signal,
    },
    deps.lake,
  )
  await deps.faultPoint('push.applied')
  const former = (await tableProgress(deps.pool, lease.runId)).find(({ name }) => name === table.name)
  const { commit, counts } = applied
  await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, lease)
      await checkSource(tx, connection)
      await deps.lake.publish(registryCatalog(tx), commit === null ? [] : [commit])
      const place = { tenant: connection.tenant, connectionId: connection.id, table: table.name }
      // What another has taken meanwhile is in the table already.
      if ((await forgetPushes(tx, place, piece.last)) !== piece.requests) throw fenced()
      await saveTableProgress(tx, lease, {
        ...{ name: table.name, mode: 'cdc', modeReason: 'its rows are pushed', cursor: null },
        ...{ deletes: 'log', deletesReason: null, state: 'succeeded', error: null },
        rowsRead: (former?.rowsRead ?? 0) + piece.spooled.rows,
        rowsWritten: (former?.rowsWritten ?? 0) + counts.changed,
        rowsRejected: 0,
        rowsRemoved: (former?.rowsRemoved ?? 0) + counts.gone,
        bytes: (former?.bytes ?? 0) + piece.spooled.bytes,
        readAt: piece.readAt,
      })
    },
    { signal },
  )
  return applied
}

function otherKey(name: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${name}: the raw table has rows of another primary key`, {
    code: 'push_table_changed',
    remedy: 'Give the table its former primary_key in the connection, or describe one of another name.',
  })
}
