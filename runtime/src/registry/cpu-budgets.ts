/**
 * CPU time of tenants, for all runtimes on the registry. Each tenant has a bucket that holds an hour's limit and drains
 * evenly; what flows over is waited for, an hour at most.
 */

import { change, many, type Queryable } from './sql.ts'
import type { Tier } from './tiers.ts'

/** CPU seconds an hour; 0: without limit. */
export type CpuLimits = Readonly<Record<Tier, number>>

export interface CpuUse {
  readonly tenant: string
  readonly seconds: number
}

/** What the bucket holds now, of which `hourly` drain in an hour. */
const levelOf = (bucket: string, hourly: string): string => `greatest(0, ${bucket}.used_s
  - greatest(0, extract(epoch from statement_timestamp() - ${bucket}.counted_at)) * ${hourly} / 3600)`

/** Nobody waits longer than an hour, however much was under way at once. */
const MOST_HOURS = 2

const HOURLY = '(select ($3::jsonb ->> t.tier)::float8 from tenants t where t.slug = kept.tenant)'

/** Adds what was used. Tenants without a limit have no bucket, and who is gone neither. */
export async function chargeCpu(db: Queryable, uses: readonly CpuUse[], limits: CpuLimits): Promise<void> {
  if (uses.length === 0) return
  await change(
    db,
    'counting CPU time',
    `insert into cpu_budgets as kept (tenant, used_s, counted_at)
     select t.slug, least(${MOST_HOURS} * ($3::jsonb ->> t.tier)::float8, use.seconds), statement_timestamp()
     from unnest($1::text[], $2::float8[]) as use (tenant, seconds) join tenants t on t.slug = use.tenant
     where ($3::jsonb ->> t.tier)::float8 > 0
     order by t.slug
     on conflict (tenant) do update set
       used_s = least(${MOST_HOURS} * ${HOURLY}, ${levelOf('kept', HOURLY)} + excluded.used_s),
       counted_at = greatest(kept.counted_at, excluded.counted_at)`,
    [uses.map(({ tenant }) => tenant), uses.map(({ seconds }) => seconds), JSON.stringify(limits)],
  )
}

/** Notes who has to wait until when, by the limits and tiers of today, and gives them. */
export function spentBudgets(
  db: Queryable,
  limits: CpuLimits,
): Promise<readonly { readonly tenant: string; readonly waitMs: number }[]> {
  return many(
    db,
    'reading CPU time',
    `with state as (
       select b.tenant, b.spent_until as said, case when hourly > 0 and level > hourly
         then statement_timestamp() + make_interval(secs => (level - hourly) * 3600 / hourly) end as until
       from cpu_budgets b join tenants t on t.slug = b.tenant
         cross join lateral (select ($1::jsonb ->> t.tier)::float8 as hourly) tier
         cross join lateral (select ${levelOf('b', 'tier.hourly')} as level) now
       where b.spent_until is not null or b.used_s > hourly
     ), other as (
       select tenant from cpu_budgets where tenant in (
         select tenant from state
         where coalesce(abs(extract(epoch from until - said)) > 1, (until is null) <> (said is null))
       ) order by tenant for no key update skip locked
     ), noted as (
       update cpu_budgets b set spent_until = state.until from state join other using (tenant)
       where b.tenant = state.tenant
     )
     select tenant, (extract(epoch from until - statement_timestamp()) * 1000)::float8 as "waitMs"
     from state where until is not null`,
    [JSON.stringify(limits)],
  )
}
