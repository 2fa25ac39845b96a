/**
 * What was read of the log of a source while the lake could not be written: pieces, each from where the one before it ends up to a
 * checkpoint. With a piece's commit the source may forget it. The transaction that moves the raw tables removes the piece: it is
 * here or in the lake, never in both and never in none.
 *
 * A piece has parts by table, sealed by the tenant's key for values of rows.
 */
import type { ChangePosition } from '@sluice/sdk'
import { IS_SPOOLED, NO_PIECES, savePosition } from './captures.ts'
import type { MasterKeys } from './master-keys.ts'
import { seal, unseal } from './sealing.ts'
import { change, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { rowsKey } from './tenant-keys.ts'

/** What a run ends with that has done for the log all that can be done without the lake. */
export const LOG_SPOOLED = 'log_spooled'

interface Place {
  readonly tenant: string
  readonly connectionId: string
}

export interface LogPiece {
  readonly number: number
  /** Up to there the source has told. */
  readonly position: ChangePosition
  readonly sourceTime: string | null
  readonly readAt: Date
}

/** Bytes that may be spooled. */
export interface SpoolLimits {
  readonly bytes: number
  /** Of all connections of the installation. */
  readonly allBytes: number
}

export interface TablePart {
  readonly table: string
  readonly part: number
  readonly content: Buffer
}

/** Thrown where a piece has no room; nothing of its transaction stays. */
export class SpoolFull extends Error {}

/**
 * In one transaction with what else is said of the log. `parts` are taken one after the other. Throws `SpoolFull`. Whoever
 * spools has the run of the connection.
 */
export async function spoolPiece(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, connectionId }: Place,
  { position, sourceTime, readAt }: Omit<LogPiece, 'number'>,
  parts: AsyncIterable<TablePart>,
  limits: SpoolLimits,
): Promise<void> {
  await dropUncounted(tx, connectionId)
  const { number } = await one<{ readonly number: number }>(
    tx,
    'spooling a log',
    `insert into log_pieces (connection_id, position, source_time, read_at, bytes) values ($1, $2, $3, $4, 0)
     returning number`,
    [connectionId, position.order, sourceTime, readAt],
  )
  const room = await roomFor(tx, connectionId, limits)
  const key = await rowsKey(tx, masters, tenant)
  let bytes = 0
  for await (const { table, part, content } of parts) {
    const sealed = seal(key, content, contextOf(tenant, connectionId, number, table, part))
    bytes += sealed.length
    if (bytes > room) throw new SpoolFull()
    await change(
      tx,
      'spooling a log',
      'insert into log_parts (connection_id, number, table_name, part, sealed) values ($1, $2, $3, $4, $5)',
      [connectionId, number, table, part, sealed],
    )
  }
  const statement = 'update log_pieces set bytes = $3 where connection_id = $1 and number = $2'
  await change(tx, 'spooling a log', statement, [connectionId, number, bytes])
  // Of two that spool at once, the second sees what the first has written.
  await one(tx, 'counting what is spooled', `select pg_advisory_xact_lock(hashtextextended('spool of logs', 0))::text`)
  if (bytes > (await roomFor(tx, connectionId, limits))) throw new SpoolFull()
  await change(
    tx,
    'spooling a log',
    `update captures set spooled_generation = generation, spooled_after = position, spooled_position = $2,
       spooled_pieces = spooled_pieces + 1, spooled_bytes = spooled_bytes + $3,
       spooled_since = coalesce(spooled_since, clock_timestamp()), spool_full_at = null,
       source_time = coalesce($4, source_time), positioned_at = clock_timestamp() where connection_id = $1`,
    [connectionId, position.order, bytes, sourceTime],
  )
}

const contextOf = (tenant: string, connectionId: string, number: number, table: string, part: number) =>
  ['log', tenant, connectionId, number, table, part] as const

/** The log had nothing of ours up to there. */
export async function passSpooled(
  tx: Transaction,
  connectionId: string,
  position: ChangePosition,
  sourceTime: string | null,
): Promise<void> {
  await dropUncounted(tx, connectionId)
  const moved = await change(
    tx,
    'spooling a log',
    `update captures set spooled_position = $2, source_time = coalesce($3, source_time), positioned_at = clock_timestamp()
     where connection_id = $1 and ${IS_SPOOLED}`,
    [connectionId, position.order, sourceTime],
  )
  if (moved === 0) return savePosition(tx, connectionId, position, sourceTime)
  const newest = 'number = (select max(number) from log_pieces where connection_id = $1)'
  const statement = `update log_pieces set position = $2 where connection_id = $1 and ${newest}`
  await change(tx, 'spooling a log', statement, [connectionId, position.order])
}

/** Pieces that a release which knows nothing of them has passed. */
async function dropUncounted(tx: Transaction, connectionId: string): Promise<void> {
  const statement = `update captures set ${NO_PIECES} where connection_id = $1 and spooled_pieces > 0 and ${IS_SPOOLED} is not true`
  if ((await change(tx, 'looking at what is spooled', statement, [connectionId])) > 0)
    await change(tx, 'looking at what is spooled', 'delete from log_pieces where connection_id = $1', [connectionId])
}

async function roomFor(db: Queryable, connectionId: string, { bytes, allBytes }: SpoolLimits): Promise<number> {
  const used = await one<{ readonly own: number; readonly all: number }>(
    db,
    'counting what is spooled',
    `select coalesce(sum(spooled_bytes) filter (where connection_id = $1), 0)::bigint as own,
       coalesce(sum(spooled_bytes), 0)::bigint as all from captures`,
    [connectionId],
  )
  return Math.min(bytes - used.own, allBytes - used.all)
}

/** Nothing more is taken up until the lake has taken some. */
export async function noteSpoolFull(db: Queryable, connectionId: string): Promise<void> {
  const statement =
    'update captures set spool_full_at = coalesce(spool_full_at, clock_timestamp()) where connection_id = $1'
  await change(db, 'noting that a spool is full', statement, [connectionId])
}

/** The piece that comes next; null: nothing is spooled that counts. */
export async function oldestPiece(db: Queryable, connectionId: string): Promise<LogPiece | null> {
  const row = await maybeOne<
    Omit<LogPiece, 'position' | 'sourceTime'> & {
      readonly lineage: string
      readonly order: string
      readonly sourceTime: Date | null
    }
  >(
    db,
    'looking for what is spooled',
    `select p.number, c.lineage, p.position as "order", p.source_time as "sourceTime", p.read_at as "readAt"
     from captures c join log_pieces p using (connection_id)
     where connection_id = $1 and spooled_generation = generation and spooled_after = c.position order by number limit 1`,
    [connectionId],
  )
  if (row === null) return null
  const { number, lineage, order, sourceTime, readAt } = row
  return { number, position: { lineage, order }, sourceTime: sourceTime?.toISOString() ?? null, readAt }
}

export async function tablesOfPiece(db: Queryable, connectionId: string, number: number): Promise<readonly string[]> {
  const { names } = await one<{ readonly names: readonly string[] }>(
    db,
    'reading what is spooled',
    `select coalesce(array_agg(distinct table_name), '{}') as names from log_parts where connection_id = $1 and number = $2`,
    [connectionId, number],
  )
  return names
}

/** Of one table, in order, one at a time. */
export async function* partsOfPiece(
  db: Queryable,
  masters: MasterKeys,
  { tenant, connectionId }: Place,
  number: number,
  table: string,
): AsyncGenerator<Buffer> {
  const key = await rowsKey(db, masters, tenant)
  for (let part = 0; ; part += 1) {
    const row = await maybeOne<{ readonly sealed: Buffer }>(
      db,
      'reading what is spooled',
      'select sealed from log_parts where connection_id = $1 and number = $2 and table_name = $3 and part = $4',
      [connectionId, number, table, part],
    )
    if (row === null) return
    yield unseal(key, row.sealed, contextOf(tenant, connectionId, number, table, part))
  }
}

/** In the transaction that commits it to the lake. False: it is not the next one any more. */
export async function takenPiece(
  tx: Transaction,
  connectionId: string,
  { number, position }: LogPiece,
): Promise<boolean> {
  await change(tx, 'removing what the lake has', 'select from captures where connection_id = $1 for update', [
    connectionId,
  ])
  if ((await oldestPiece(tx, connectionId))?.number !== number) return false
  const { bytes } = await one<{ readonly bytes: number }>(
    tx,
    'removing what the lake has',
    'delete from log_pieces where connection_id = $1 and number = $2 returning bytes',
    [connectionId, number],
  )
  await change(
    tx,
    'removing what the lake has',
    `update captures set position = $2, spooled_after = $2, spooled_pieces = spooled_pieces - 1,
       spooled_bytes = spooled_bytes - $3, spool_full_at = null where connection_id = $1`,
    [connectionId, position.order, bytes],
  )
  await change(
    tx,
    'removing what the lake has',
    `update captures c set spooled_since = (select min(spooled_at) from log_pieces p where p.connection_id = c.connection_id)
     where connection_id = $1`,
    [connectionId],
  )
  const statement = `update captures set ${NO_PIECES} where connection_id = $1 and spooled_pieces = 0`
  await change(tx, 'removing what the lake has', statement, [connectionId])
  return true
}

/** Whatever is spooled of one table goes; whether there was some. The table is to be read whole afterwards. */
export async function eraseSpooled(tx: Transaction, connectionId: string, table: string): Promise<boolean> {
  const { bytes } = await one<{ readonly bytes: number | null }>(
    tx,
    'erasing what is spooled',
    `with gone as (
       delete from log_parts where connection_id = $1 and table_name = $2 returning number, octet_length(sealed) as bytes),
     by_piece as (select number, sum(bytes) as bytes from gone group by number),
     counted as (update log_pieces p set bytes = p.bytes - g.bytes from by_piece g where p.connection_id = $1 and p.number = g.number)
     select sum(bytes)::bigint as bytes from gone`,
    [connectionId, table],
  )
  if (bytes === null) return false
  const statement = 'update captures set spooled_bytes = spooled_bytes - $2 where connection_id = $1'
  await change(tx, 'erasing what is spooled', statement, [connectionId, bytes])
  return true
}

export interface SpoolLoad {
  readonly bytes: number
  readonly pieces: number
  /** Of the oldest piece; 0 where there is none. */
  readonly ageSeconds: number
  /** Connections whose spool has no room for more. */
  readonly full: number
}

/** Of all connections together. */
export function spoolLoad(db: Queryable): Promise<SpoolLoad> {
  return one<SpoolLoad>(
    db,
    'reading what is spooled',
    `select coalesce(sum(spooled_bytes), 0)::bigint as bytes, coalesce(sum(spooled_pieces), 0)::bigint as pieces,
       coalesce(extract(epoch from clock_timestamp() - min(spooled_since)), 0)::float8 as "ageSeconds",
       count(*) filter (where spool_full_at is not null) as full from captures`,
  )
}
