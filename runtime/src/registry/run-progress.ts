/** What a worker reports while it works: numbers per table, and lines of a log. Both only from the lease's holder. */
import type { RecordedError } from './deployments.ts'
import { fenced } from './fences.ts'
import type { RunLease } from './run-claims.ts'
import { change, json, many, maybeOne, type Queryable } from './sql.ts'

export interface TableProgress {
  /** As the source names it: `schema.table`. */
  readonly name: string
  readonly mode: 'full' | 'incremental' | 'cdc'
  readonly state: 'pending' | 'running' | 'succeeded' | 'failed'
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly bytes: number
  /** Where the next read goes on, in words. */
  readonly cursor: string | null
  readonly error: RecordedError | null
}

const STILL_MINE = `exists (select from runs where id = $1 and token = $2 and state = 'running')`

/** Sets a table's numbers. The tables are listed in the order in which they were first reported. */
export async function saveTableProgress(db: Queryable, lease: RunLease, table: TableProgress): Promise<void> {
  const row = await maybeOne(
    db,
    'recording progress',
    `insert into run_tables (run_id, name, position, mode, state, rows_read, rows_written, bytes, cursor, error)
     select $1, $3, (select count(*) from run_tables where run_id = $1), $4, $5, $6, $7, $8, $9, $10::jsonb
     where ${STILL_MINE}
     on conflict (run_id, name) do update set mode = excluded.mode, state = excluded.state,
       rows_read = excluded.rows_read, rows_written = excluded.rows_written, bytes = excluded.bytes,
       cursor = excluded.cursor, error = excluded.error, updated_at = now()
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
    ],
  )
  if (row === null) throw fenced()
}

export function tableProgress(db: Queryable, runId: string): Promise<TableProgress[]> {
  return many<TableProgress>(
    db,
    'reading progress',
    `select name, mode, state, rows_read as "rowsRead", rows_written as "rowsWritten", bytes, cursor, error
     from run_tables where run_id = $1 order by position, name`,
    [runId],
  )
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
    `insert into run_log (run_id, level, message) select $1, $3, $4 where ${STILL_MINE} returning line`,
    [lease.runId, lease.token, level, message.slice(0, MAX_LINE_CHARACTERS)],
  )
  if (row === null) throw fenced()
  await change(
    db,
    'trimming the run’s log',
    `delete from run_log where run_id = $1 and line <= (
       select line from run_log where run_id = $1 order by line desc offset $2 limit 1)`,
    [lease.runId, MAX_LOG_LINES],
  )
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
