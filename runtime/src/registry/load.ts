/** What the registry says about how much there is to do, and how far it is behind. */
import type pg from 'pg'
import { OWN_SERVICES } from '../config/services.ts'
import { type FreshnessLoad, freshnessLoad } from './product-freshness.ts'
import type { RunKind } from './runs.ts'
import { type ScheduleLoad, scheduleLoad } from './schedules.ts'
import { many, one } from './sql.ts'

export const RUN_ENDS = ['succeeded', 'failed', 'cancelled'] as const
export const ENDPOINT_TYPES = ['lookup', 'timeseries', 'realtime', 'analytics'] as const
/** Of events, by the bus that comes with the runtime; that of changed rows counts epochs, by topic. */
export const RELAYS = Object.keys(OWN_SERVICES['event-bus'])
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
  /** By relay: events that it has not carried to its bus, those without a number too. */
  readonly relays: readonly { readonly relay: string; readonly waiting: number; readonly oldestS: number }[]
  /** Tenants that have used their CPU time. */
  readonly spent: number
  readonly upkeep: readonly { readonly task: string; readonly ageS: number }[]
  readonly freshness: FreshnessLoad
  readonly schedules: readonly ScheduleLoad[]
}

const DOING = 'reading how much there is to do'
const seconds = (since: string) => `greatest(0, coalesce(extract(epoch from clock_timestamp() - ${since}), 0))::float8`

/** Numbers of events have no gaps: what waits is counted by them, without a look at each. */
const RELAY_LAG = `
with positions as (
  select r.relay, c.tenant, c.last, greatest(coalesce(p.sequence, 0), c.removed) as relayed
  from (select distinct relay from event_relay_positions) r cross join event_counters c
    left join event_relay_positions p on p.relay = r.relay and p.tenant = c.tenant
), unnumbered as (
  select tenant, count(*) as count, min(at) as at from events where sequence is null group by tenant
)
select relay, sum(greatest(0, last - relayed) + coalesce(u.count, 0))::float8 as waiting,
  ${seconds('min(least(numbered.at, u.at))')} as "oldestS"
from positions left join unnumbered u using (tenant)
  left join lateral (
    select e.at from events e where e.tenant = positions.tenant and e.sequence > relayed order by e.sequence limit 1
  ) numbered on last > relayed
group by relay`

/** Of each tenant; the older table is where releases before jobs, which may run beside this one, note their turns. */
const LAST_TURNS = `
select tenant, task, max(at) as at from (
  select catalog_name as tenant, task, coalesce(finished_at, started_at) as at from lake_upkeep
  union all
  select case key when '' then '' else 'lakehouse_' || key end, split_part(kind, '.', 2),
    coalesce(finished_at, started_at) from jobs where kind like 'upkeep.%' and started_at is not null
) turns group by tenant, task`

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
  const relays = await many<RegistryLoad['relays'][number]>(pool, DOING, RELAY_LAG)
  const spent = await one<{ count: number }>(
    pool,
    DOING,
    'select count(*) as count from cpu_budgets where spent_until > clock_timestamp()',
  )
  const upkeep = await many<RegistryLoad['upkeep'][number]>(
    pool,
    DOING,
    `select task, ${seconds('min(at)')} as "ageS" from (${LAST_TURNS}) last group by task`,
  )
  const freshness = await freshnessLoad(pool)
  const schedules = await scheduleLoad(pool)
  return { runs, products, endpoints, events: events.count, relays, spent: spent.count, upkeep, freshness, schedules }
}
