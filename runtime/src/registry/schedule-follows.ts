/** What schedules wait for that go by other products: which these are, and how far each was at the last tick. */
import { SCHEDULE_JOB } from './schedule-job.ts'
import { change, json, many, type Queryable, type Transaction } from './sql.ts'

export interface FollowedProduct {
  /** `namespace.name` */
  readonly name: string
  /** Null: there is none. */
  readonly id: string | null
}

export interface Follow {
  readonly name: string
  /** Null: it was deleted. */
  readonly productId: string | null
  readonly seenEpoch: number
  /** Its newest; 0: none. */
  readonly epoch: number
}

/** Of those that are followed already, what was seen stays; those that come new count from their epoch of now. */
export async function setFollows(
  tx: Transaction,
  scheduleId: string,
  followed: readonly FollowedProduct[],
): Promise<void> {
  await change(
    tx,
    'setting what a schedule waits for',
    `delete from schedule_follows f where schedule_id = $1 and not exists (
       select from jsonb_to_recordset($2::jsonb) as kept (name text, id text)
       where kept.name = f.name and kept.id = f.product_id)`,
    [scheduleId, json(followed)],
  )
  await change(
    tx,
    'setting what a schedule waits for',
    `insert into schedule_follows (schedule_id, name, product_id, seen_epoch)
     select $1, wanted.name, p.id, coalesce(f.epoch, 0)
     from jsonb_to_recordset($2::jsonb) as wanted (name text, id text)
       left join products p on p.id = wanted.id left join product_fences f on f.product_id = p.id
     on conflict (schedule_id, name) do nothing`,
    [scheduleId, json(followed)],
  )
}

export function followsOf(db: Queryable, scheduleId: string): Promise<Follow[]> {
  return many<Follow>(
    db,
    'reading what a schedule waits for',
    `select s.name, s.product_id as "productId", s.seen_epoch as "seenEpoch", coalesce(f.epoch, 0) as epoch
     from schedule_follows s left join product_fences f on f.product_id = s.product_id
     where s.schedule_id = $1 order by s.name`,
    [scheduleId],
  )
}

/** What they have by now is not news any more. */
export async function noteSeen(tx: Transaction, scheduleId: string, seen: readonly Follow[]): Promise<void> {
  await change(
    tx,
    'noting what a schedule has seen',
    `update schedule_follows f set seen_epoch = seen.epoch
     from jsonb_to_recordset($2::jsonb) as seen (name text, epoch bigint)
     where f.schedule_id = $1 and f.name = seen.name`,
    [scheduleId, json(seen)],
  )
}

/**
 * Has the schedules looked at that wait for the product, once the transaction has committed. Jobs are locked in one order:
 * two commits that are waited for by the same schedules do not wait for each other.
 */
export async function wakeFollowers(tx: Transaction, productId: string): Promise<void> {
  await change(
    tx,
    'waking schedules',
    `with waiting as (
       select j.key from schedule_follows f join jobs j on j.kind = $2 and j.key = f.schedule_id
       where f.product_id = $1 order by j.key for update of j)
     update jobs j set due_at = least(coalesce(j.due_at, clock_timestamp()), clock_timestamp())
     from waiting where j.kind = $2 and j.key = waiting.key`,
    [productId, SCHEDULE_JOB],
  )
}

/**
 * Of these products the one that waits for `productId`, be it through others: a schedule of it that waits for them would
 * wait for itself. Null where none does. Sees what the transaction has locked others from changing.
 */
export async function followsItself(
  db: Queryable,
  productId: string,
  followed: readonly FollowedProduct[],
): Promise<string | null> {
  const [found] = await many<{ readonly name: string }>(
    db,
    'looking for circles of schedules',
    `with recursive reached as (
       select w.name as first, w.id from jsonb_to_recordset($2::jsonb) as w (name text, id text)
       union
       select r.first, f.product_id from reached r join schedule_follows f on f.schedule_id = r.id
       where f.product_id is not null)
     select first as name from reached where id = $1 order by first limit 1`,
    [productId, json(followed)],
  )
  return found?.name ?? null
}
