/** What may be changed of tables that have rows: nobody has these to send them again. */
import { SluiceError } from '@sluice/sdk'
import { continues, pushTables } from '../../ingestion/push/settings.ts'
import { qualified } from '../../manifest/context.ts'
import { rawDomain, rawTable } from '../../materializer/inputs.ts'
import type { Connection } from '../../registry/connections.ts'
import { lockPushSpool, pushedTables } from '../../registry/push-spool.ts'
import type { Transaction } from '../../registry/sql.ts'
import type { ConnectionsDeps } from './deps.ts'

/**
 * In the transaction that changes the connection: no rows come meanwhile. Throws CONFLICT `push_table_changed` where a table
 * that has rows would go, or have other columns than more at its end, or another key.
 */
export async function checkPushedTables(
  tx: Transaction,
  { lake }: Pick<ConnectionsDeps, 'lake'>,
  { tenant, id, name, config }: Connection,
  next: unknown,
): Promise<void> {
  await lockPushSpool(tx, { tenant, connectionId: id })
  const later = pushTables(next)
  const waiting = new Set(await pushedTables(tx, id))
  const raw = new Set((await lake.tables(tenant, rawDomain(name))).map(({ table }) => table))
  for (const [tableName, before] of pushTables(config)) {
    if (continues(before, later.get(tableName))) continue
    const full = qualified(tableName)
    if (!waiting.has(full) && !raw.has(rawTable(tenant, name, full).table)) continue
    throw new SluiceError('CONFLICT', `rows of the table ${tableName} came by its former columns and key`, {
      code: 'push_table_changed',
      remedy:
        'Leave its columns and its key as they were, and add columns at the end; or describe a table of another name.',
    })
  }
}
