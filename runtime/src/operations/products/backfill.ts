/** Tables that are read whole again: rows of the source that no read that goes on from its state would find. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import { actorOf } from '../../registry/actor.ts'
import { askBackfill, withdrawBackfills } from '../../registry/backfills.ts'
import type { Connection } from '../../registry/connections.ts'
import { enqueueRun, queuedRunOf, type Run } from '../../registry/runs.ts'
import { audited } from '../audit.ts'
import { connectionOf } from '../connections/connections.ts'
import type { Keep } from '../keep.ts'
import { requireDeveloper } from '../permissions.ts'
import type { ProductsDeps } from './deps.ts'
import { ingestedTables } from './ingested-tables.ts'

/**
 * Queues a run that reads those tables whole, null: all that deployed products read; other tables go on as ever. What is
 * there is served until the new rows are committed. Repeatable: asked for while one is waiting, that one reads them.
 *
 * Throws INVALID_DATA `backfill_unsupported` where there is no source to read, and `table_not_ingested` of a table that no
 * product reads, or none that the caller knows of.
 */
export async function backfillConnection(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  tables: readonly string[] | null,
  keep: Keep<Run>,
): Promise<Run> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  if (connection.connectorType === PUSH_TYPE) throw nothingToRead(connection)
  const { all, known } = await ingestedTables(platform, call, connection)
  const foreign = tables?.find((name) => !known.has(name))
  if (foreign !== undefined || all.size === 0) throw notIngested(connection, foreign ?? null, known)
  const wanted = tables ?? [...all]
  return inTransaction(platform.pool, async (tx) => {
    await askBackfill(tx, connection.id, [...new Set(wanted)].toSorted())
    const target = { tenant: call.tenant, kind: 'ingestion', connectionId: connection.id } as const
    const run =
      (await queuedRunOf(tx, target)) ??
      (await enqueueRun(tx, { ...target, trigger: 'manual', createdBy: actorOf(call.principal) }))
    const about = { run: run.id, ...(tables === null ? {} : { tables }) }
    await audited(tx, call, call.tenant, 'connection.backfill', { type: 'connection', id: connection.id }, about)
    await keep(tx, run)
    return run
  })
}

/** Tables that a run has begun to read whole stay asked for: their log tells of them no more. Repeatable. */
export async function withdrawBackfill(platform: ProductsDeps, call: TenantCall, reference: string): Promise<void> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  await inTransaction(platform.pool, async (tx) => {
    await withdrawBackfills(tx, connection.id)
    await audited(tx, call, call.tenant, 'connection.backfill.withdraw', { type: 'connection', id: connection.id })
  })
}

function nothingToRead({ name }: Connection): SluiceError {
  return new SluiceError('INVALID_DATA', `rows are pushed to ${name}: there is no source that could be read again`, {
    code: 'backfill_unsupported',
    remedy: 'Push the rows once more; rows of a key take the place of its former ones.',
  })
}

function notIngested({ name }: Connection, table: string | null, known: ReadonlySet<string>): SluiceError {
  const names = [...known].toSorted()
  const shown = names.slice(0, 20).join(', ') + (names.length > 20 ? `, and ${names.length - 20} more` : '')
  const what = table === null ? `no deployed product reads from ${name}` : `no deployed product reads ${table}`
  return new SluiceError('INVALID_DATA', what, {
    code: 'table_not_ingested',
    remedy: names.length === 0 ? 'Deploy a product that reads it, then sync.' : `Tables that are read: ${shown}.`,
  })
}
