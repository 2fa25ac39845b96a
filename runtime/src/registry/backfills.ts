/** Tables of a connection that are to be read whole again, whatever is known of where a read could go on. */
import { change, many, type Queryable, type Transaction } from './sql.ts'

export interface Backfill {
  /** `schema.table` */
  readonly tableName: string
  readonly askedAt: Date
  /** Of this asking: asked for once more, it has another. */
  readonly stamp: string
}

/** Repeatable: asked for once more, it is as of now. */
export async function askBackfill(tx: Transaction, connectionId: string, tables: readonly string[]): Promise<void> {
  await change(
    tx,
    'noting tables to read whole',
    `insert into backfills (connection_id, table_name) select $1, unnest($2::text[])
     on conflict (connection_id, table_name) do update set asked_at = clock_timestamp()`,
    [connectionId, tables],
  )
}

/** Those tables are read by the log of their source, which leaves them out from here on. */
export async function beginBackfills(tx: Transaction, connectionId: string, tables: readonly string[]): Promise<void> {
  await change(
    tx,
    'beginning to read tables whole',
    'update backfills set is_begun = true where connection_id = $1 and table_name = any ($2) and not is_begun',
    [connectionId, tables],
  )
}

/** What was asked for is asked for no more, but for what has begun. */
export async function withdrawBackfills(tx: Transaction, connectionId: string): Promise<void> {
  await change(
    tx,
    'taking back what was asked for',
    'delete from backfills where connection_id = $1 and not is_begun',
    [connectionId],
  )
}

export function backfillsOf(db: Queryable, connectionId: string): Promise<Backfill[]> {
  return many<Backfill>(
    db,
    'reading which tables to read whole',
    `select table_name as "tableName", asked_at as "askedAt", asked_at::text as stamp from backfills
     where connection_id = $1 order by table_name`,
    [connectionId],
  )
}

/** In the transaction that commits the rows. One that was asked for since stays. */
export async function endBackfill(
  tx: Transaction,
  connectionId: string,
  { tableName, stamp }: Pick<Backfill, 'tableName' | 'stamp'>,
): Promise<void> {
  await change(
    tx,
    'noting that a table was read whole',
    'delete from backfills where connection_id = $1 and table_name = $2 and asked_at = $3::timestamptz',
    [connectionId, tableName, stamp],
  )
}
