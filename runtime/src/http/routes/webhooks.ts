/** Webhooks of a product's changes: addresses are kept sealed, and shown to nobody. */
import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { WebhooksDeps } from '../../operations/webhooks/deps.ts'
import type { Answered } from '../../operations/webhooks/send.ts'
import {
  changeWebhook,
  deadLettersOf,
  dropWebhook,
  type MadeWebhook,
  makeWebhook,
  testWebhook,
  type WebhookChange,
  webhookOf,
  webhooksOf,
} from '../../operations/webhooks/webhooks.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { DeadLetter } from '../../registry/webhook-deliveries.ts'
import { WEBHOOK_STATES, type Webhook } from '../../registry/webhooks.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { InNamespace, PageInNamespace, productReference, Reference } from './requests/paths.ts'

const tags = ['Webhooks']
const path = '/api/v1/products/{product_id}/webhooks'
const one = `${path}/{webhook_id}`
const Params = Type.Object({ product_id: Reference })
const OneParams = Type.Object({ product_id: Reference, webhook_id: Reference })
const OF_PRODUCT = ['product_not_found', 'ambiguous_product'] as const
const OF_WEBHOOK = ['webhook_not_found', ...OF_PRODUCT] as const

const WebhookRequest = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
      'x-expected': 'a text without control characters',
      description: 'Who is told there.',
    }),
    url: Type.String({
      minLength: 1,
      maxLength: 2048,
      description: 'https://, of an address that connections may go to, too.',
    }),
    application_key: Type.String({
      minLength: 1,
      maxLength: 100,
      description:
        'The id of a key that you made, with read among its operations: what it may be shown is delivered, and the webhook ends with it.',
    }),
    from: Type.Optional(
      Type.Union([Type.Literal('now'), Type.Literal('start')], {
        description: 'now (default): what comes. start: all rows there are, then what comes.',
      }),
    ),
    secret: Type.Optional(
      Type.String({
        pattern: '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$',
        'x-expected': 'whsec_ and 24 to 64 bytes in base64',
        description: 'What bodies are signed with. Default: a new one, which is shown once.',
      }),
    ),
  },
  { additionalProperties: false },
)

const orNull = (schema: ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>, description: string) =>
  Type.Union([schema, Type.Null()], { description })
const Time = Type.String({ format: 'date-time' })

const webhook = {
  id: Type.String(),
  product_id: Type.String(),
  name: Type.String(),
  host: Type.String({ description: 'Of the address; the rest is shown to nobody.' }),
  application_key: Type.String({ description: 'By whose rights it delivers.' }),
  state: Type.Union(
    WEBHOOK_STATES.map((state) => Type.Literal(state)),
    {
      description:
        'active; paused by its maker; failed: a delivery was given up, and waits with all that follows to be delivered again; ended: it never delivers again.',
    },
  ),
  reason: orNull(Type.String(), 'Why it has failed or ended.'),
  epoch: orNull(Type.Integer(), 'The newest that its receiver has all of; null: there is none.'),
  sequence: Type.Integer({ description: 'Of the newest delivery that was begun.' }),
  attempts: Type.Integer({ description: 'Of a delivery that fails, so far.' }),
  next_at: orNull(Time, 'When it is tried again, where it fails.'),
  status: orNull(Type.Integer(), 'Of the newest answer; null: none came.'),
  error_code: orNull(Type.String(), 'Why the newest try failed; null: it did not.'),
  delivered_at: orNull(Time, 'The newest delivery that was acknowledged; null: there was none.'),
  created_by: Type.String(),
  created_at: Time,
}
const WebhookShape = Type.Object(webhook, { $id: 'Webhook' })
const MadeWebhookShape = Type.Object(
  {
    ...webhook,
    signing_key: orNull(
      Type.String(),
      'Bodies are signed with it as Standard Webhooks says. Shown here and never again: null where the request is answered a second time.',
    ),
  },
  { $id: 'MadeWebhook' },
)
const WebhookTest = Type.Object(
  { ok: Type.Boolean(), status: webhook.status, error_code: webhook.error_code },
  { $id: 'WebhookTest' },
)
const DeadLetterShape = Type.Object(
  {
    id: Type.String(),
    delivery: Type.String({ description: 'Its webhook-id.' }),
    sequence: Type.Integer(),
    epoch: orNull(Type.Integer(), 'Of its rows; null where there were none.'),
    attempts: Type.Integer(),
    status: webhook.status,
    error_code: Type.String(),
    failing_since: Time,
    created_at: Time,
    redelivered_at: orNull(Time, 'When its receiver had it after all, or its webhook ended.'),
  },
  { $id: 'DeadLetter' },
)

export function webhookRoutes(deps: WebhooksDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createWebhook',
      summary: 'Have a product’s changed rows delivered, epoch by epoch',
      description:
        'Each delivery is a signed POST with events as the stream of changes has them, which any 2xx acknowledges. It comes at least once and in order: drop those whose webhook-id you have had. What is not acknowledged is tried again, ever more seldom; 410 ends the webhook. Redirects are not followed.',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: WebhookRequest,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 201: { description: 'The webhook.', schema: MadeWebhookShape } },
      errors: [
        ...OF_PRODUCT,
        'product_forbidden',
        'product_being_deleted',
        'not_materialized',
        'mask_pending',
        'changes_need_key',
        'application_key_not_found',
        'webhook_key_unusable',
        'invalid_webhook_address',
        'address_refused',
        'host_not_found',
        'too_many_webhooks',
      ],
      async handler(call) {
        const { name, url, application_key: applicationKey, from = 'now', secret } = call.body
        const answer = keptAnswer(call, (made: MadeWebhook) => ({
          status: 201,
          headers: { 'Cache-Control': 'no-store' },
          body: { ...webhookJson(made.webhook), signing_key: made.signingKey },
        }))
        const signed = secret === undefined ? {} : { signingKey: secret }
        const wanted = { name, url, applicationKey, from, ...signed }
        return answer.reply(await makeWebhook(deps, call, productReference(call), wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listWebhooks',
      summary: 'Where changes of a product are delivered, newest first',
      tags,
      auth: 'tenant',
      params: Params,
      query: PageInNamespace,
      responses: { 200: { description: 'A page of webhooks.', schema: pageOf(WebhookShape) } },
      errors: OF_PRODUCT,
      handler(call) {
        const read = (page: PageRequest) => webhooksOf(deps, call, productReference(call), page)
        return listReply(call, cursors, 'webhooks', read, webhookJson)
      },
    }),
    defineRoute({
      method: 'GET',
      path: one,
      name: 'getWebhook',
      summary: 'How far a webhook’s receiver is',
      tags,
      auth: 'tenant',
      params: OneParams,
      query: InNamespace,
      responses: { 200: { description: 'The webhook.', schema: WebhookShape } },
      errors: OF_WEBHOOK,
      async handler(call) {
        return { body: webhookJson(await webhookOf(deps, call, productReference(call), call.params.webhook_id)) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: one,
      name: 'deleteWebhook',
      summary: 'Deliver nothing there any more',
      tags,
      auth: 'tenant',
      params: OneParams,
      query: InNamespace,
      responses: { 204: { description: 'It is gone.' } },
      errors: [...OF_WEBHOOK, 'webhook_owner_required'],
      async handler(call) {
        await dropWebhook(deps, call, productReference(call), call.params.webhook_id)
        return { empty: true }
      },
    }),
    changing(deps, 'pause', 'pauseWebhook', 'Deliver nothing until it is resumed'),
    changing(deps, 'resume', 'resumeWebhook', 'Go on where it was paused'),
    changing(deps, 'redeliver', 'redeliverWebhook', 'Go on with the delivery that was given up'),
    defineRoute({
      method: 'POST',
      path: `${one}/test`,
      name: 'testWebhook',
      summary: 'Send a signed message without rows, and tell what its receiver answers',
      tags,
      auth: 'tenant',
      params: OneParams,
      query: InNamespace,
      responses: { 200: { description: 'Whether it was acknowledged.', schema: WebhookTest } },
      errors: [...OF_WEBHOOK, 'webhook_owner_required'],
      async handler(call) {
        return { body: testJson(await testWebhook(deps, call, productReference(call), call.params.webhook_id)) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${one}/dead-letters`,
      name: 'listDeadLetters',
      summary: 'Deliveries that were given up, newest first',
      description:
        'What they were, without their rows: those are read anew when they are delivered again. The newest 100 are kept.',
      tags,
      auth: 'tenant',
      params: OneParams,
      query: PageInNamespace,
      responses: { 200: { description: 'A page of dead letters.', schema: pageOf(DeadLetterShape) } },
      errors: OF_WEBHOOK,
      handler(call) {
        const read = (page: PageRequest) =>
          deadLettersOf(deps, call, productReference(call), call.params.webhook_id, page)
        return listReply(call, cursors, 'dead-letters', read, letterJson)
      },
    }),
  ]
}

function changing(deps: WebhooksDeps, change: WebhookChange, name: string, summary: string): Route {
  return defineRoute({
    method: 'POST',
    path: `${one}/${change}`,
    name,
    summary,
    tags,
    auth: 'tenant',
    params: OneParams,
    query: InNamespace,
    responses: { 200: { description: 'The webhook.', schema: WebhookShape } },
    errors: [...OF_WEBHOOK, 'webhook_owner_required', 'webhook_state_conflict'],
    async handler(call) {
      return {
        body: webhookJson(await changeWebhook(deps, call, productReference(call), call.params.webhook_id, change)),
      }
    },
  })
}

function webhookJson(found: Webhook) {
  return {
    id: found.id,
    product_id: found.productId,
    name: found.name,
    host: found.host,
    application_key: found.applicationKey,
    state: found.state,
    reason: found.reason,
    epoch: found.place.epoch,
    sequence: found.sequence,
    attempts: found.attempts,
    next_at: found.nextAt?.toISOString() ?? null,
    status: found.status,
    error_code: found.errorCode,
    delivered_at: found.deliveredAt?.toISOString() ?? null,
    created_by: found.createdBy.subject,
    created_at: found.createdAt.toISOString(),
  }
}

function testJson({ status, errorCode }: Answered) {
  return { ok: errorCode === null, status, error_code: errorCode }
}

function letterJson(letter: DeadLetter) {
  return {
    id: letter.id,
    delivery: letter.delivery,
    sequence: letter.sequence,
    epoch: letter.epoch,
    attempts: letter.attempts,
    status: letter.status,
    error_code: letter.errorCode,
    failing_since: letter.failingSince.toISOString(),
    created_at: letter.createdAt.toISOString(),
    redelivered_at: letter.redeliveredAt?.toISOString() ?? null,
  }
}
