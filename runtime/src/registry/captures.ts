/** How far the log of a connection's source was read, and which tables it tells. Written with what was applied. */
import { createHash } from 'node:crypto'
import type { ChangeHealth, ChangePosition } from '@sluice/sdk'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

export interface Capture {
  readonly connectionId: string
  readonly tenant: string
  /** What the source calls it. */
  readonly name: string
  readonly generation: number
  /**
   * Up to where it is in the lake or spooled: what the source may forget. Null: the log is to be begun anew, and all tables to
   * be read whole.
   */
  readonly position: ChangePosition | null
  readonly spool: SpooledLog
  readonly sourceTime: Date | null
  readonly positionedAt: Date | null
  readonly lostReason: string | null
  readonly lostAt: Date | null
  readonly health: CaptureHealth | null
}

/** What was read of it and is not in the lake yet: see `log-spool.ts`. */
export interface SpooledLog {
  readonly pieces: number
  /** Compressed and sealed. */
  readonly bytes: number
  readonly since: Date | null
  /** Since when there is no room for more. */
  readonly fullAt: Date | null
}

export interface CaptureHealth {
  readonly state: ChangeHealth['state'] | 'unreachable' | 'released'
  readonly retainedBytes: number | null
  readonly limitBytes: number | null
  readonly message: string
  readonly remedy: string | null
  readonly checkedAt: Date
}

export interface CaptureStream {
  readonly tableName: string
  readonly primaryKey: readonly string[]
  /** Of the table when it was read whole; null where the connector tells none. */
  readonly incarnation: string | null
  /** The log has passed all that the read of the table has seen. */
  readonly settled: boolean
}

interface CaptureRow extends Omit<Capture, 'position' | 'health' | 'spool'> {
  readonly lineage: string | null
  readonly order: string | null
  readonly healthState: CaptureHealth['state'] | null
  readonly retainedBytes: number | null
  readonly limitBytes: number | null
  readonly message: string | null
  readonly remedy: string | null
  readonly checkedAt: Date | null
  readonly pieces: number
  readonly bytes: number
  readonly since: Date | null
  readonly fullAt: Date | null
}

/** Whether pieces go on from what the lake has. */
export const IS_SPOOLED = `(spooled_generation = generation and spooled_after = position)`
const IF_SPOOLED = `case when ${IS_SPOOLED} then`

const COLUMNS = `connection_id as "connectionId", tenant, name, generation, lineage,
  ${IF_SPOOLED} spooled_position else position end as "order",
  ${IF_SPOOLED} spooled_pieces else 0 end as pieces, ${IF_SPOOLED} spooled_bytes else 0 end as bytes,
  ${IF_SPOOLED} spooled_since end as since, spool_full_at as "fullAt",
  source_time as "sourceTime", positioned_at as "positionedAt", lost_reason as "lostReason", lost_at as "lostAt",
  health as "healthState", retained_bytes as "retainedBytes", limit_bytes as "limitBytes", health_message as message,
  health_remedy as remedy, checked_at as "checkedAt"`

function captureOf(row: CaptureRow): Capture {
  const { lineage, order, healthState, retainedBytes, limitBytes, message, remedy, checkedAt, ...rest } = row
  const { pieces, bytes, since, fullAt, ...capture } = rest
  const health =
    healthState === null || checkedAt === null
      ? null
      : { state: healthState, retainedBytes, limitBytes, message: message ?? '', remedy, checkedAt }
  const position = lineage === null || order === null ? null : { lineage, order }
  return { ...capture, position, spool: { pieces, bytes, since, fullAt }, health }
}

/** Of one connection of one installation: its id is no other's. */
export function captureName(connectionId: string): string {
  return `sluice_${createHash('sha256').update(connectionId).digest('hex').slice(0, 24)}`
}

export async function capture(db: Queryable, connectionId: string): Promise<Capture | null> {
  const statement = `select ${COLUMNS} from captures where connection_id = $1`
  const row = await maybeOne<CaptureRow>(db, 'reading the capture', statement, [connectionId])
  return row && captureOf(row)
}

/** As it is, or a new one. */
export async function ensureCapture(
  tx: Transaction,
  { id, tenant }: { readonly id: string; readonly tenant: string },
): Promise<Capture> {
  const row = await one<CaptureRow>(
    tx,
    'noting the capture',
    `insert into captures (connection_id, tenant, name) values ($1, $2, $3)
     on conflict (connection_id) do update set name = excluded.name returning ${COLUMNS}`,
    [id, tenant, captureName(id)],
  )
  return captureOf(row)
}

/**
 * Up to there the lake has all. Nothing is moved where pieces are spooled: see `takenPiece`. Pieces that count no more, since a
 * release which knows nothing of them has passed them, go.
 */
export async function savePosition(
  tx: Transaction,
  connectionId: string,
  position: ChangePosition,
  sourceTime: string | null = null,
): Promise<void> {
  await change(
    tx,
    'keeping the position in the log',
    `with uncounted as (
       delete from log_pieces where connection_id = (select connection_id from captures where connection_id = $1 and ${IS_SPOOLED} is not true))
     update captures set lineage = $2, position = $3, source_time = coalesce($4, source_time),
       positioned_at = clock_timestamp(), spool_full_at = null, ${NO_PIECES}
     where connection_id = $1 and ${IS_SPOOLED} is not true`,
    [connectionId, position.lineage, position.order, sourceTime],
  )
}

export const NO_PIECES = `spooled_generation = null, spooled_after = null, spooled_position = null, spooled_pieces = 0,
  spooled_bytes = 0, spooled_since = null`

/** All tables are read whole, after the log was begun anew. */
export async function beginGeneration(tx: Transaction, connectionId: string, reason: string): Promise<void> {
  await change(tx, 'beginning a log anew', 'delete from capture_streams where connection_id = $1', [connectionId])
  await change(tx, 'beginning a log anew', 'delete from log_pieces where connection_id = $1', [connectionId])
  await change(
    tx,
    'beginning a log anew',
    `update captures set lineage = null, position = null, generation = generation + 1, lost_reason = $2,
       lost_at = clock_timestamp(), spool_full_at = null, ${NO_PIECES} where connection_id = $1`,
    [connectionId, reason],
  )
}

export async function captureStreams(db: Queryable, connectionId: string): Promise<readonly CaptureStream[]> {
  return many<CaptureStream>(
    db,
    'reading the tables of the capture',
    `select table_name as "tableName", primary_key as "primaryKey", incarnation, settled from capture_streams where connection_id = $1
     order by table_name`,
    [connectionId],
  )
}

export async function saveStream(
  tx: Transaction,
  connectionId: string,
  stream: Omit<CaptureStream, 'settled'> & { readonly position: ChangePosition },
): Promise<void> {
  const { tableName, primaryKey, incarnation, position } = stream
  await change(
    tx,
    'noting a table of the capture',
    `insert into capture_streams (connection_id, table_name, primary_key, incarnation, lineage, position)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (connection_id, table_name) do update set primary_key = excluded.primary_key,
       incarnation = excluded.incarnation, lineage = excluded.lineage, position = excluded.position, settled = false,
       read_at = clock_timestamp()`,
    [connectionId, tableName, json(primaryKey), incarnation, position.lineage, position.order],
  )
}

/** The log has passed all that reads of these tables have seen. */
export async function settleStreams(tx: Transaction, connectionId: string): Promise<void> {
  const statement = 'update capture_streams set settled = true where connection_id = $1 and not settled'
  await change(tx, 'noting that the log has passed a read', statement, [connectionId])
}

/** These are read whole before the log is applied to them again. */
export async function forgetStreams(tx: Queryable, connectionId: string, names: readonly string[]): Promise<void> {
  const statement = 'delete from capture_streams where connection_id = $1 and table_name = any ($2)'
  if (names.length > 0) await change(tx, 'forgetting tables of the capture', statement, [connectionId, names])
}

/** Tables of the connection whose rows are of several moments until the log has passed. */
export async function unsettledTables(db: Queryable, connectionId: string): Promise<ReadonlySet<string>> {
  const rows = await many<{ readonly name: string }>(
    db,
    'reading the tables of the capture',
    `select table_name as name from capture_streams where connection_id = $1 and not settled
     union select table_name from backfills where connection_id = $1 and is_begun`,
    [connectionId],
  )
  return new Set(rows.map(({ name }) => name))
}

export async function saveHealth(
  db: Queryable,
  connectionId: string,
  health: Omit<CaptureHealth, 'checkedAt' | 'remedy'> & { readonly remedy?: string | null },
): Promise<void> {
  await change(
    db,
    'noting how a log is kept',
    `update captures set health = $2, retained_bytes = $3, limit_bytes = $4, health_message = $5, health_remedy = $6,
       checked_at = clock_timestamp() where connection_id = $1`,
    [connectionId, health.state, health.retainedBytes, health.limitBytes, health.message, health.remedy ?? null],
  )
}

export async function forgetCapture(tx: Queryable, connectionId: string): Promise<void> {
  await change(tx, 'forgetting the capture', 'delete from captures where connection_id = $1', [connectionId])
}

/** Not looked at for so long, the longest first. */
export async function capturesToCheck(db: Queryable, olderMs: number, limit: number): Promise<readonly Capture[]> {
  const rows = await many<CaptureRow>(
    db,
    'looking for captures',
    `select ${COLUMNS} from captures c where (checked_at is null or checked_at < clock_timestamp() - make_interval(secs => $1::float8 / 1000))
       and exists (select from tenants t where t.slug = c.tenant and t.status = 'active')
       and not exists (select from runs r where r.connection_id = c.connection_id and r.state = 'running')
     order by checked_at nulls first limit $2`,
    [olderMs, limit],
  )
  return rows.map(captureOf)
}

/** A capture to be given up at a source whose connection has gone, or leads elsewhere. */
export interface CaptureRelease {
  readonly name: string
  readonly tenant: string
  readonly connectionName: string
  readonly connectorType: string
  /** Sealed, for the connector alone. */
  readonly sealed: Buffer
  readonly attempts: number
}

const RELEASE_COLUMNS =
  'name, tenant, connection_name as "connectionName", connector_type as "connectorType", sealed, attempts'

export async function askForRelease(tx: Transaction, release: Omit<CaptureRelease, 'attempts'>): Promise<void> {
  const { name, tenant, connectionName, connectorType, sealed } = release
  await change(
    tx,
    'noting a capture to give up',
    `insert into capture_releases (name, tenant, connection_name, connector_type, sealed) values ($1, $2, $3, $4, $5)
     on conflict (name) do update set sealed = excluded.sealed, attempts = 0`,
    [name, tenant, connectionName, connectorType, sealed],
  )
}

export function releasesOfTenant(db: Queryable, tenant: string): Promise<readonly CaptureRelease[]> {
  const statement = `select ${RELEASE_COLUMNS} from capture_releases where tenant = $1 order by name`
  return many<CaptureRelease>(db, 'looking for captures to give up', statement, [tenant])
}

/** Those that were tried least first. */
export function capturesToRelease(db: Queryable, limit: number): Promise<readonly CaptureRelease[]> {
  return many<CaptureRelease>(
    db,
    'looking for captures to give up',
    `select ${RELEASE_COLUMNS} from capture_releases order by attempts, created_at limit $1`,
    [limit],
  )
}

/** Null: it was given up. */
export async function noteRelease(db: Queryable, name: string, errorCode: string | null): Promise<void> {
  const statement =
    errorCode === null
      ? 'delete from capture_releases where name = $1 and $2::text is null'
      : 'update capture_releases set attempts = attempts + 1, error_code = $2 where name = $1'
  await change(db, 'giving up a capture', statement, [name, errorCode])
}

export async function capturesOfTenant(db: Queryable, tenant: string): Promise<readonly Capture[]> {
  const statement = `select ${COLUMNS} from captures where tenant = $1 order by connection_id`
  return (await many<CaptureRow>(db, 'reading captures', statement, [tenant])).map(captureOf)
}

/** Of these connections those that have one. */
export async function capturesOf(
  db: Queryable,
  connectionIds: readonly string[],
): Promise<ReadonlyMap<string, Capture>> {
  const statement = `select ${COLUMNS} from captures where connection_id = any ($1)`
  const rows = await many<CaptureRow>(db, 'reading captures', statement, [connectionIds])
  return new Map(rows.map((row) => [row.connectionId, captureOf(row)]))
}

/** `unknown`: not looked at yet; `unreleased`: to be given up, and not yet. */
export const CAPTURE_STATES = ['ok', 'at_risk', 'lost', 'unreachable', 'released', 'unknown', 'unreleased'] as const

export interface CaptureLoad {
  readonly state: (typeof CAPTURE_STATES)[number]
  readonly captures: number
  readonly retainedBytes: number
}

/** By what the last look at them has found. */
export function captureLoad(db: Queryable): Promise<readonly CaptureLoad[]> {
  return many<CaptureLoad>(
    db,
    'reading how logs are kept',
    `select coalesce(health, 'unknown') as state, count(*) as captures, coalesce(sum(retained_bytes), 0)::bigint as "retainedBytes"
     from captures group by 1
     union all select 'unreleased', count(*), 0 from capture_releases having count(*) > 0`,
  )
}
