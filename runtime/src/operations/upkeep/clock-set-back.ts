/**
 * The database's clock, set back. A machine that began with a clock a year ahead has noted everything that is to be done for next
 * year by the time somebody mends it: nothing would be upkept, no schedule would tick and no limit would fill again until then.
 */
import type pg from 'pg'
import { inTransaction } from '../../database/pools.ts'
import { AWAITED_BY_STATEMENTS } from '../../registry/engine-statements.ts'
import { change, maybeOne, type Transaction } from '../../registry/sql.ts'

/**
 * Moments that something waits for, or that waits and ages are counted from. Those that are told as history stay what they
 * are, and so do ends of rights and of what is kept: nothing is removed sooner because a clock was wrong.
 */
export const AWAITED: Readonly<Record<string, readonly string[]>> = {
  change_topics: ['next_attempt_at'],
  cpu_budgets: ['counted_at', 'spent_until'],
  endpoint_states: ['next_retry_at'],
  event_relays: ['lease_until'],
  follow_holds: ['until'],
  idempotency_keys: ['abandoned_at'],
  jobs: ['due_at', 'lease_until', 'started_at'],
  lake_writes: ['lease_until'],
  product_dashboards: ['lease_until', 'next_retry_at'],
  product_freshness: ['due_at', 'read_at'],
  products: ['deletion_until'],
  rate_buckets: ['refilled_at'],
  // The last failure keeps a schedule waiting, and the oldest of those that wait is begun first.
  runs: ['available_at', 'lease_until', 'created_at', 'started_at', 'finished_at'],
  run_tables: ['read_at'],
  schedules: ['next_run_at', 'since', 'ticked_at'],
  store_comparisons: ['due_at'],
  tenants: ['provisioning_until'],
  ...AWAITED_BY_STATEMENTS,
  webhooks: ['next_at'],
}

/** Servers that take each other's place differ by less; so much longer anything may wait. */
const LEAST_BACK_S = 60
/** What was noted before the clock went wrong, or since it is right again, would come too soon: the living renew their leases. */
const SOONEST_S = 60
/** Nobody renews these, and what they protect would be removed. */
const SOONEST_OF_WRITES_S = 24 * 3600

/**
 * Notes how far the clock has come. Where it is behind that, everything awaited comes sooner by as much, and gives by how many
 * seconds; else null. To be repeated all the time; of several runtimes one does it.
 */
export function followClock(pool: pg.Pool): Promise<number | null> {
  return inTransaction(pool, async (tx) => {
    const backS = await secondsBack(tx)
    if (backS === null) return null
    for (const [table, columns] of Object.entries(AWAITED)) await bringForward(tx, table, columns, backS)
    await change(tx, NOTING, 'update registry_clock set seen_at = clock_timestamp()')
    return backS
  })
}

const NOTING = 'noting the clock'

async function secondsBack(tx: Transaction): Promise<number | null> {
  await change(
    tx,
    NOTING,
    `insert into registry_clock as c (seen_at) values (clock_timestamp())
     on conflict (one) do update set seen_at = greatest(c.seen_at, clock_timestamp())`,
  )
  const seen = await maybeOne<{ backS: number }>(
    tx,
    'reading the clock',
    `select extract(epoch from seen_at - clock_timestamp())::float8 as "backS" from registry_clock
     where seen_at > clock_timestamp() + make_interval(secs => ${LEAST_BACK_S})`,
  )
  return seen?.backS ?? null
}

async function bringForward(tx: Transaction, table: string, columns: readonly string[], backS: number): Promise<void> {
  const soonest = `clock_timestamp() + make_interval(secs => $2)`
  const sooner = (column: string) => `${column} = case when ${column} > ${soonest}
    then greatest(${soonest}, ${column} - make_interval(secs => $1::float8)) else ${column} end`
  await change(
    tx,
    'bringing forward what waits for the clock',
    `update ${table} set ${columns.map(sooner).join(', ')} where ${columns.map((one) => `${one} > ${soonest}`).join(' or ')}`,
    [backS, table === 'lake_writes' ? SOONEST_OF_WRITES_S : SOONEST_S],
  )
}
