/** What agents may be given in a day, counted for all processes that share the registry. */
import { change, maybeOne, type Queryable } from './sql.ts'

/** For whom an agent asks, and through which client; empty: its token names none. */
export interface AgentAccount {
  readonly tenant: string
  readonly issuer: string
  readonly subject: string
  readonly client: string
}

export interface AgentAmounts {
  readonly rows: number
  readonly bytes: number
  readonly engineMs: number
}

/** What was set aside for one answer, until it is known what it took. */
export interface AgentReservation {
  /** Of UTC, by the database's clock. */
  readonly day: string
  readonly wanted: AgentAmounts
}

/**
 * Sets aside what one answer may take at most. Null where any of the limits has been reached already, what other answers
 * have set aside counted in: a day's sums pass their limits by one answer at most.
 */
export async function reserveForAgent(
  db: Queryable,
  account: AgentAccount,
  wanted: AgentAmounts,
  limits: AgentAmounts,
): Promise<AgentReservation | null> {
  if (limits.rows === 0 || limits.bytes === 0 || limits.engineMs === 0) return null
  const found = await maybeOne<{ day: string }>(
    db,
    'counting what an agent is given',
    `insert into agent_budgets as b (tenant, issuer, subject, client, day, rows, bytes, engine_ms)
     values ($1, $2, $3, $4, (statement_timestamp() at time zone 'UTC')::date, $5, $6, $7)
     on conflict (tenant, issuer, subject, client, day) do update
       set rows = b.rows + $5, bytes = b.bytes + $6, engine_ms = b.engine_ms + $7
       where b.rows < $8 and b.bytes < $9 and b.engine_ms < $10
     returning b.day::text as day`,
    [...keyOf(account), ...valuesOf(wanted), ...valuesOf(limits)],
  )
  return found === null ? null : { day: found.day, wanted }
}

/** What it took in place of what was set aside. */
export async function settleForAgent(
  db: Queryable,
  account: AgentAccount,
  { day, wanted }: AgentReservation,
  used: AgentAmounts,
): Promise<void> {
  await change(
    db,
    'counting what an agent was given',
    `update agent_budgets set rows = rows + $6, bytes = bytes + $7, engine_ms = engine_ms + $8
     where tenant = $1 and issuer = $2 and subject = $3 and client = $4 and day = $5::date`,
    [
      ...keyOf(account),
      day,
      ...valuesOf({
        rows: used.rows - wanted.rows,
        bytes: used.bytes - wanted.bytes,
        engineMs: used.engineMs - wanted.engineMs,
      }),
    ],
  )
}

const keyOf = ({ tenant, issuer, subject, client }: AgentAccount) => [tenant, issuer, subject, client]

const valuesOf = ({ rows, bytes, engineMs }: AgentAmounts) => [rows, bytes, Math.round(engineMs)]

/** Removes what was counted the day before yesterday and earlier; at most `limit`, returns how many. */
export function pruneAgentBudgets(db: Queryable, limit: number): Promise<number> {
  return change(
    db,
    'removing what agents were given on earlier days',
    `delete from agent_budgets where ctid in (
       select ctid from agent_budgets where day < (statement_timestamp() at time zone 'UTC')::date - 1 limit $1)`,
    [limit],
  )
}
