/** How old the rows of products are, and may be by `slo.freshness`; and which products miss that. */
import { readAtOf } from './data-ages.ts'
import { latestEpoch, type Materialization } from './materializations.ts'
import { noteReadAt } from './read-ats.ts'
import { change, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

const DUE = `read_at + make_interval(secs => objective_ms / 1000.0)`

/** Of a version that is in service from now on; null: it says nothing of how old its rows may be. */
export async function setObjective(
  tx: Transaction,
  { id, tenant }: { readonly id: string; readonly tenant: string },
  objectiveMs: number | null,
): Promise<void> {
  await change(
    tx,
    'setting how old rows may be',
    `insert into product_freshness (product_id, tenant, read_at, objective_ms) values ($1, $2, clock_timestamp(), $3)
     on conflict (product_id) do update set objective_ms = excluded.objective_ms`,
    [id, tenant, objectiveMs],
  )
  await change(
    tx,
    'setting how old rows may be',
    `update product_freshness set due_at = ${DUE} where product_id = $1`,
    [id],
  )
}

export interface Freshness {
  readonly productId: string
  readonly tenant: string
  readonly name: string
  readonly domain: string
  readonly readAt: Date
  readonly objectiveMs: number | null
  readonly missedSince: Date | null
  /** Whether the rows are older than they may be. */
  readonly isMissed: boolean
}

const COLUMNS = `f.product_id as "productId", f.tenant, p.name, p.domain, f.read_at as "readAt", f.objective_ms as "objectiveMs",
  f.missed_since as "missedSince", coalesce(f.due_at < clock_timestamp(), false) as "isMissed"`

/** Products whose objective is missed and has not been told to be, or is met again. At most so many. */
export async function freshnessTurns(db: Queryable, limit: number): Promise<readonly string[]> {
  const rows = await many<{ readonly id: string }>(
    db,
    'looking for rows that are too old',
    `(select f.product_id as id from product_freshness f join tenants t on t.slug = f.tenant and t.status = 'active'
      where f.missed_since is null and f.due_at < clock_timestamp() order by f.due_at limit $1)
     union all
     (select f.product_id from product_freshness f join tenants t on t.slug = f.tenant and t.status = 'active'
      where f.missed_since is not null and (f.due_at is null or f.due_at >= clock_timestamp()) limit $1)`,
    [limit],
  )
  return rows.map(({ id }) => id)
}

/**
 * Locks it, looks at the newest epoch, and turns what is noted of it: missed from now on, or met. Null where it is as it was
 * noted, or gone. The product's fence is locked by then.
 */
export async function turnFreshness(tx: Transaction, productId: string): Promise<Freshness | null> {
  const read = () =>
    maybeOne<Freshness>(
      tx,
      'looking at how old rows are',
      `select ${COLUMNS} from product_freshness f join products p on p.id = f.product_id where f.product_id = $1 for update of f`,
      [productId],
    )
  const noted = await read()
  if (noted === null) return null
  // A release that knows nothing of this may have made it anew since.
  const newest = await latestEpoch(tx, productId)
  const isOutdated = newest !== null && readAtOf(newest).getTime() !== noted.readAt.getTime()
  if (isOutdated) await noteReadAt(tx, productId, readAtOf(newest as Materialization))
  const found = isOutdated ? ((await read()) as Freshness) : noted
  if (found.isMissed === (found.missedSince !== null)) return null
  await change(
    tx,
    'noting whether rows are too old',
    'update product_freshness set missed_since = case when $2 then clock_timestamp() end where product_id = $1',
    [productId, found.isMissed],
  )
  return found
}

export interface FreshnessLoad {
  readonly missed: number
  /** Age of the rows of the product whose are the oldest, in seconds. */
  readonly oldestS: number
  /** Those that miss their objective by most; 100 at most. */
  readonly worst: readonly { readonly tenant: string; readonly product: string; readonly ageS: number }[]
}

export async function freshnessLoad(db: Queryable): Promise<FreshnessLoad> {
  const age = 'greatest(0, extract(epoch from clock_timestamp() - f.read_at))::float8'
  const all = await maybeOne<{ readonly missed: number; readonly oldestS: number }>(
    db,
    'reading how old rows are',
    `select count(*) filter (where f.due_at < clock_timestamp()) as missed, coalesce(max(${age}), 0) as "oldestS"
     from product_freshness f join tenants t on t.slug = f.tenant and t.status = 'active'`,
  )
  const worst = await many<FreshnessLoad['worst'][number]>(
    db,
    'reading how old rows are',
    `select f.tenant, p.domain || '.' || p.name as product, ${age} as "ageS"
     from product_freshness f join products p on p.id = f.product_id
     where f.due_at < clock_timestamp() order by f.due_at limit 100`,
  )
  return { missed: all?.missed ?? 0, oldestS: all?.oldestS ?? 0, worst }
}
