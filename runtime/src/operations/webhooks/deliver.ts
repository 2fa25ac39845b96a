/**
 * Delivers a product's changes to webhooks, each by its own job, in the name of its application key, read and judged anew at each
 * try. See docs/decisions/0211-webhooks-of-changes.md.
 */
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { FaultPoint } from '../../fault-points.ts'
import { backOffMs } from '../../jobs/back-off.ts'
import { forgetJob, type Job, type NextDue } from '../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../jobs/worker.ts'
import { principalOfKey } from '../../policy/key-principal.ts'
import { presentedKey } from '../../registry/application-keys.ts'
import { closeIncidents, openIncident, WEBHOOK_FAILED } from '../../registry/incidents.ts'
import type { Transaction } from '../../registry/sql.ts'
import { findTenant } from '../../registry/tenants.ts'
import {
  addDeadLetter,
  askForDeliveries,
  beginDelivery,
  hasDeadLetters,
  noteAcknowledged,
  noteFailedTry,
  noteRedelivered,
  stopWebhook,
} from '../../registry/webhook-deliveries.ts'
import { findWebhook, readWebhookSecret, WEBHOOKS_JOB, type Webhook } from '../../registry/webhooks.ts'
import { asPassing, followerOf } from '../changes/follow-changes.ts'
import { requireStillHeld } from '../queries/held-rights.ts'
import { bodyOf, type DeliveryBatch, nextBatch } from './delivery-batch.ts'
import type { WebhooksDeps } from './deps.ts'
import { type Answered, sendSigned } from './send.ts'

/** In a runtime: each has a batch in memory while its receiver answers. */
const PLACES = 32
/** So that receivers of one tenant who do not answer leave places to others. */
const PLACES_OF_TENANT = 8
const NO_PLACE_MS = 500
/** Of one webhook; then others have their turn. */
const AT_ONCE = 20
/** How long nothing is looked for without being told, and what ends a webhook is not seen. */
const LOOK_MS = 15_000
const AGAIN_MS = 250
const ASK_MS = 1_000
const LONGEST_WAIT_MS = 3_600_000
const GIVEN_UP_AFTER_MS = 24 * 60 * 60 * 1000
/** Of what is not the receiver's: the registry, the lake, engines. */
const BACK_OFF = { firstMs: 1_000, lastMs: 60_000 } as const
const GONE = 410

export interface WebhookJobs {
  readonly kind: JobKind
  readonly source: JobSource
}

export function webhookJobs(platform: WebhooksDeps, faultPoint: FaultPoint): WebhookJobs {
  const deps = { platform, faultPoint }
  const busy = new Map<string, number>()
  return {
    kind: {
      kind: WEBHOOKS_JOB,
      places: PLACES,
      failed: 'changes could not be read for a webhook; it is tried again',
      backOff: BACK_OFF,
      async work(job, signal) {
        const tenant = job.tenant ?? ''
        const count = busy.get(tenant) ?? 0
        if (count >= PLACES_OF_TENANT) return { from: 'end', ms: NO_PLACE_MS }
        busy.set(tenant, count + 1)
        try {
          return await deliverSome(deps, job, tenant, signal)
        } finally {
          const left = (busy.get(tenant) ?? 1) - 1
          if (left > 0) busy.set(tenant, left)
          else busy.delete(tenant)
        }
      },
    },
    source: { everyMs: ASK_MS, enlist: () => askForDeliveries(platform.pool) },
  }
}

interface DeliverDeps {
  readonly platform: WebhooksDeps
  readonly faultPoint: FaultPoint
}

async function deliverSome(deps: DeliverDeps, job: Job, tenant: string, signal: AbortSignal): Promise<NextDue> {
  const { pool } = deps.platform
  for (let done = 0; done < AT_ONCE; done += 1) {
    signal.throwIfAborted()
    const webhook = await findWebhook(pool, tenant, job.key)
    if (webhook === null) await forgetJob(pool, { kind: WEBHOOKS_JOB, key: job.key })
    if (webhook?.state !== 'active') return null
    if (webhook.isWaiting && webhook.nextAt !== null) return { at: webhook.nextAt }
    const next = await deliverNext(deps, job, webhook, signal)
    if (next !== 'delivered') return next
  }
  return { from: 'end', ms: 0 }
}

type Outcome = 'delivered' | NextDue

async function deliverNext(deps: DeliverDeps, job: Job, webhook: Webhook, signal: AbortSignal): Promise<Outcome> {
  const { platform, faultPoint } = deps
  const { pool, config } = platform
  const { tenant } = webhook
  if ((await findTenant(pool, tenant))?.status !== 'active') return { from: 'end', ms: LOOK_MS }
  const key = await presentedKey(pool, webhook.applicationKey)
  if (key === null) return end(deps, job, webhook, 'webhook_key_ended')
  const call = { tenant, principal: principalOfKey(key), requestId: `${webhook.id}.${webhook.sequence}`, signal }
  try {
    await requireStillHeld(platform, call)
    const follower = await followerOf(platform, call, webhook.productId)
    const limits = { rows: config.webhooks.batch_rows, bytes: config.webhooks.batch_kilobytes * 1024 }
    const batch = await nextBatch(follower.news(webhook.place, signal), webhook, limits)
    if (batch === null) return { from: 'end', ms: LOOK_MS }
    const sequence = await beginDelivery(pool, job, webhook, batch.id)
    if (sequence === null) return { from: 'end', ms: AGAIN_MS }
    await faultPoint('webhooks.begun')
    // Reading may have taken a while: what may not be shown by now is not sent, and read anew as it is to be shown.
    await requireStillHeld(platform, call)
    if (batch.epoch !== null && !(await follower.shows(batch.place))) return { from: 'end', ms: AGAIN_MS }
    return await send(deps, job, webhook, { batch, sequence }, signal)
  } catch (error) {
    if (signal.aborted || !isSluiceError(error) || asPassing(error) !== null) throw error
    if (error.kind === 'PERMISSION' || error.code === 'product_not_found') return end(deps, job, webhook, error.code)
    if (!['INVALID_DATA', 'CONFLICT', 'QUOTA'].includes(error.kind)) throw error
    await inTransaction(pool, (tx) => fail(tx, job, webhook, null, error.code))
    return null
  }
}

interface Begun {
  readonly batch: DeliveryBatch
  readonly sequence: number
}

async function send(
  deps: DeliverDeps,
  job: Job,
  webhook: Webhook,
  { batch, sequence }: Begun,
  signal: AbortSignal,
): Promise<Outcome> {
  const { platform, faultPoint } = deps
  const secret = await readWebhookSecret(platform.pool, platform.masters, webhook.id)
  if (secret === null) return null
  const message = { id: batch.id, body: bodyOf(webhook, batch, sequence) }
  const answered = await sendSigned(platform, secret, message, signal)
  await faultPoint('webhooks.answered')
  if (answered.status === GONE) return end(deps, job, webhook, 'webhook_gone')
  if (answered.errorCode !== null)
    return refused(deps, job, webhook, batch, { ...answered, errorCode: answered.errorCode })
  await inTransaction(platform.pool, (tx) => acknowledge(tx, job, webhook, batch, answered.status ?? 0))
  await faultPoint('webhooks.acknowledged')
  return 'delivered'
}

async function acknowledge(
  tx: Transaction,
  job: Job,
  webhook: Webhook,
  { id, place, epoch }: DeliveryBatch,
  status: number,
): Promise<void> {
  const noted = await noteAcknowledged(tx, job, webhook, { delivery: id, status, place, isAnew: epoch === null })
  if (!noted || (await noteRedelivered(tx, webhook.id)) === 0) return
  await closeWhereNoneWaits(tx, webhook.productId)
}

/** What one webhook does not wait for any more may be waited for by another. */
export async function closeWhereNoneWaits(tx: Transaction, productId: string): Promise<void> {
  if (!(await hasDeadLetters(tx, productId))) await closeIncidents(tx, { productId }, { only: WEBHOOK_FAILED })
}

async function refused(
  { platform }: DeliverDeps,
  job: Job,
  webhook: Webhook,
  batch: DeliveryBatch,
  { status, errorCode, retryAfterMs }: Answered & { readonly errorCode: string },
): Promise<NextDue> {
  const { retry_ms: firstMs, attempts: most } = platform.config.webhooks
  const waitMs = backOffMs(webhook.attempts, { firstMs, lastMs: Math.max(firstMs, LONGEST_WAIT_MS) })
  return inTransaction(platform.pool, async (tx) => {
    const againMs = Math.max(waitMs, retryAfterMs ?? 0)
    const soFar = await noteFailedTry(tx, job, webhook, { errorCode, status, againMs })
    if (soFar === null) return null
    if (soFar.attempts < most && soFar.failingForMs < GIVEN_UP_AFTER_MS) return { at: soFar.nextAt }
    await fail(tx, job, webhook, batch, errorCode)
    return null
  })
}

/** The webhook waits to be told to go on; whoever owns the product is told once. */
async function fail(
  tx: Transaction,
  job: Job,
  webhook: Webhook,
  batch: DeliveryBatch | null,
  errorCode: string,
): Promise<void> {
  if (!(await stopWebhook(tx, job, webhook, { to: 'failed', reason: errorCode }))) return
  const letter = { delivery: batch?.id ?? webhook.sending ?? '', epoch: batch?.epoch ?? null, errorCode }
  await addDeadLetter(tx, webhook.id, letter)
  await openIncident(tx, webhook.tenant, { productId: webhook.productId }, { cause: WEBHOOK_FAILED })
}

async function end({ platform }: DeliverDeps, job: Job, webhook: Webhook, reason: string): Promise<null> {
  await inTransaction(platform.pool, async (tx) => {
    if (!(await stopWebhook(tx, job, webhook, { to: 'ended', reason }))) return
    // Nobody can deliver it again.
    if ((await noteRedelivered(tx, webhook.id)) > 0) await closeWhereNoneWaits(tx, webhook.productId)
  })
  return null
}
