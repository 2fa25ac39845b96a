/** What comparing the copies in stores with the lake has found, and which copy is to be compared next. */
import type { AppliedCopy, EndpointKey } from './endpoint-states.ts'
import { change, many, maybeOne, one, type Queryable } from './sql.ts'

/** By what a copy was seen to differ: its rows, how many there are, or its digest since it was last in order. */
export type Drift = 'rows' | 'count' | 'digest'

/** A copy that was in order. */
export interface KnownCopy {
  readonly epoch: number
  /** A hash of all that the digest depends on beside the rows. */
  readonly basis: string
  readonly digest: string
  readonly rowCount: number
  readonly depth: 'rows' | 'count'
}

export interface StoreComparison {
  /** Null: it was never seen to be in order. */
  readonly known: KnownCopy | null
  readonly driftEpoch: number | null
  readonly driftsInARow: number
}

/** A copy that is said to be in order, as it was when the comparison began. */
export interface ComparedCopy extends AppliedCopy {
  /** Of which version of the product that epoch is. */
  readonly version: string
}

/** Joins a line `c` of a comparison to the copy `s` that it is of. */
export const COMPARED = 'c.product_id = s.product_id and c.endpoint = s.endpoint and c.variant = s.variant'
const OF_COPY = 'product_id = $1 and endpoint = $2 and variant = $3'
const keyOf = ({ productId, endpoint, variant }: EndpointKey) => [productId, endpoint, variant] as const

/** Of the tenant's copies at endpoints of those types the one whose comparison has waited longest. */
export function nextToCompare(
  db: Queryable,
  tenant: string,
  endpoints: readonly string[],
): Promise<ComparedCopy | null> {
  return maybeOne<ComparedCopy>(
    db,
    'looking for a copy to compare',
    `select s.product_id as "productId", s.endpoint, s.variant, p.tenant, m.epoch, m.committed_at as "committedAt",
       m.version, s.updated_at as "updatedAt", s.place
     from products p join endpoint_states s on s.product_id = p.id
       join product_fences f on f.product_id = p.id and f.epoch = s.applied_epoch
       join materializations m on m.product_id = s.product_id and m.epoch = s.applied_epoch
       left join store_comparisons c on ${COMPARED}
     where p.tenant = $1 and s.endpoint = any($2) and s.state = 'ok' and coalesce(c.due_at <= clock_timestamp(), true)
     order by c.due_at nulls first, s.product_id, s.endpoint, s.variant limit 1`,
    [tenant, endpoints],
  )
}

/** How long until a copy of the tenant is to be compared, in milliseconds; null where none waits. */
export async function nextComparisonInMs(db: Queryable, tenant: string): Promise<number | null> {
  const { ms } = await one<{ readonly ms: number | null }>(
    db,
    'looking for a copy to compare',
    `select greatest(0, extract(epoch from min(c.due_at) - clock_timestamp()) * 1000)::float8 as ms
     from store_comparisons c join products p on p.id = c.product_id join endpoint_states s on ${COMPARED}
     where p.tenant = $1 and s.state = 'ok'`,
    [tenant],
  )
  return ms
}

/** Whether nobody has written the copy since. */
export async function isUntouched(db: Queryable, copy: ComparedCopy): Promise<boolean> {
  const found = await maybeOne(
    db,
    'reading what the stores have',
    `select from endpoint_states where ${OF_COPY} and state = 'ok' and applied_epoch = $4 and updated_at = $5`,
    [...keyOf(copy), copy.epoch, copy.updatedAt],
  )
  return found !== null
}

export async function comparisonOf(db: Queryable, key: EndpointKey): Promise<StoreComparison> {
  const found = await maybeOne<StoreComparison>(
    db,
    'reading what was compared',
    `select case when digest is not null then jsonb_build_object('epoch', epoch, 'basis', basis, 'digest', digest,
         'rowCount', row_count, 'depth', depth) end as known,
       drift_epoch as "driftEpoch", drifts_in_a_row as "driftsInARow"
     from store_comparisons where ${OF_COPY}`,
    keyOf(key),
  )
  return found ?? { known: null, driftEpoch: null, driftsInARow: 0 }
}

/** The copy equals the lake's rows. */
export async function copyInOrder(db: Queryable, key: EndpointKey, known: KnownCopy, againMs: number): Promise<void> {
  await change(
    db,
    'noting what was compared',
    `insert into store_comparisons
       (product_id, endpoint, variant, due_at, epoch, basis, digest, row_count, depth, in_order_at, compared_at)
     values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8 / 1000), $5, $6, $7, $8, $9,
       clock_timestamp(), clock_timestamp())
     on conflict (product_id, endpoint, variant) do update set due_at = excluded.due_at, epoch = excluded.epoch,
       basis = excluded.basis, digest = excluded.digest, row_count = excluded.row_count, depth = excluded.depth,
       in_order_at = excluded.in_order_at, compared_at = excluded.compared_at, drifts_in_a_row = 0`,
    [...keyOf(key), againMs, known.epoch, known.basis, known.digest, known.rowCount, known.depth],
  )
}

/** The copy differs from the lake's rows. */
export async function copyDrifted(
  db: Queryable,
  key: EndpointKey,
  { epoch, drift }: { readonly epoch: number; readonly drift: Drift },
  againMs: number,
): Promise<void> {
  await change(
    db,
    'noting what was compared',
    `insert into store_comparisons
       (product_id, endpoint, variant, due_at, compared_at, drifted_at, drift_epoch, drift, drifts_in_a_row)
     values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8 / 1000), clock_timestamp(),
       clock_timestamp(), $5, $6, 1)
     on conflict (product_id, endpoint, variant) do update set due_at = excluded.due_at,
       compared_at = excluded.compared_at, drifted_at = excluded.drifted_at, drift_epoch = excluded.drift_epoch,
       drift = excluded.drift, drifts_in_a_row = store_comparisons.drifts_in_a_row + 1`,
    [...keyOf(key), againMs, epoch, drift],
  )
}

/** Nothing was found out, and it is tried again after so long. */
export async function comparedLater(db: Queryable, key: EndpointKey, againMs: number): Promise<void> {
  await change(
    db,
    'noting what was compared',
    `insert into store_comparisons (product_id, endpoint, variant, due_at)
     values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8 / 1000))
     on conflict (product_id, endpoint, variant) do update set due_at = excluded.due_at`,
    [...keyOf(key), againMs],
  )
}

/** Every copy is to be compared before so long, not all of them at once: while no runtime looked, somebody may have changed it. */
export async function compareAllWithin(db: Queryable, ms: number): Promise<void> {
  await change(
    db,
    'noting what is to be compared',
    `update store_comparisons
     set due_at = least(due_at, clock_timestamp() + random() * make_interval(secs => $1::float8 / 1000))`,
    [ms],
  )
}

/** What whoever follows a product should know of a copy of it. */
export interface ToldDrift {
  readonly endpoint: string
  readonly driftedAt: Date
  /** It was written anew again and again, and differs still. */
  readonly isLasting: boolean
}

/** After so many repairs without a copy that is in order, it is repaired once a day alone. */
export const MAX_REPAIRS = 2

/** Of a line `c`: for a week, or for as long as the copy differs. */
export const TOLD_DRIFT = `c.drifted_at is not null
  and (c.drifted_at > clock_timestamp() - interval '7 days' or c.drifts_in_a_row > ${MAX_REPAIRS})`

/** Drifts of the product that are to be told: the newest of each endpoint that it still has. */
export function toldDrifts(db: Queryable, productId: string): Promise<ToldDrift[]> {
  return many<ToldDrift>(
    db,
    'reading what was compared',
    `select s.endpoint, max(c.drifted_at) as "driftedAt", bool_or(c.drifts_in_a_row > ${MAX_REPAIRS}) as "isLasting"
     from store_comparisons c join endpoint_states s on ${COMPARED}
     where c.product_id = $1 and ${TOLD_DRIFT} group by s.endpoint order by s.endpoint`,
    [productId],
  )
}
