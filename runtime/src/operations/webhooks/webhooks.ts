/** Webhooks of a product's changes: who makes them, and what may be done with them. */
import { randomBytes } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { placeOf } from '../../events/post-json.ts'
import type { TenantCall } from '../../flow.ts'
import { forgetJob, hurryJob } from '../../jobs/claims.ts'
import { principalOfKey } from '../../policy/key-principal.ts'
import { isActor } from '../../registry/actor.ts'
import { presentedKey } from '../../registry/application-keys.ts'
import { requireStays } from '../../registry/deletions.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { type DeadLetter, listDeadLetters } from '../../registry/webhook-deliveries.ts'
import {
  createWebhook,
  findWebhook,
  listWebhooks,
  readWebhookSecret,
  removeWebhook,
  setWebhookState,
  WEBHOOKS_JOB,
  type Webhook,
  type WebhookState,
} from '../../registry/webhooks.ts'
import { audited } from '../audit.ts'
import { followerOf } from '../changes/follow-changes.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import { isPermitted, requireStillHeld } from '../queries/held-rights.ts'
import { closeWhereNoneWaits } from './deliver.ts'
import type { WebhooksDeps } from './deps.ts'
import { type Answered, sendSigned } from './send.ts'

export interface WebhookRequest {
  readonly name: string
  readonly url: string
  /** Id of a key of the caller's, by whose rights it delivers. */
  readonly applicationKey: string
  readonly from: 'now' | 'start'
  /** Default: a new one. */
  readonly signingKey?: string
}

export interface MadeWebhook {
  readonly webhook: Webhook
  /** What bodies are signed with. Null where it was shown before. */
  readonly signingKey: string | null
}

/**
 * Throws what following the product as the key would, CONFLICT `product_being_deleted`, `application_key_not_found`, `webhook_key_unusable`, PERMISSION
 * `address_refused`, INVALID_DATA `invalid_webhook_address`, CONFLICT `too_many_webhooks`.
 */
export async function makeWebhook(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  { name, url, applicationKey, from, signingKey: given }: WebhookRequest,
  keep: Keep<MadeWebhook>,
): Promise<MadeWebhook> {
  requireDeveloper(call.principal)
  const { tenant } = call
  const product = await productOf(platform, call, reference)
  const follower = await followerOf(platform, await callOfKey(platform, call, applicationKey), product.id)
  const place = await follower.begin(from)
  const host = await hostOf(platform, url, call.signal)
  const signingKey = given ?? `whsec_${randomBytes(32).toString('base64')}`
  const wanted = { tenant, productId: product.id, name, host, applicationKey, place, maker: call.principal }
  return inTransaction(platform.pool, async (tx) => {
    await requireStays(tx, product.id)
    const webhook = await createWebhook(tx, platform.masters, { ...wanted, secret: { url, signingKey } })
    if (webhook === null) throw tooMany()
    await hurryJob(tx, { kind: WEBHOOKS_JOB, key: webhook.id, tenant }, 0)
    const details = { name, host, product: product.id, application_key: applicationKey }
    await audited(tx, call, tenant, 'webhook.create', { type: 'webhook', id: webhook.id }, details)
    await keep(tx, { webhook, signingKey: null })
    return { webhook, signingKey }
  })
}

/** What the key may be shown, its maker may. */
async function callOfKey(platform: WebhooksDeps, call: TenantCall, id: string) {
  const key = await presentedKey(platform.pool, id)
  if (key === null || key.tenant !== call.tenant || !isActor(call.principal, key.createdBy)) {
    throw new SluiceError('INVALID_DATA', 'you have made no such application key', {
      code: 'application_key_not_found',
      remedy: 'Make one, or take one of yours: the list of keys says who made which.',
    })
  }
  const { tenant, requestId, signal } = call
  const keyCall = { tenant, principal: principalOfKey(key), requestId, signal }
  if (key.operations.includes('read') && (await isPermitted(() => requireStillHeld(platform, keyCall)))) return keyCall
  throw new SluiceError('INVALID_DATA', 'the application key is not for reading, or has expired', {
    code: 'webhook_key_unusable',
    remedy: 'Make a key whose operations have read.',
  })
}

async function hostOf({ connectorHost }: WebhooksDeps, url: string, signal: AbortSignal): Promise<string> {
  try {
    return (await placeOf(url, connectorHost.network, signal)).host
  } catch (error) {
    if (!isSluiceError(error) || error.code !== 'invalid_notification_target') throw error
    const { message, remedy } = error
    throw new SluiceError('INVALID_DATA', message, { code: 'invalid_webhook_address', ...(remedy && { remedy }) })
  }
}

/** Newest first. */
export async function webhooksOf(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  page: PageRequest,
): Promise<Page<Webhook>> {
  requireDeveloper(call.principal)
  return listWebhooks(platform.pool, (await productOf(platform, call, reference)).id, page)
}

/** Throws `webhook_not_found`. */
export async function webhookOf(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<Webhook> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const webhook = await findWebhook(platform.pool, call.tenant, id)
  if (webhook === null || webhook.productId !== product.id) throw notFound('webhook')
  return webhook
}

/** For its maker and administrators. Throws PERMISSION `webhook_owner_required`. */
async function ownWebhook(platform: WebhooksDeps, call: TenantCall, reference: string, id: string): Promise<Webhook> {
  const webhook = await webhookOf(platform, call, reference, id)
  if (call.principal.isAdmin || isActor(call.principal, webhook.createdBy)) return webhook
  throw new SluiceError('PERMISSION', 'only its maker changes a webhook', {
    code: 'webhook_owner_required',
    remedy: 'Ask whoever made it, or an administrator. Any developer ends it by revoking its application key.',
  })
}

export async function dropWebhook(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<void> {
  const { productId } = await ownWebhook(platform, call, reference, id)
  await inTransaction(platform.pool, async (tx) => {
    await removeWebhook(tx, id)
    await forgetJob(tx, { kind: WEBHOOKS_JOB, key: id })
    await closeWhereNoneWaits(tx, productId)
    await audited(tx, call, call.tenant, 'webhook.delete', { type: 'webhook', id })
  })
}

const CHANGES = {
  pause: { from: ['active'], to: 'paused', action: 'webhook.pause' },
  resume: { from: ['paused'], to: 'active', action: 'webhook.resume' },
  redeliver: { from: ['failed'], to: 'active', action: 'webhook.redeliver' },
} as const satisfies Readonly<
  Record<string, { readonly from: readonly WebhookState[]; readonly to: WebhookState; readonly action: string }>
>

export type WebhookChange = keyof typeof CHANGES

/** Goes on where it was. Throws CONFLICT `webhook_state_conflict` where it is in no state for that. */
export async function changeWebhook(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  id: string,
  change: WebhookChange,
): Promise<Webhook> {
  await ownWebhook(platform, call, reference, id)
  const { from, to, action } = CHANGES[change]
  return inTransaction(platform.pool, async (tx) => {
    const isChanged = await setWebhookState(tx, id, { from, to })
    const webhook = await findWebhook(tx, call.tenant, id)
    if (webhook === null) throw notFound('webhook')
    if (!isChanged) throw otherState(webhook, from)
    if (to === 'active') await hurryJob(tx, { kind: WEBHOOKS_JOB, key: id, tenant: call.tenant }, 0)
    await audited(tx, call, call.tenant, action, { type: 'webhook', id })
    return webhook
  })
}

/** Sends a message without a row. */
export async function testWebhook(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<Answered> {
  const { productId, productName } = await ownWebhook(platform, call, reference, id)
  const secret = await readWebhookSecret(platform.pool, platform.masters, id)
  if (secret === null) throw notFound('webhook')
  await audited(platform.pool, call, call.tenant, 'webhook.test', { type: 'webhook', id })
  const product = { id: productId, name: productName }
  const body = JSON.stringify({ type: 'sluice.webhook.test', webhook: id, product })
  return sendSigned(platform, secret, { id: `msg_${randomBytes(12).toString('hex')}`, body }, call.signal)
}

/** Newest first. */
export async function deadLettersOf(
  platform: WebhooksDeps,
  call: TenantCall,
  reference: string,
  id: string,
  page: PageRequest,
): Promise<Page<DeadLetter>> {
  await webhookOf(platform, call, reference, id)
  return listDeadLetters(platform.pool, id, page)
}

function otherState({ state }: Webhook, from: readonly WebhookState[]): SluiceError {
  return new SluiceError('CONFLICT', `the webhook is ${state}, and not ${from.join(' or ')}`, {
    code: 'webhook_state_conflict',
    remedy:
      state === 'ended'
        ? 'Make another webhook: one that has ended stays so.'
        : 'Resume one that is paused; deliver again with one that has failed.',
  })
}

function tooMany(): SluiceError {
  return new SluiceError('CONFLICT', 'the product or the tenant has as many webhooks as it may', {
    code: 'too_many_webhooks',
    remedy: 'Remove webhooks that nobody listens at any more.',
  })
}
