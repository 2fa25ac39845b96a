/** What the registry says about how much there is to do, and how far it is behind. */
import type pg from 'pg'
import type { RunKind } from './runs.ts'
import { many, one } from './sql.ts'

export const RUN_ENDS = ['succeeded', 'failed', 'cancelled'] as const
export const ENDPOINT_TYPES = ['lookup', 'timeseries', 'realtime', 'analytics'] as const
export const UPKEEP_TASKS = ['prune', 'expire', 'compact', 'clean'] as const

export interface RegistryLoad {
  readonly runs: readonly {
    readonly kind: RunKind
    readonly state: 'queued' | 'running'
    readonly count: number
    /** Seconds since the first of them could begin. */
    readonly oldestS: number
  }[]
  readonly products: { readonly count: number; readonly oldestS: number }
  readonly endpoints: readonly { readonly type: string; readonly state: string; readonly count: number }[]
  readonly events: number
  /** Tenants that have used their CPU time. */
  readonly spent: number
  readonly upkeep: readonly { readonly task: string; readonly ageS: number }[]
}

const DOING = 'reading how much there is to do'
const seconds = (since: string) => `greatest(0, coalesce(extract(epoch from clock_timestamp() - ${since}), 0))::float8`

export async function registryLoad(pool: pg.Pool): Promise<RegistryLoad> {
  const runs = await many<RegistryLoad['runs'][number]>(
    pool,
    DOING,
    `select kind, state, count(*) as count, ${seconds('min(available_at)')} as "oldestS"
     from runs where state in ('queued', 'running') group by kind, state`,
  )
  const products = await one<RegistryLoad['products']>(
    pool,
    DOING,
    `select count(*) as count, ${seconds('min(coalesce(f.epoch_committed_at, v.deployed_at))')} as "oldestS"
     from products p join product_fences f on f.product_id = p.id
       left join product_versions v on v.product_id = p.id and v.version = p.current_version
     where p.status in ('deployed', 'degraded')`,
  )
  const endpoints = await many<RegistryLoad['endpoints'][number]>(
    pool,
    DOING,
    'select endpoint as type, state, count(*) as count from endpoint_states group by endpoint, state',
  )
  const events = await one<{ count: number }>(
    pool,
    DOING,
    'select count(*) as count from events where sequence is null',
  )
  const spent = await one<{ count: number }>(
    pool,
    DOING,
    'select count(*) as count from cpu_budgets where spent_until > clock_timestamp()',
  )
  const upkeep = await many<RegistryLoad['upkeep'][number]>(
    pool,
    DOING,
    `select task, ${seconds('min(coalesce(finished_at, started_at))')} as "ageS" from lake_upkeep group by task`,
  )
  return { runs, products, endpoints, events: events.count, spent: spent.count, upkeep }
}
