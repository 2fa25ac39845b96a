/** Which epoch each serving store has of each variant, and what keeps it from the newest. */
import type { RecordedError } from './deployments.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

export interface EndpointKey {
  readonly productId: string
  /** The endpoint's type: `lookup`. */
  readonly endpoint: string
  readonly variant: string
}

/** Where a store has the copy: see `places.ts` of the materializer. */
export type Place = 'first' | 'second'

export interface EndpointState extends EndpointKey {
  readonly appliedEpoch: number | null
  readonly state: 'ok' | 'failed' | 'pending'
  readonly error: RecordedError | null
  /** Failures since the last success. */
  readonly attempts: number
  readonly nextRetryAt: Date | null
  readonly updatedAt: Date
  /** Rows of the applied epoch that the endpoint cannot serve; null where that was not counted. */
  readonly rowsLeftOut: number | null
  /** The version that made the applied epoch. */
  readonly appliedVersion: string | null
  /** That of the applied epoch, which reads are answered from; of a copy that has none, where it is to be. */
  readonly place: Place
  /** The store may have something in the other place, too, which is to be dropped. */
  readonly leftover: boolean
}

const COLUMNS = `product_id as "productId", endpoint, variant, applied_epoch as "appliedEpoch", state, error, attempts,
  next_retry_at as "nextRetryAt", updated_at as "updatedAt", rows_left_out::float8 as "rowsLeftOut", place, leftover,
  (select m.version from materializations m where m.product_id = s.product_id and m.epoch = s.applied_epoch) as "appliedVersion"`

/**
 * The store has taken the epoch: `ok` where that is the product's newest, else still `pending`. An older report that
 * comes late changes nothing, nor does one of a place that is not the one in service any more.
 */
export async function endpointApplied(
  db: Queryable,
  key: EndpointKey,
  epoch: number,
  rowsLeftOut: number | null = null,
  place: Place = 'first',
): Promise<void> {
  await change(
    db,
    'recording what a store has',
    `with newest as (select coalesce(max(epoch), 0) <= $4 as reached from product_fences where product_id = $1)
     insert into endpoint_states as s
       (product_id, endpoint, variant, applied_epoch, state, next_retry_at, rows_left_out, place)
     select $1, $2, $3, $4, case when reached then 'ok' else 'pending' end,
       case when reached then null else clock_timestamp() end, $5::bigint, $6 from newest
     on conflict (product_id, endpoint, variant) do update
       set applied_epoch = excluded.applied_epoch, state = excluded.state, error = null, attempts = 0,
         next_retry_at = case when s.leftover then coalesce(excluded.next_retry_at, clock_timestamp()) else excluded.next_retry_at end,
         updated_at = now(), rows_left_out = coalesce(excluded.rows_left_out, s.rows_left_out)
       where s.place = excluded.place and (s.applied_epoch is null or s.applied_epoch <= excluded.applied_epoch)`,
    [key.productId, key.endpoint, key.variant, epoch, rowsLeftOut, place],
  )
}

/**
 * From now on the copy is served from `place`, where the store has taken the epoch. The other one is dropped when nobody reads
 * it any more: in `leaveAfterMs`. In the transaction of a writer that nobody has overtaken; false where the copy is gone.
 */
export async function endpointSwitched(
  tx: Transaction,
  key: EndpointKey,
  { place, epoch, rowsLeftOut }: { readonly place: Place; readonly epoch: number; readonly rowsLeftOut: number | null },
  leaveAfterMs: number,
): Promise<boolean> {
  const changed = await change(
    tx,
    'recording what a store has',
    `with newest as (select coalesce(max(epoch), 0) <= $4 as reached from product_fences where product_id = $1)
     update endpoint_states s
       set place = $6, leftover = true, applied_epoch = $4, state = case when reached then 'ok' else 'pending' end,
         error = null, attempts = 0, updated_at = now(), rows_left_out = coalesce($5::bigint, s.rows_left_out),
         next_retry_at = clock_timestamp() + case when reached then make_interval(secs => $7::float8 / 1000) else '0' end
       from newest where s.product_id = $1 and s.endpoint = $2 and s.variant = $3 and s.applied_epoch <= $4`,
    [key.productId, key.endpoint, key.variant, epoch, rowsLeftOut, place, leaveAfterMs],
  )
  return changed > 0
}

/**
 * Written down before the store is given anything in the other place: whatever becomes of the writer, it does not stay there. False
 * where that one is served by now, or the copy is gone.
 */
export async function leftoverExpected(db: Queryable, key: PlacedKey): Promise<boolean> {
  const changed = await change(
    db,
    'recording what a store has',
    `update endpoint_states set leftover = true, next_retry_at = coalesce(next_retry_at, clock_timestamp())
     where ${OF_PLACE}`,
    placeOf(key),
  )
  return changed > 0
}

/** Something was found in the other place of a copy that is in order: it is dropped by whoever brings stores up to date. */
export async function leftoverFound(db: Queryable, copy: SoundCopy): Promise<void> {
  await change(
    db,
    'recording what a store has',
    `update endpoint_states set leftover = true, next_retry_at = clock_timestamp()
     where ${OF_PLACE} and state = 'ok' and not leftover`,
    placeOf(copy),
  )
}

/** Nothing is in the other place any more; changes nothing where that one is served by now. */
export async function leftoverDropped(db: Queryable, key: PlacedKey): Promise<void> {
  const text = `update endpoint_states set leftover = false, next_retry_at = case when state = 'ok' then null else next_retry_at end
     where ${OF_PLACE}`
  await change(db, 'recording what a store has', text, placeOf(key))
}

const OF_PLACE = 'product_id = $1 and endpoint = $2 and variant = $3 and place = $4'

function placeOf({ productId, endpoint, variant, place }: PlacedKey): readonly unknown[] {
  return [productId, endpoint, variant, place]
}

/** The store could not be brought up to date; it keeps serving what it has. */
export async function endpointFailed(
  db: Queryable,
  key: EndpointKey,
  error: RecordedError,
  retryAfterMs: number,
): Promise<void> {
  await change(
    db,
    'recording what a store has',
    `insert into endpoint_states as s (product_id, endpoint, variant, state, error, attempts, next_retry_at)
     values ($1, $2, $3, 'failed', $4, 1, clock_timestamp() + make_interval(secs => $5::float8 / 1000))
     on conflict (product_id, endpoint, variant) do update
       set state = 'failed', error = $4, attempts = s.attempts + 1, updated_at = now(),
         next_retry_at = clock_timestamp() + make_interval(secs => $5::float8 / 1000)`,
    [key.productId, key.endpoint, key.variant, json(error), retryAfterMs],
  )
}

/**
 * The product has the copy no more, and it is read until others have come. Written down before those are: whoever is killed
 * right after them leaves a note of it. It comes due by a timetable of its own, not as long as theirs fail.
 */
export async function endpointOutlived(db: Queryable, key: EndpointKey, retryAfterMs: number): Promise<void> {
  await change(
    db,
    'recording what a store has',
    `update endpoint_states set state = case when state = 'ok' then 'pending' else state end, attempts = attempts + 1,
       next_retry_at = clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     where product_id = $1 and endpoint = $2 and variant = $3`,
    [key.productId, key.endpoint, key.variant, retryAfterMs],
  )
}

/**
 * The store is to be brought to a newer epoch, or built anew (`rebuild`): written in the transaction of the epoch, so
 * that a crash right after it leaves a note of what remains.
 */
export async function endpointPending(
  db: Queryable,
  key: EndpointKey,
  options: { readonly rebuild?: boolean } = {},
): Promise<void> {
  await endpointsPending(db, key.productId, [key], options)
}

/** The same, of several copies of a product: each is named once. */
export async function endpointsPending(
  db: Queryable,
  productId: string,
  copies: readonly Pick<EndpointKey, 'endpoint' | 'variant'>[],
  options: { readonly rebuild?: boolean } = {},
): Promise<void> {
  if (copies.length === 0) return
  await change(
    db,
    'recording what a store has',
    `insert into endpoint_states as s (product_id, endpoint, variant, state, next_retry_at)
     select $1, c.endpoint, c.variant, 'pending', clock_timestamp() from unnest($2::text[], $3::text[]) as c(endpoint, variant)
     on conflict (product_id, endpoint, variant) do update
       set state = 'pending', error = null, attempts = 0, next_retry_at = clock_timestamp(), updated_at = now(),
         applied_epoch = case when $4 then null else s.applied_epoch end`,
    [productId, copies.map(({ endpoint }) => endpoint), copies.map(({ variant }) => variant), options.rebuild ?? false],
  )
}

/**
 * What has become of a copy: nothing is there, an epoch from before, somebody else's rows, a place that cannot be read, or
 * rows that are not the lake's; or that it may have a row which is to be nowhere.
 */
export type CopyLoss = 'emptied' | 'outdated' | 'foreign' | 'unreadable' | 'drifted' | 'erased'

export const COPY_LOST = 'store_copy_lost'

const LOSSES: Readonly<Record<CopyLoss, string>> = {
  emptied: 'the store no longer has its copy',
  outdated: 'the store has an older copy than it had',
  foreign: 'the store has a copy that this installation did not write',
  unreadable: 'the copy in the store cannot be read',
  drifted: 'the copy in the store differs from the rows in the lake',
  erased: 'the copy in the store is made anew without a row that is erased',
}

/** The copy is built anew from the lake: readers get none of it until then. */
export function lostCopy(loss: CopyLoss): RecordedError {
  return { code: COPY_LOST, message: LOSSES[loss], remedy: 'It is built anew from the lake; nothing is to be done.' }
}

export function isUnreadable(error: RecordedError | null): boolean {
  return error?.code === COPY_LOST && error.message === LOSSES.unreadable
}

/** True where the copy has to be dropped before it is written, since the store does not know what it lacks. */
export function isToBeDropped(error: RecordedError | null): boolean {
  const { drifted, erased } = LOSSES
  return isUnreadable(error) || (error?.code === COPY_LOST && [drifted, erased].includes(error.message))
}

/** A copy that is said to be in order. */
export interface SoundCopy extends EndpointKey {
  readonly epoch: number
  readonly place: Place
  /** Another one tells that it was written since. */
  readonly updatedAt: Date
}

/** A copy where it was looked at. */
export interface PlacedKey extends EndpointKey {
  readonly place: Place
}

/** The copy as it is now; null where it is not said to have that epoch there, or is being written. */
export async function soundCopy(db: Queryable, key: PlacedKey, epoch: number): Promise<SoundCopy | null> {
  const { productId, endpoint, variant, place } = key
  const found = await maybeOne<{ readonly updatedAt: Date }>(
    db,
    'reading what the stores have',
    `select updated_at as "updatedAt" from endpoint_states
     where product_id = $1 and endpoint = $2 and variant = $3 and applied_epoch = $4 and state = 'ok' and place = $5`,
    [productId, endpoint, variant, epoch, place],
  )
  return found && { productId, endpoint, variant, epoch, place, updatedAt: found.updatedAt }
}

/** The store has lost what it was to have; false where the copy was written since it was looked at. */
export async function endpointLost(db: Queryable, copy: SoundCopy, loss: CopyLoss): Promise<boolean> {
  const changed = await change(
    db,
    'recording what a store has',
    `update endpoint_states set state = 'pending', applied_epoch = null, error = $5, attempts = 0,
       next_retry_at = clock_timestamp(), updated_at = now()
     where product_id = $1 and endpoint = $2 and variant = $3 and applied_epoch = $4 and state = 'ok' and updated_at = $6`,
    [copy.productId, copy.endpoint, copy.variant, copy.epoch, json(lostCopy(loss)), copy.updatedAt],
  )
  return changed > 0
}

/** Longer than stores take to drop what they have of a product. */
export const LEAVING_S = 600

/**
 * Stores are about to drop every copy of the product; of the tenant where that is null. Written down before they are
 * asked: a copy that is missing then is no loss, and nobody brings it back, unless the removal came to nothing.
 */
export async function endpointsLeaving(db: Queryable, tenant: string, productId: string | null): Promise<void> {
  await change(
    db,
    'noting that copies are removed',
    `update endpoint_states s set state = 'pending', applied_epoch = null, error = null, attempts = 0,
       next_retry_at = clock_timestamp() + make_interval(secs => $3), updated_at = now()
     from products p where p.id = s.product_id and p.tenant = $1 and ($2::text is null or p.id = $2)`,
    [tenant, productId, LEAVING_S],
  )
}

/** Endpoints of one database: products of one name and shape, whoever's they are, may share a table there. */
const IN_TABLES = ['lookup', 'timeseries']

/** Every copy at endpoints of those types is to be made anew; how many there are. */
export function loseCopies(db: Queryable, endpoints: readonly string[]): Promise<number> {
  return change(
    db,
    'recording what a store has',
    `update endpoint_states set state = 'pending', applied_epoch = null, error = $2, attempts = 0,
       next_retry_at = clock_timestamp(), updated_at = now()
     where endpoint = any($1)`,
    [endpoints, json(lostCopy('unreadable'))],
  )
}

/** Every copy of the product is dropped, with the history that it has, and made anew from the lake. Repeatable. */
export async function eraseCopies(db: Queryable, productId: string): Promise<void> {
  await change(
    db,
    'recording what a store has',
    `update endpoint_states set state = 'pending', applied_epoch = null, error = $2, attempts = 0,
       next_retry_at = clock_timestamp(), updated_at = now() where product_id = $1`,
    [productId, json(lostCopy('erased'))],
  )
}

export interface AppliedCopy extends SoundCopy {
  readonly tenant: string
  readonly committedAt: Date
}

const APPLIED = `select s.product_id as "productId", s.endpoint, s.variant, p.tenant, m.epoch, m.committed_at as "committedAt",
    s.updated_at as "updatedAt", s.place
  from endpoint_states s join products p on p.id = s.product_id
    join materializations m on m.product_id = s.product_id and m.epoch = s.applied_epoch`

const SOUND_FROM = `s.state = 'ok' and ($1::text is null or (s.product_id, s.endpoint, s.variant) > ($1, $2, $3))
  order by s.product_id, s.endpoint, s.variant limit $4`

function from(after: EndpointKey | null, limit: number): readonly unknown[] {
  return [after?.productId ?? null, after?.endpoint ?? null, after?.variant ?? null, limit]
}

/** Copies that are said to be in order, by their keys from `after` on. */
export function appliedCopies(db: Queryable, after: EndpointKey | null, limit: number): Promise<AppliedCopy[]> {
  return many<AppliedCopy>(db, 'reading what the stores have', `${APPLIED} where ${SOUND_FROM}`, [
    ...from(after, limit),
  ])
}

/** Those of `appliedCopies` that may lie in one table with the product's at that endpoint: its own, and others' of its name. */
export function copiesBeside(
  db: Queryable,
  { productId, endpoint }: Pick<EndpointKey, 'productId' | 'endpoint'>,
  after: EndpointKey | null,
  limit: number,
): Promise<AppliedCopy[]> {
  const types = IN_TABLES.includes(endpoint) ? IN_TABLES : [endpoint]
  return many<AppliedCopy>(
    db,
    'reading what the stores have',
    `${APPLIED} join products own on own.domain = p.domain and own.name = p.name
     where own.id = $5 and s.endpoint = any($6) and ${SOUND_FROM}`,
    [...from(after, limit), productId, types],
  )
}

/** How many copies are lost and not yet built anew. */
export async function lostCopies(db: Queryable): Promise<number> {
  const { count } = await one<{ readonly count: number }>(
    db,
    'counting copies in stores',
    `select count(*)::int as count from endpoint_states where state <> 'ok' and error ->> 'code' = $1`,
    [COPY_LOST],
  )
  return count
}

export function endpointStates(db: Queryable, productId: string): Promise<EndpointState[]> {
  return many<EndpointState>(
    db,
    'reading what the stores have',
    `select ${COLUMNS} from endpoint_states s where product_id = $1 order by endpoint, variant`,
    [productId],
  )
}

/** An endpoint as the newest of the versions that have had it declares it, with that version's output. */
export interface FormerEndpoint<Output> {
  readonly type: string
  readonly config: Readonly<Record<string, unknown>>
  readonly output: Output
}

/** Types of endpoints whose stores have, or may have, rows: of the product, or of all of the tenant where that is null. */
export async function heldEndpoints(db: Queryable, tenant: string, productId: string | null): Promise<string[]> {
  const rows = await many<{ readonly endpoint: string }>(
    db,
    'reading what the stores have',
    `select distinct s.endpoint from endpoint_states s join products p on p.id = s.product_id
     where p.tenant = $1 and ($2::text is null or p.id = $2) order by s.endpoint`,
    [tenant, productId],
  )
  return rows.map(({ endpoint }) => endpoint)
}

/** Every endpoint that a deployed version has had. */
export function endpointsEver<Output>(db: Queryable, productId: string): Promise<FormerEndpoint<Output>[]> {
  return many<FormerEndpoint<Output>>(
    db,
    'reading the endpoints of all versions',
    `select distinct on (item ->> 'type') item ->> 'type' as type, item -> 'config' as config,
       normalised -> 'output' as output
     from product_versions, jsonb_array_elements(normalised #> '{serving,endpoints}') item
     where product_id = $1 order by item ->> 'type', deployed_at desc, version desc`,
    [productId],
  )
}

/** Every variant that an epoch has had, or that a store was to have. */
export async function variantsEver(db: Queryable, productId: string): Promise<readonly string[]> {
  const rows = await many<{ readonly variant: string }>(
    db,
    'reading the variants of all epochs',
    `select variant from endpoint_states where product_id = $1
     union select jsonb_object_keys(snapshots) from materializations where product_id = $1 and epoch is not null`,
    [productId],
  )
  return rows.map(({ variant }) => variant)
}

/** The kind of the jobs that bring a product's endpoints up to date; their key is the product. */
export const ENDPOINTS_JOB = 'endpoints.retry'

export interface DueEndpoints {
  readonly productId: string
  readonly tenant: string
}

/**
 * Products with endpoints whose time for another attempt has come, or for what they have left to be dropped, the longest
 * waiting first. Those whose job waits or is done already are left out, so that what fails again and again stands in nobody's
 * way, and so are tenants on their way out.
 */
export function endpointsDue(db: Queryable, limit: number): Promise<DueEndpoints[]> {
  return many<DueEndpoints>(
    db,
    'reading what the stores have',
    `select s.product_id as "productId", p.tenant from endpoint_states s join products p on p.id = s.product_id
       join tenants t on t.slug = p.tenant and t.status = 'active'
     where (s.state <> 'ok' or s.leftover) and s.next_retry_at <= clock_timestamp() and not exists (
       select from jobs j where j.kind = $2 and j.key = s.product_id and coalesce(j.lease_until, j.due_at) is not null)
     group by s.product_id, p.tenant order by min(s.next_retry_at) limit $1`,
    [limit, ENDPOINTS_JOB],
  )
}

/** Forgets an endpoint or variant that the product no longer has. */
export async function forgetEndpoint(db: Queryable, key: EndpointKey): Promise<void> {
  const statement = 'delete from endpoint_states where product_id = $1 and endpoint = $2 and variant = $3'
  await change(db, 'forgetting an endpoint', statement, [key.productId, key.endpoint, key.variant])
}
