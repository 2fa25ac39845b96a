/** What a worker reports while it works: numbers per table, and lines of a log. Both only from the lease's holder. */
import type { RecordedError } from './deployments.ts'
import { fenced } from './fences.ts'
import type { RunLease } from './run-claims.ts'
import { json, many, maybeOne, type Queryable } from './sql.ts'

export interface TableProgress {
  /** As the source names it: `schema.table`. */
  readonly name: string
  readonly mode: 'full' | 'incremental' | 'cdc'
  /** Why it is read so, in words; null where it was not come to. */
  readonly modeReason: string | null
  /** How rows that are gone are found; null where it was not come to. */
  readonly deletes: 'implied' | 'key_sweep' | 'unseen' | 'log' | null
  /** Why they are left unseen. */
  readonly deletesReason: string | null
  readonly state: 'pending' | 'running' | 'succeeded' | 'failed'
  readonly rowsRead: number
  readonly rowsWritten: number
  /** Left out, because they could not be carried. A row that changed several times is read as often, and written once. */
  readonly rowsRejected: number
  /** Rows that were gone at the source, by a read of its keys; null where none was made. */
  readonly rowsRemoved: number | null
  /** Of a run that tries rows of a quarantine again: those that newer ones have taken the place of. Absent or null of any other. */
  readonly rowsSuperseded?: number | null
  readonly bytes: number
  /** Where the next read goes on, in words. */
  readonly cursor: string | null
  readonly error: RecordedError | null
}

const STILL_MINE = `exists (select from runs where id = $1 and token = $2 and state = 'running')`

/** An older release does not keep it; where it reads no log, each row that it read is written or rejected. */
const REJECTED = `coalesce(t.rows_rejected,
  case when t.state = 'succeeded' and t.mode <> 'cdc' then t.rows_read - t.rows_written else 0 end)`

const TABLE_COLUMNS = `t.name, t.mode, t.state, t.rows_read as "rowsRead", t.rows_written as "rowsWritten", t.bytes,
  ${REJECTED} as "rowsRejected",
  t.cursor, t.error, t.mode_reason as "modeReason", case t.mode when 'cdc' then 'log' else t.deletes end as deletes,
  t.deletes_reason as "deletesReason",
  t.rows_removed as "rowsRemoved", t.rows_superseded as "rowsSuperseded"`

/** Sets a table's numbers. The tables are listed in the order in which they were first reported. */
export async function saveTableProgress(
  db: Queryable,
  lease: RunLease,
  /** `readAt`: when the read began that is committed. */
  table: TableProgress & { readonly readAt?: Date },
): Promise<void> {
  const row = await maybeOne(
    db,
    'recording progress',
    `insert into run_tables (run_id, name, position, mode, state, rows_read, rows_written, bytes, cursor, error,
       mode_reason, deletes, deletes_reason, rows_removed, read_at, rows_rejected, rows_superseded)
     select $1, $3, (select count(*) from run_tables where run_id = $1), $4, $5, $6, $7, $8, $9, $10::jsonb,
       $11, $12, $13, $14, $15, $16, $17
     where ${STILL_MINE}
     on conflict (run_id, name) do update set mode = excluded.mode, state = excluded.state,
       rows_read = excluded.rows_read, rows_written = excluded.rows_written, bytes = excluded.bytes,
       cursor = excluded.cursor, error = excluded.error, mode_reason = excluded.mode_reason,
       deletes = excluded.deletes, deletes_reason = excluded.deletes_reason, rows_removed = excluded.rows_removed,
       read_at = excluded.read_at, rows_rejected = excluded.rows_rejected, rows_superseded = excluded.rows_superseded, updated_at = now()
     returning name`,
    [
      lease.runId,
      lease.token,
      table.name,
      table.mode,
      table.state,
      table.rowsRead,
      table.rowsWritten,
      table.bytes,
      table.cursor,
      json(table.error),
      table.modeReason,
      // An older release knows no such way, and refuses the row: the mode tells it.
      table.deletes === 'log' ? null : table.deletes,
      table.deletesReason,
      table.rowsRemoved,
      table.readAt ?? null,
      table.rowsRejected,
      table.rowsSuperseded ?? null,
    ],
  )
  if (row === null) throw fenced()
}

export function tableProgress(db: Queryable, runId: string): Promise<TableProgress[]> {
  return many<TableProgress>(
    db,
    'reading progress',
    `select ${TABLE_COLUMNS} from run_tables t where t.run_id = $1 order by t.position, t.name`,
    [runId],
  )
}

/** Of many runs in one statement; of a run without tables there is nothing. */
export async function tableProgresses(
  db: Queryable,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, readonly TableProgress[]>> {
  const rows = await many<TableProgress & { readonly runId: string }>(
    db,
    'reading progress',
    `select t.run_id as "runId", ${TABLE_COLUMNS} from run_tables t where t.run_id = any($1) order by t.position, t.name`,
    [runIds],
  )
  return Map.groupBy(rows, ({ runId }) => runId)
}

/** How a table of a connection was read last. */
export interface LastRead extends TableProgress {
  readonly runId: string
  readonly readAt: Date
}

/** Rows that are tried again are of the source as it was: nothing of it was read. */
const READS = `not r.input ? 'replay'`

/** Of each of these tables the newest read that was committed. */
export function lastReads(db: Queryable, connectionId: string, names: readonly string[]): Promise<LastRead[]> {
  return many<LastRead>(
    db,
    'reading progress',
    `select distinct on (t.name) ${TABLE_COLUMNS}, t.run_id as "runId", coalesce(t.read_at, t.updated_at) as "readAt"
     from run_tables t join runs r on r.id = t.run_id
     where r.connection_id = $1 and t.name = any ($2) and t.state = 'succeeded' and ${READS}
     order by t.name, t.updated_at desc`,
    [connectionId, names],
  )
}

/** Of a table of a connection: the newest read that was committed, and the newest that was tried. */
export interface TableReads {
  /** `schema.table` */
  readonly name: string
  /** When the newest began that was committed; null: none was. */
  readonly readAt: Date | null
  readonly lastRead: {
    readonly runId: string
    readonly state: TableProgress['state']
    readonly errorCode: string | null
    readonly at: Date
  } | null
}

/** What was read before the connection led to another source counts for nothing. */
export async function tableReads(
  db: Queryable,
  { id, sourceSince }: { readonly id: string; readonly sourceSince: Date | null },
  names: readonly string[],
): Promise<readonly TableReads[]> {
  const newest = (
    more: string,
  ) => `select t.*, r.id as of_run from runs r join run_tables t on t.run_id = r.id and t.name = wanted.name
    where r.connection_id = $1 and ${READS} and ($3::timestamptz is null or t.updated_at > $3) ${more} order by r.created_at desc, r.id desc limit 1`
  const rows = await many<{
    readonly name: string
    readonly readAt: Date | null
    readonly runId: string | null
    readonly state: TableProgress['state']
    readonly errorCode: string | null
    readonly at: Date
  }>(
    db,
    'reading how old raw tables are',
    `select wanted.name, coalesce(good.read_at, good.updated_at) as "readAt", tried.of_run as "runId", tried.state,
       tried.error->>'code' as "errorCode", tried.updated_at as at
     from unnest($2::text[]) with ordinality as wanted (name, place)
       left join lateral (${newest(`and t.state = 'succeeded'`)}) good on true
       left join lateral (${newest('')}) tried on true
     order by wanted.place`,
    [id, names, sourceSince],
  )
  return rows.map(({ name, readAt, runId, ...tried }) => ({
    name,
    readAt,
    lastRead: runId === null ? null : { runId, ...tried },
  }))
}

/** What the run has done so far; it stays when the run fails. */
export async function saveRunResult(
  db: Queryable,
  lease: RunLease,
  result: Readonly<Record<string, unknown>>,
): Promise<void> {
  const statement = `update runs set result = $3 where id = $1 and token = $2 and state = 'running' returning id`
  const row = await maybeOne(db, 'recording progress', statement, [lease.runId, lease.token, json(result)])
  if (row === null) throw fenced()
}

export interface LogLine {
  readonly at: Date
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
}

/** A run keeps its newest lines. */
export const MAX_LOG_LINES = 1000
const MAX_LINE_CHARACTERS = 2000

/** Never a value of a row, a secret or a driver's message. */
export async function appendRunLog(
  db: Queryable,
  lease: RunLease,
  level: LogLine['level'],
  message: string,
): Promise<void> {
  const row = await maybeOne(
    db,
    'writing the run’s log',
    `with held as (select from runs where id = $1 and token = $2 and state = 'running'),
       trimmed as (
         delete from run_log where run_id = $1 and exists (select from held) and line <= (
           select line from run_log where run_id = $1 order by line desc offset $5 limit 1))
     insert into run_log (run_id, level, message) select $1, $3, $4 from held returning line`,
    // Of the lines that are there already.
    [lease.runId, lease.token, level, message.slice(0, MAX_LINE_CHARACTERS), MAX_LOG_LINES - 1],
  )
  if (row === null) throw fenced()
}

/** The newest lines, oldest of them first. */
export function runLog(db: Queryable, runId: string, limit = MAX_LOG_LINES): Promise<LogLine[]> {
  return many<LogLine>(
    db,
    'reading the run’s log',
    `select at, level, message from (
       select line, at, level, message from run_log where run_id = $1 order by line desc limit $2
     ) newest order by line`,
    [runId, Math.min(limit, MAX_LOG_LINES)],
  )
}
