/**
 * How far deliveries to webhooks are. Each step holds only for the place that it was read for, and only while its job is held: of
 * two runtimes that hold a webhook for theirs one is heard.
 */
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, type Queryable } from './sql.ts'
import { WEBHOOKS_JOB, type Webhook, type WebhookPlace } from './webhooks.ts'

/** The job of the webhook, under the token of whoever holds it. */
export interface HeldJob {
  readonly token: number
}

const UNCHANGED = `w.id = $1 and w.round = $2 and w.place = $3 and exists (
  select from jobs where kind = '${WEBHOOKS_JOB}' and key = $1 and token = $4 and lease_until is not null)`
const unchanged = ({ id, round, place }: Webhook, { token }: HeldJob) => [id, round, json(place), token] as const

/**
 * Before it is sent: gives the delivery its number, the same for one that was begun before. Null: the webhook is not active any
 * more, or somebody else's.
 */
export async function beginDelivery(
  db: Queryable,
  job: HeldJob,
  webhook: Webhook,
  delivery: string,
): Promise<number | null> {
  const begun = await maybeOne<{ readonly sequence: number }>(
    db,
    'beginning a delivery',
    `update webhooks w set sending = $5, sequence = w.sequence + case when w.sending = $5 then 0 else 1 end
     where ${UNCHANGED} and w.state = 'active' returning w.sequence`,
    [...unchanged(webhook, job), delivery],
  )
  return begun?.sequence ?? null
}

export interface Acknowledged {
  readonly delivery: string
  readonly status: number
  /** Where the receiver is from here on. */
  readonly place: WebhookPlace
  readonly isAnew: boolean
}

/** The receiver has it. False where somebody else has noted so. */
export async function noteAcknowledged(
  db: Queryable,
  job: HeldJob,
  webhook: Webhook,
  { delivery, status, place, isAnew }: Acknowledged,
): Promise<boolean> {
  const noted = await change(
    db,
    'noting a delivery',
    `update webhooks w set place = $6, round = w.round + $7, sending = null, attempts = 0, failing_since = null, next_at = null,
       status = $8, error_code = null, delivered_at = clock_timestamp()
     where ${UNCHANGED} and w.sending = $5`,
    [...unchanged(webhook, job), delivery, json(place), isAnew ? 1 : 0, status],
  )
  return noted > 0
}

export interface FailedTry {
  readonly errorCode: string
  readonly status: number | null
  readonly againMs: number
}

export interface FailureSoFar {
  readonly attempts: number
  readonly nextAt: Date
  readonly failingForMs: number
}

/** Null where it is somebody else's. */
export function noteFailedTry(
  db: Queryable,
  job: HeldJob,
  webhook: Webhook,
  { errorCode, status, againMs }: FailedTry,
): Promise<FailureSoFar | null> {
  return maybeOne<FailureSoFar>(
    db,
    'noting a delivery',
    `update webhooks w set attempts = w.attempts + 1, failing_since = coalesce(w.failing_since, clock_timestamp()), status = $5,
       error_code = $6, next_at = clock_timestamp() + make_interval(secs => $7::float8 / 1000)
     where ${UNCHANGED}
     returning w.attempts, w.next_at as "nextAt",
       1000 * extract(epoch from clock_timestamp() - w.failing_since)::float8 as "failingForMs"`,
    [...unchanged(webhook, job), status, errorCode, againMs],
  )
}

/** It delivers nothing any more, for that reason. False where it is not active, or somebody else's. */
export async function stopWebhook(
  db: Queryable,
  job: HeldJob,
  webhook: Webhook,
  { to, reason }: { readonly to: 'failed' | 'ended'; readonly reason: string },
): Promise<boolean> {
  const stopped = await change(
    db,
    'stopping a webhook',
    `update webhooks w set state = $5, reason = $6, next_at = null where ${UNCHANGED} and w.state = 'active'`,
    [...unchanged(webhook, job), to, reason],
  )
  return stopped > 0
}

export interface DeadLetter {
  readonly id: string
  readonly delivery: string
  readonly sequence: number
  readonly epoch: number | null
  readonly attempts: number
  readonly status: number | null
  readonly errorCode: string
  readonly failingSince: Date
  readonly createdAt: Date
  readonly redeliveredAt: Date | null
}

const LETTER = `id, delivery, sequence, epoch, attempts, status, error_code as "errorCode", failing_since as "failingSince",
  created_at as "createdAt", redelivered_at as "redeliveredAt"`
const MOST_LETTERS = 100

/** Of a webhook that has failed just now. The oldest make room. */
export async function addDeadLetter(
  db: Queryable,
  webhookId: string,
  { delivery, epoch, errorCode }: Pick<DeadLetter, 'delivery' | 'epoch' | 'errorCode'>,
): Promise<void> {
  await change(
    db,
    'noting a dead letter',
    `insert into webhook_dead_letters (id, webhook_id, delivery, sequence, epoch, attempts, status, error_code, failing_since)
     select $2, id, $3, sequence, $4, attempts, status, $5, coalesce(failing_since, clock_timestamp()) from webhooks where id = $1`,
    [webhookId, newId('ltr'), delivery, epoch, errorCode],
  )
  await change(
    db,
    'removing old dead letters',
    `delete from webhook_dead_letters where id in (
       select id from webhook_dead_letters where webhook_id = $1 order by created_at desc, id desc offset ${MOST_LETTERS})`,
    [webhookId],
  )
}

/** What waited to be delivered again has been. Returns how many. */
export function noteRedelivered(db: Queryable, webhookId: string): Promise<number> {
  const statement =
    'update webhook_dead_letters set redelivered_at = clock_timestamp() where webhook_id = $1 and redelivered_at is null'
  return change(db, 'noting a delivery', statement, [webhookId])
}

export async function listDeadLetters(db: Queryable, webhookId: string, page: PageRequest): Promise<Page<DeadLetter>> {
  const parameters = pageParameters(page)
  const rows = await many<DeadLetter>(
    db,
    'listing dead letters',
    `select ${LETTER} from webhook_dead_letters
     where webhook_id = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, webhookId],
  )
  return toPage(rows, parameters, (row) => row)
}

/** Whether another delivery of the product waits to be delivered again. */
export async function hasDeadLetters(db: Queryable, productId: string): Promise<boolean> {
  const found = await maybeOne(
    db,
    'reading dead letters',
    `select from webhooks w join webhook_dead_letters l on l.webhook_id = w.id
     where w.product_id = $1 and l.redelivered_at is null limit 1`,
    [productId],
  )
  return found !== null
}

/** Makes the jobs due of active webhooks whose products have newer epochs, and that are not waiting after a failure. */
export async function askForDeliveries(db: Queryable): Promise<void> {
  await change(
    db,
    'asking for deliveries',
    `insert into jobs as j (kind, key, tenant, due_at)
     select '${WEBHOOKS_JOB}', w.id, w.tenant, clock_timestamp() from webhooks w join tenants t on t.slug = w.tenant
     where w.state = 'active' and t.status = 'active' and w.next_at is null
       and (w.place->>'epoch' is null or exists (
         select from materializations m where m.product_id = w.product_id and m.epoch > (w.place->>'epoch')::bigint))
     on conflict (kind, key) do update set due_at = excluded.due_at
       where j.lease_until is null and (j.due_at is null or (j.due_at > excluded.due_at and j.attempts = 0))`,
  )
}
