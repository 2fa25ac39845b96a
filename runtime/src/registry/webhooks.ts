/** Where changes of products are delivered. Addresses and signing keys are sealed with the tenant's key. */
import type { Principal } from '../flow.ts'
import { type Actor, actorOf } from './actor.ts'
import { newId } from './ids.ts'
import type { MasterKeys } from './master-keys.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { seal, unseal } from './sealing.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'
import { currentTenantKey, type TenantKey, tenantKey } from './tenant-keys.ts'

/** The kind of the jobs that deliver, each under the id of its webhook. */
export const WEBHOOKS_JOB = 'webhooks'

export const WEBHOOK_STATES = ['active', 'paused', 'failed', 'ended'] as const
export type WebhookState = (typeof WEBHOOK_STATES)[number]

/** Up to where a receiver has the changes: as places of those who follow a product. */
export interface WebhookPlace {
  readonly shape: string
  readonly epoch: number | null
  readonly target: number | null
  readonly offset: number
}

export interface Webhook {
  readonly id: string
  readonly tenant: string
  readonly productId: string
  /** `namespace.name` */
  readonly productName: string
  readonly name: string
  /** Of the address, which itself is told to nobody. */
  readonly host: string
  /** By whose rights it delivers. */
  readonly applicationKey: string
  readonly createdBy: Actor
  readonly state: WebhookState
  readonly reason: string | null
  readonly place: WebhookPlace
  readonly round: number
  readonly sequence: number
  /** Of the delivery that was begun and is not acknowledged. */
  readonly sending: string | null
  readonly attempts: number
  readonly failingSince: Date | null
  readonly nextAt: Date | null
  /** For the next try, by the registry's clock. */
  readonly isWaiting: boolean
  readonly status: number | null
  readonly errorCode: string | null
  readonly deliveredAt: Date | null
  readonly createdAt: Date
}

export interface WebhookSecret {
  readonly url: string
  readonly signingKey: string
}

const COLUMNS = `w.id, w.tenant, w.product_id as "productId", p.domain || '.' || p.name as "productName", w.name, w.host,
  w.application_key as "applicationKey", w.created_by as "createdBy", w.state, w.reason, w.place, w.round, w.sequence, w.sending,
  w.attempts, w.failing_since as "failingSince", w.next_at as "nextAt", coalesce(w.next_at > clock_timestamp(), false) as "isWaiting", w.status, w.error_code as "errorCode",
  w.delivered_at as "deliveredAt", w.created_at as "createdAt"`
const FOUND = `select ${COLUMNS} from webhooks w join products p on p.id = w.product_id`

const MOST_OF_A_PRODUCT = 10
const MOST_OF_A_TENANT = 50

export interface NewWebhook
  extends Pick<Webhook, 'tenant' | 'productId' | 'name' | 'host' | 'applicationKey' | 'place'> {
  readonly secret: WebhookSecret
  readonly maker: Principal
}

/** Null where the product or the tenant has as many as it may. */
export async function createWebhook(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, productId, name, host, applicationKey, place, secret, maker }: NewWebhook,
): Promise<Webhook | null> {
  // Before the key is read: a rotation waits for this transaction, or this one has waited for it. And others wait to be counted.
  await change(tx, 'locking the webhooks', 'lock table webhooks in share row exclusive mode')
  const key = await currentTenantKey(tx, masters, tenant, 'secret')
  const id = newId('whk')
  const made = await change(
    tx,
    'making a webhook',
    `insert into webhooks (id, tenant, product_id, name, host, key_version, sealed, application_key, created_by, place)
     select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
     where (select count(*) from webhooks where product_id = $3) < ${MOST_OF_A_PRODUCT}
       and (select count(*) from webhooks where tenant = $2) < ${MOST_OF_A_TENANT}`,
    [
      id,
      tenant,
      productId,
      name,
      host,
      key.version,
      sealed({ id, tenant }, secret, key),
      applicationKey,
      json(actorOf(maker)),
      json(place),
    ],
  )
  return made === 0 ? null : findWebhook(tx, tenant, id)
}

function sealed({ id, tenant }: Pick<Webhook, 'id' | 'tenant'>, secret: WebhookSecret, key: TenantKey): Buffer {
  return seal(key.key, Buffer.from(JSON.stringify(secret)), ['webhook', tenant, id, key.version])
}

interface SealedRow {
  readonly id: string
  readonly tenant: string
  readonly keyVersion: number
  readonly sealed: Buffer
}

const SEALED = 'select id, tenant, key_version as "keyVersion", sealed from webhooks'

async function opened(db: Queryable, masters: MasterKeys, row: SealedRow): Promise<WebhookSecret> {
  const { key } = await tenantKey(db, masters, row.tenant, 'secret', row.keyVersion)
  const text = unseal(key, row.sealed, ['webhook', row.tenant, row.id, row.keyVersion]).toString('utf8')
  return JSON.parse(text) as WebhookSecret
}

/** In clear, for the delivery alone. Null where the webhook is gone. */
export async function readWebhookSecret(db: Queryable, masters: MasterKeys, id: string): Promise<WebhookSecret | null> {
  const row = await maybeOne<SealedRow>(db, 'reading a webhook', `${SEALED} where id = $1`, [id])
  return row && opened(db, masters, row)
}

/** Part of the rotation of the tenant's key: returns how many were sealed anew. */
export async function resealWebhooks(
  tx: Transaction,
  masters: MasterKeys,
  tenant: string,
  next: TenantKey,
): Promise<number> {
  const rows = await many<SealedRow>(tx, 'reading webhooks', `${SEALED} where tenant = $1`, [tenant])
  for (const row of rows) {
    const bytes = sealed(row, await opened(tx, masters, row), next)
    const statement = 'update webhooks set key_version = $2, sealed = $3 where id = $1'
    await change(tx, 'sealing a webhook', statement, [row.id, next.version, bytes])
  }
  return rows.length
}

/** Of one product, newest first. */
export async function listWebhooks(db: Queryable, productId: string, page: PageRequest): Promise<Page<Webhook>> {
  const parameters = pageParameters(page)
  const rows = await many<Webhook>(
    db,
    'listing webhooks',
    `${FOUND} where w.product_id = $4 and ($2::timestamptz is null or (w.created_at, w.id) < ($2, $3))
     order by w.created_at desc, w.id desc limit $1`,
    [...parameters, productId],
  )
  return toPage(rows, parameters, (row) => row)
}

export function findWebhook(db: Queryable, tenant: string, id: string): Promise<Webhook | null> {
  return maybeOne<Webhook>(db, 'reading a webhook', `${FOUND} where w.tenant = $1 and w.id = $2`, [tenant, id])
}

export async function removeWebhook(tx: Transaction, id: string): Promise<void> {
  await change(tx, 'removing a webhook', 'delete from webhooks where id = $1', [id])
}

/** False where it was in none of these states. What was tried in vain before is forgotten. */
export async function setWebhookState(
  db: Queryable,
  id: string,
  { from, to }: { readonly from: readonly WebhookState[]; readonly to: 'active' | 'paused' },
): Promise<boolean> {
  const set = await change(
    db,
    'changing a webhook',
    `update webhooks set state = $3, reason = null, attempts = 0, failing_since = null, next_at = null
     where id = $1 and state = any($2)`,
    [id, from, to],
  )
  return set > 0
}

/** More than a registry that is put back could lack. */
const DELIVERIES_PASSED = 1_000_000

/** Receivers leave aside what has no higher number than they have had: deliveries go on above all that were ever begun. */
export async function passDeliveries(db: Queryable, productId: string): Promise<void> {
  const text = 'update webhooks set sequence = sequence + $2 where product_id = $1'
  await change(db, 'passing deliveries over', text, [productId, DELIVERIES_PASSED])
}

/** What receivers have is of that epoch, which the registry does not know: with the next one they are told to begin anew. */
export async function webhooksHave(db: Queryable, productId: string, epoch: number): Promise<void> {
  await change(
    db,
    'keeping how far receivers have the changes',
    `update webhooks set place = place || jsonb_build_object('epoch', $2::bigint, 'target', null, 'offset', 0)
     where product_id = $1 and place ->> 'epoch' is not null`,
    [productId, epoch],
  )
}

/** Epochs of the product that receivers have, or have a part of: what comes to them next begins there. */
export async function webhookEpochs(db: Queryable, productId: string): Promise<readonly number[]> {
  const rows = await many<{ epoch: number }>(
    db,
    'reading how far receivers have the changes',
    `select distinct named.epoch::bigint as epoch
     from webhooks w, lateral (values (w.place ->> 'epoch'), (w.place ->> 'target')) named (epoch)
     where w.product_id = $1 and w.state in ('active', 'paused', 'failed') and named.epoch is not null`,
    [productId],
  )
  return rows.map(({ epoch }) => Number(epoch))
}
