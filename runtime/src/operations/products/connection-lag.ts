/** How far the raw tables of a connection are behind their source. */
import type { TenantCall } from '../../flow.ts'
import { backfillsOf } from '../../registry/backfills.ts'
import { type Capture, capture } from '../../registry/captures.ts'
import { databaseNow } from '../../registry/clock.ts'
import type { Connection } from '../../registry/connections.ts'
import { type TableReads, tableReads } from '../../registry/run-progress.ts'
import { type Scheduled, scheduledOf } from '../../registry/schedules.ts'
import { connectionOf } from '../connections/connections.ts'
import { type Following, followingOf } from '../connections/schedules.ts'
import { requireMember } from '../permissions.ts'
import type { ProductsDeps } from './deps.ts'
import { ingestedTables } from './ingested-tables.ts'

export interface Lag {
  readonly connection: Connection
  readonly scheduled: Scheduled
  readonly now: Date
  /** Those that deployed products read, since a sync reads no others; and that are the caller's to know of. */
  readonly tables: readonly (TableReads & {
    /** That it be read whole, which no run has done yet. */
    readonly backfillAskedAt: Date | null
  })[]
  /** Of a connection that is read by the log of its source. */
  readonly capture: Capture | null
  /** Null where its changes are not followed. */
  readonly following: Following | null
}

/** When a table was read is how old a product of it is: told to who may read the table, or such a product. */
export async function lagOf(platform: ProductsDeps, call: TenantCall, reference: string): Promise<Lag> {
  requireMember(call.principal)
  const { pool } = platform
  const connection = await connectionOf(platform, call.tenant, reference)
  const { known } = await ingestedTables(platform, call, connection)
  const scheduled = (await scheduledOf(pool, 'connection', [connection.id])).get(connection.id) as Scheduled
  const asked = new Map((await backfillsOf(pool, connection.id)).map((one) => [one.tableName, one.askedAt]))
  const reads = await tableReads(pool, connection, [...known].toSorted())
  const tables = reads.map((table) => ({ ...table, backfillAskedAt: asked.get(table.name) ?? null }))
  const log = await capture(pool, connection.id)
  const following = await followingOf(pool, scheduled)
  return { connection, scheduled, now: await databaseNow(pool), tables, capture: log, following }
}
