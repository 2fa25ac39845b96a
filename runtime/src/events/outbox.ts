/**
 * The transactional outbox. An event is inserted in the transaction of what it tells, so neither is ever there without
 * the other. Its number is given afterwards, to committed events only, under the tenant's lock: numbers become visible
 * in rising order and without gaps, so a reader that has seen 7 can never be shown a 6. Giving them at insertion would
 * either break that, since transactions commit in another order than they insert, or make all transactions of a tenant
 * wait for each other.
 *
 * Two events of one product keep their order: its fence is locked from before the insertion until the commit. They are
 * numbered by themselves too, so that who follows one product sees that it missed nothing.
 */
import { SluiceError } from '@sluice/sdk'
import { newId } from '../registry/ids.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from '../registry/sql.ts'
import {
  type CloudEvent,
  EVENT_KINDS,
  type EventKind,
  type EventRow,
  type NewEvent,
  toCloudEvent,
  topicName,
} from './envelope.ts'

/** Told at the commit of events; the payload is the tenant. */
export const EVENTS_CHANNEL = 'sluice_events'

/** Adds the event to the caller's transaction. Throws CONFLICT where the tenant has no topics (any more). */
export async function appendEvent(tx: Transaction, event: NewEvent): Promise<void> {
  const inserted = await change(
    tx,
    'writing an event',
    `insert into events (id, tenant, kind, type, subject, traceparent, data)
     select $1, $2, $3, $4, $5, $6, coalesce($7::jsonb, '{}') from event_topics where tenant = $2 and kind = $3`,
    [
      newId('evt'),
      event.tenant,
      event.kind,
      `sluice.${event.kind}.${event.name}`,
      event.subject ?? null,
      event.traceparent ?? null,
      json(event.data),
    ],
  )
  if (inserted === 0) {
    throw new SluiceError('CONFLICT', 'the tenant has no event topics', {
      code: 'tenant_not_active',
      remedy: 'The tenant is being removed, or its provisioning has not finished.',
    })
  }
  await change(tx, 'announcing an event', 'select pg_notify($1, $2)', [EVENTS_CHANNEL, event.tenant])
}

/** Makes the tenant's topics and returns their names. Repeatable. */
export async function provisionTopics(tx: Transaction, tenant: string): Promise<readonly string[]> {
  const names = EVENT_KINDS.map((kind) => topicName(tenant, kind))
  await change(
    tx,
    'making the topics',
    `insert into event_topics (tenant, kind, name) select $1, kind, name from unnest($2::text[], $3::text[]) as t(kind, name)
     on conflict do nothing`,
    [tenant, EVENT_KINDS, names],
  )
  await change(tx, 'making the topics', 'insert into event_counters (tenant) values ($1) on conflict do nothing', [
    tenant,
  ])
  return names
}

/** Removes the topics and the events in them. Repeatable. */
export async function dropTopics(tx: Transaction, tenant: string): Promise<void> {
  // The counter first, as whoever numbers events does: so neither waits for the other.
  await change(tx, 'removing the topics', 'delete from event_counters where tenant = $1', [tenant])
  await change(tx, 'removing the topics', 'delete from event_topics where tenant = $1', [tenant])
}

export async function listTopics(db: Queryable, tenant: string): Promise<readonly string[]> {
  const statement = 'select name from event_topics where tenant = $1 order by name'
  return (await many<{ name: string }>(db, 'listing topics', statement, [tenant])).map(({ name }) => name)
}

const LOCK_COUNTER = 'select last from event_counters where tenant = $1 for update'
const NUMBER = `
with fresh as (
  select position, row_number() over (order by position) as offset_, case when kind = any ($4) then subject end as product
  from (select position, kind, subject from events where tenant = $1 and sequence is null order by position limit $3) unnumbered
), counted as (
  insert into event_product_counters as counter (tenant, product, last)
  select $1, product, count(*) from fresh where product is not null group by product
  on conflict (tenant, product) do update set last = counter.last + excluded.last
  returning product, last
), placed as (
  select position, offset_, counted.last - count(*) over later + 1 as product_sequence
  from fresh left join counted using (product)
  window later as (partition by product order by position desc)
), numbered as (
  update events e set sequence = $2 + placed.offset_, product_sequence = placed.product_sequence
  from placed where e.position = placed.position returning e.sequence
)
update event_counters set last = greatest(last, (select max(sequence) from numbered)) where tenant = $1
returning (select count(*) from numbered) as numbered`

/** Those whose subject is a product. */
const KINDS_OF_PRODUCTS: readonly EventKind[] = ['deployment', 'materialization', 'quality']

export const MAX_NUMBERED_AT_ONCE = 1000

/** How many events were given numbers; at most 1000 a call. Any reader may do it. */
export async function numberEvents(tx: Transaction, tenant: string): Promise<number> {
  // Two statements, so that the second sees everything that was committed before the lock was had.
  const counter = await maybeOne<{ last: number }>(tx, 'numbering events', LOCK_COUNTER, [tenant])
  if (counter === null) return 0
  const values = [tenant, counter.last, MAX_NUMBERED_AT_ONCE, KINDS_OF_PRODUCTS]
  return (await maybeOne<{ numbered: number }>(tx, 'numbering events', NUMBER, values))?.numbered ?? 0
}

export async function hasUnnumbered(db: Queryable, tenant: string): Promise<boolean> {
  const statement = 'select 1 from events where tenant = $1 and sequence is null limit 1'
  return (await maybeOne(db, 'reading events', statement, [tenant])) !== null
}

export interface EventBounds {
  /** The number of the oldest event that can still be read, less one. */
  readonly removed: number
  readonly last: number
}

export function eventBounds(db: Queryable, tenant: string): Promise<EventBounds | null> {
  const statement = 'select removed, last from event_counters where tenant = $1'
  return maybeOne<EventBounds>(db, 'reading events', statement, [tenant])
}

/** The next numbered events after that number, in order. */
export async function readEvents(
  db: Queryable,
  tenant: string,
  after: number,
  limit: number,
): Promise<readonly CloudEvent[]> {
  const rows = await many<EventRow>(
    db,
    'reading events',
    `select id, tenant, type, subject, at, data, sequence, product_sequence, traceparent from events
     where tenant = $1 and sequence > $2 order by sequence limit $3`,
    [tenant, after, limit],
  )
  return rows.map(toCloudEvent)
}

/** Every tenant that has topics: for housekeeping. */
export async function tenantsWithTopics(db: Queryable): Promise<readonly string[]> {
  const rows = await many<{ tenant: string }>(
    db,
    'listing tenants',
    'select tenant from event_counters order by tenant',
  )
  return rows.map(({ tenant }) => tenant)
}

export interface Retention {
  /** Default 7 days. */
  readonly maxAgeMs?: number
  /** Per tenant. Default 10,000. */
  readonly maxEvents?: number
}

export const MAX_AGE_MS = 7 * 24 * 60 * 60 * 1000
const MAX_EVENTS = 10_000
const MAX_REMOVED_AT_ONCE = 5000

/** Removes what is too old or too much and has been relayed, oldest first, at most 5000 a call; returns how many. */
export async function pruneEvents(tx: Transaction, tenant: string, retention: Retention = {}): Promise<number> {
  const row = await maybeOne<{ removed: number }>(
    tx,
    'removing old events',
    `with bound as (
       select last, removed from event_counters where tenant = $1 for update
     ), doomed as (
       select max(sequence) as until from (
         select sequence from events, bound
         where tenant = $1 and sequence is not null
           and (sequence <= last - $3 or at < clock_timestamp() - make_interval(secs => $2::float8 / 1000))
           and sequence <= coalesce((select min(p.sequence) from event_relay_positions p where p.tenant = $1), sequence)
         order by sequence limit ${MAX_REMOVED_AT_ONCE}) oldest
     ), gone as (
       delete from events e using doomed where e.tenant = $1 and e.sequence <= doomed.until returning 1
     )
     update event_counters set removed = greatest(event_counters.removed, (select until from doomed))
     where tenant = $1 returning (select count(*) from gone) as removed`,
    [tenant, retention.maxAgeMs ?? MAX_AGE_MS, retention.maxEvents ?? MAX_EVENTS],
  )
  return row?.removed ?? 0
}
