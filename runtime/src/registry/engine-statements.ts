/** Statements in engines outside, as all runtimes on the registry share the looking at them. */
import { change, many, type Queryable } from './sql.ts'

/** Moments that turns and statements wait for, or are counted from: tables with their columns. */
export const AWAITED_BY_STATEMENTS = { trino_statements: ['charged_at'], trino_watch: ['next_at'] } as const

/** Whether it is this process's turn: one process has it, and `everyMs` later the next may take it. */
export async function takeWatch(db: Queryable, everyMs: number): Promise<boolean> {
  const taken = await change(
    db,
    'taking the turn to look at statements outside',
    `insert into trino_watch as w (next_at) values (clock_timestamp() + $1 * interval '1 millisecond')
     on conflict (one) do update set next_at = excluded.next_at where w.next_at <= clock_timestamp()`,
    [everyMs],
  )
  return taken > 0
}

export interface StatementCpu {
  readonly id: string
  readonly seconds: number
}

/** Notes what statements have used in all, and gives what of it nobody was charged for before. */
export async function noteStatementCpu(db: Queryable, uses: readonly StatementCpu[]): Promise<readonly StatementCpu[]> {
  if (uses.length === 0) return []
  const rows = await many<StatementCpu>(
    db,
    'counting CPU time of statements outside',
    `insert into trino_statements as s (query_id, cpu_s, last_s, charged_at)
     select u.id, u.seconds, 0, clock_timestamp() from unnest($1::text[], $2::float8[]) as u (id, seconds) order by u.id
     on conflict (query_id) do update set last_s = s.cpu_s, cpu_s = greatest(s.cpu_s, excluded.cpu_s),
       charged_at = excluded.charged_at
     returning query_id as id, cpu_s - last_s as seconds`,
    [uses.map(({ id }) => id), uses.map(({ seconds }) => seconds)],
  )
  return rows.filter(({ seconds }) => seconds > 0)
}

/** Forgets statements that were charged for so long ago. */
export async function forgetStatements(db: Queryable, olderThanMs: number): Promise<void> {
  await change(
    db,
    'forgetting statements outside',
    `delete from trino_statements where charged_at < clock_timestamp() - $1 * interval '1 millisecond'`,
    [olderThanMs],
  )
}
