/**
 * The database's clock, set back. A machine that began with a clock a year ahead has noted everything that is to be done for next
 * year by the time somebody mends it: nothing would be upkept, no schedule would tick and no limit would fill again until then.
 */
import type pg from 'pg'
import { inTransaction } from '../../database/pools.ts'
import { EARLIEST_MS } from '../../registry/clock.ts'
import { AWAITED_BY_STATEMENTS, COUNTED_BY_STATEMENTS } from '../../registry/engine-statements.ts'
import { change, maybeOne, type Transaction } from '../../registry/sql.ts'

type Moments = Readonly<Record<string, readonly string[]>>

/** Moments that turns wait for. */
const AWAITED: Moments = {
  change_topics: ['next_attempt_at'],
  cpu_budgets: ['spent_until'],
  endpoint_states: ['next_retry_at'],
  follow_holds: ['until'],
  jobs: ['due_at'],
  product_dashboards: ['next_retry_at'],
  product_freshness: ['due_at'],
  runs: ['available_at'],
  schedules: ['next_run_at'],
  store_comparisons: ['due_at'],
  ...AWAITED_BY_STATEMENTS,
  webhooks: ['next_at'],
}

/** Ends of what somebody has in hand, and may have still. */
const LEASES: Moments = {
  event_relays: ['lease_until'],
  idempotency_keys: ['abandoned_at'],
  jobs: ['lease_until'],
  product_dashboards: ['lease_until'],
  products: ['deletion_until'],
  runs: ['lease_until'],
  tenants: ['provisioning_until'],
}

/** Moments that had come when they were noted, and that waits, ages and orders are counted from. */
const COUNTED: Moments = {
  cpu_budgets: ['counted_at'],
  jobs: ['started_at'],
  product_freshness: ['read_at'],
  rate_buckets: ['refilled_at'],
  // The last failure keeps a schedule waiting, and the oldest of those that wait is begun first.
  runs: ['created_at', 'started_at', 'finished_at'],
  run_tables: ['read_at'],
  schedules: ['since', 'ticked_at'],
  ...COUNTED_BY_STATEMENTS,
}

/**
 * What comes sooner, and in how many seconds at the soonest: what was noted before the clock went wrong, or since it is right
 * again, would come too soon. Moments that are told as history stay what they are, and so do ends of rights and of what is kept:
 * nothing is removed sooner because a clock was wrong.
 */
export const SOONER: readonly { readonly soonestS: number | null; readonly moments: Moments }[] = [
  { soonestS: 60, moments: AWAITED },
  // Not all of them are renewed: as long as the longest of those.
  { soonestS: 15 * 60, moments: LEASES },
  // What they protect would be removed.
  { soonestS: 24 * 3600, moments: { lake_writes: ['lease_until'] } },
  // Those of before have come, so that none of them is changed, and all stay in their order.
  { soonestS: null, moments: COUNTED },
]

/** Servers that take each other's place differ by less; so much longer anything may wait. */
const LEAST_BACK_S = 60
/** A machine that begins with a clock that is behind has it set right in its first minutes: nothing was noted too late then. */
const SETTLED_MS = 10 * 60_000

/**
 * What notes, each time that it is called, how far the clock has come. Where that is behind for `settledMs`, everything of
 * `SOONER` comes sooner by as much, and it gives by how many seconds; else null. Of several runtimes one does it.
 */
export function clockFollower(pool: pg.Pool, settledMs = SETTLED_MS): () => Promise<number | null> {
  let behindSinceMs: number | null = null
  return () =>
    inTransaction(pool, async (tx) => {
      const backS = await secondsBack(tx)
      behindSinceMs = backS === null ? null : (behindSinceMs ?? performance.now())
      if (backS === null || behindSinceMs === null || performance.now() - behindSinceMs < settledMs) return null
      for (const { soonestS, moments } of SOONER) {
        for (const [table, columns] of Object.entries(moments)) await bringForward(tx, table, columns, backS, soonestS)
      }
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
     where seen_at > clock_timestamp() + make_interval(secs => ${LEAST_BACK_S}) and clock_timestamp() > to_timestamp(${EARLIEST_MS / 1000})`,
  )
  return seen?.backS ?? null
}

async function bringForward(
  tx: Transaction,
  table: string,
  columns: readonly string[],
  backS: number,
  soonestS: number | null,
): Promise<void> {
  const soonest = `clock_timestamp() + make_interval(secs => ${soonestS ?? 0})`
  const back = (column: string) => `${column} - make_interval(secs => $1::float8)`
  const moved = (column: string) => (soonestS === null ? back(column) : `greatest(${soonest}, ${back(column)})`)
  const sooner = (column: string) =>
    `${column} = case when ${column} > ${soonest} then ${moved(column)} else ${column} end`
  await change(
    tx,
    'bringing forward what waits for the clock',
    `update ${table} set ${columns.map(sooner).join(', ')} where ${columns.map((one) => `${one} > ${soonest}`).join(' or ')}`,
    [backS],
  )
}
