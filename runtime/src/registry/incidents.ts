/**
 * Incidents: a connection or product fails for one cause, once or a thousand times, until it does not any more. Whoever has
 * a target of notifications is told when one opens and when it closes: administrators of all, others of connections that
 * they made and products that they deployed last.
 */
import { newId } from './ids.ts'
import { change, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

export type IncidentSubject = { readonly connectionId: string } | { readonly productId: string }

/** Of rows that are older than `slo.freshness`; other causes are codes of errors. */
export const STALE = 'freshness_missed'

/** Of a webhook of a product's changes whose receiver did not take a delivery for as long as it is tried. */
export const WEBHOOK_FAILED = 'webhook_failed'

/** Of a product whose rows are not what one that is made of it expects. */
export const EXPECTATION_FAILED = 'expectation_failed'

/** Of a product whose input, another product, is not what it expects. */
export const INPUT_UNEXPECTED = 'input_unexpected'

/** Causes that a run which succeeds says nothing of. */
export const NOT_OF_RUNS: readonly string[] = [STALE, WEBHOOK_FAILED, EXPECTATION_FAILED, INPUT_UNEXPECTED]

/** The kind of the jobs that deliver notifications, each under the id of its target. */
export const NOTIFICATIONS_JOB = 'notifications'

const idOf = (subject: IncidentSubject): string =>
  'connectionId' in subject ? subject.connectionId : subject.productId

/** False: it was open already, and counts once more; or what it would be of is gone, or a preview. */
export async function openIncident(
  tx: Transaction,
  tenant: string,
  subject: IncidentSubject,
  { cause, runId = null }: { readonly cause: string; readonly runId?: string | null },
): Promise<boolean> {
  const row = await maybeOne<{ readonly id: string; readonly isNew: boolean }>(
    tx,
    'opening an incident',
    `insert into incidents as i (id, tenant, connection_id, product_id, cause, run_id) select $1, $2, $3, $4, $5, $6
     where exists (select from connections where id = $3) or exists (select from products where id = $4 and preview_of is null)
     on conflict (coalesce(connection_id, product_id), cause) where closed_at is null
       do update set times = i.times + 1, last_at = clock_timestamp(), run_id = excluded.run_id
     returning id, id = $1 as "isNew"`,
    [
      newId('inc'),
      tenant,
      'connectionId' in subject ? subject.connectionId : null,
      'productId' in subject ? subject.productId : null,
      cause,
      runId,
    ],
  )
  if (row?.isNew === true) await tell(tx, row.id)
  return row?.isNew === true
}

/** Of all causes, or of that one, or of all but those. Returns how many. */
export async function closeIncidents(
  tx: Transaction,
  subject: IncidentSubject,
  { only, except }: { readonly only?: string; readonly except?: readonly string[] } = {},
): Promise<number> {
  const closed = await many<{ readonly id: string }>(
    tx,
    'closing incidents',
    `update incidents set closed_at = clock_timestamp()
     where coalesce(connection_id, product_id) = $1 and closed_at is null
       and ($2::text is null or cause = $2) and cause <> all($3::text[])
     returning id`,
    [idOf(subject), only ?? null, except ?? []],
  )
  for (const { id } of closed) {
    const told = `select target_id, incident_id, 'closed' from notifications where incident_id = $1 and what = 'opened'`
    await addNotifications(tx, told, id)
  }
  return closed.length
}

/** Whether an incident of that cause is open. */
export async function hasIncident(db: Queryable, productId: string, cause: string): Promise<boolean> {
  const statement = `select id from incidents where coalesce(connection_id, product_id) = $1 and cause = $2 and closed_at is null`
  return (
    (await maybeOne<{ readonly id: string }>(db, 'looking for an incident', statement, [productId, cause])) !== null
  )
}

async function tell(tx: Transaction, incidentId: string): Promise<void> {
  await addNotifications(
    tx,
    `select t.id, i.id, 'opened' from incidents i
       left join connections c on c.id = i.connection_id
       left join products p on p.id = i.product_id
       left join product_versions v on v.product_id = p.id and v.version = p.current_version
       join notification_targets t on t.tenant = i.tenant and t.may_hear
         and (t.of_all or t.created_by = coalesce(c.created_by, v.deployed_by))
     where i.id = $1`,
    incidentId,
  )
}

/** Jobs of targets are asked for in one order, so that transactions which tell the same do not wait for each other. */
async function addNotifications(tx: Transaction, rows: string, incidentId: string): Promise<void> {
  const targets = await many<{ readonly id: string }>(
    tx,
    'noting notifications',
    `with told as (${rows}), noted as (
       insert into notifications (target_id, incident_id, what) select * from told on conflict do nothing returning target_id)
     select distinct target_id as id from noted order by 1`,
    [incidentId],
  )
  for (const { id } of targets) {
    await change(
      tx,
      'asking for notifications',
      `insert into jobs as j (kind, key, tenant, due_at) select $1, id, tenant, clock_timestamp() from notification_targets where id = $2
       on conflict (kind, key) do update set due_at = least(j.due_at, excluded.due_at) where j.attempts = 0`,
      [NOTIFICATIONS_JOB, id],
    )
  }
}

export interface Notification {
  readonly targetId: string
  readonly incidentId: string
  readonly what: 'opened' | 'closed'
  readonly tenant: string
  readonly kind: 'connection' | 'product'
  readonly subjectId: string
  /** Of a product: `namespace.name`. */
  readonly subjectName: string
  readonly cause: string
  readonly times: number
  readonly runId: string | null
  readonly openedAt: Date
  readonly closedAt: Date | null
  /** It has waited for so long that nobody needs it any more. */
  readonly isTooLate: boolean
}

const GIVEN_UP_AFTER = '24 hours'

/** The oldest that waits for the target; null: none does. */
export function nextNotification(db: Queryable, targetId: string): Promise<Notification | null> {
  return maybeOne<Notification>(
    db,
    'reading notifications',
    `select n.target_id as "targetId", n.incident_id as "incidentId", n.what, i.tenant, i.cause, i.times, i.run_id as "runId",
       case when i.product_id is null then 'connection' else 'product' end as kind,
       coalesce(i.connection_id, i.product_id) as "subjectId", coalesce(c.name, p.domain || '.' || p.name) as "subjectName",
       i.opened_at as "openedAt", i.closed_at as "closedAt",
       n.created_at < clock_timestamp() - interval '${GIVEN_UP_AFTER}' as "isTooLate"
     from notifications n join incidents i on i.id = n.incident_id
       left join connections c on c.id = i.connection_id left join products p on p.id = i.product_id
     where n.target_id = $1 and n.done_at is null order by n.position limit 1`,
    [targetId],
  )
}

export async function noteDone(
  db: Queryable,
  { targetId, incidentId, what }: Pick<Notification, 'targetId' | 'incidentId' | 'what'>,
): Promise<void> {
  const statement = `update notifications set done_at = clock_timestamp() where target_id = $1 and incident_id = $2 and what = $3`
  await change(db, 'noting a notification', statement, [targetId, incidentId, what])
}

/** Removes those that were closed a month ago, with what was told of them; at most so many. Returns how many. */
const DAYS_KEPT = 30

/** Those that closed a month ago; `aheadDays` more where the clock may be ahead by them. */
export function pruneIncidents(db: Queryable, limit: number, aheadDays = 0): Promise<number> {
  return change(
    db,
    'removing old incidents',
    `delete from incidents where id in (
       select id from incidents where closed_at < clock_timestamp() - make_interval(secs => 86400 * $2::float8) limit $1)`,
    [limit, DAYS_KEPT + aheadDays],
  )
}
