/** Where incidents are told: addresses are kept sealed, and shown to nobody. */
import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { TenantsDeps } from '../../operations/tenants/deps.ts'
import { dropTarget, type MadeTarget, makeTarget, targetsOf } from '../../operations/tenants/notification-targets.ts'
import { type NotificationTarget, TARGET_KINDS } from '../../registry/notification-targets.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const tags = ['Notifications']
const path = '/api/v1/notifications'
const Kind = Type.Union(TARGET_KINDS.map((kind) => Type.Literal(kind)))

const TargetRequest = Type.Object(
  {
    kind: Type.Union(
      TARGET_KINDS.map((kind) => Type.Literal(kind)),
      {
        description:
          'webhook: a signed JSON document. slack: a text, as incoming webhooks of Slack and others like it take it.',
      },
    ),
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
  },
  { additionalProperties: false },
)

const nullable = (description: string, format?: string) =>
  Type.Union([Type.String(format === undefined ? {} : { format }), Type.Null()], { description })

const target = {
  id: Type.String(),
  kind: Kind,
  name: Type.String(),
  host: Type.String({ description: 'Of the address; the rest is shown to nobody.' }),
  hears: Type.Union([Type.Literal('tenant'), Type.Literal('own'), Type.Literal('nothing')], {
    description:
      'tenant: of all connections and products, as targets of administrators do. own: of connections that its maker made, and products that its maker deployed last. nothing: its maker is no developer any more.',
  }),
  created_by: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  delivered_at: nullable('The newest delivery; null: there was none.', 'date-time'),
  error_code: nullable('Why the newest try failed; null: it did not.'),
}

const NotificationTargetShape = Type.Object(target, { $id: 'NotificationTarget' })
const MadeNotificationTarget = Type.Object(
  {
    ...target,
    signing_key: nullable(
      'Of a webhook: bodies are signed with it as Standard Webhooks says. Shown here and never again: null where the request is answered a second time.',
    ),
  },
  { $id: 'MadeNotificationTarget' },
)

export function notificationRoutes(deps: TenantsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createNotificationTarget',
      summary: 'Be told when a connection or product begins to fail, or gets too old, and when that is over',
      description:
        'Once each for a cause, however often it fails. A delivery is a POST that any 2xx answers; others are tried again, for a day. Redirects are not followed.',
      tags,
      auth: 'tenant',
      body: TargetRequest,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 201: { description: 'The target.', schema: MadeNotificationTarget } },
      errors: ['invalid_notification_target', 'address_refused', 'host_not_found', 'too_many_notification_targets'],
      async handler(call) {
        const answer = keptAnswer(call, (made: MadeTarget) => ({
          status: 201,
          headers: { 'Cache-Control': 'no-store' },
          body: { ...targetJson(made.target), signing_key: made.signingKey },
        }))
        return answer.reply(await makeTarget(deps, call, call.body, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listNotificationTargets',
      summary: 'Where incidents of the tenant are told, newest first',
      tags,
      auth: 'tenant',
      query: Page,
      responses: { 200: { description: 'A page of targets.', schema: pageOf(NotificationTargetShape) } },
      handler(call) {
        const read = (page: PageRequest) => targetsOf(deps, call, page)
        return listReply(call, cursors, 'notifications', read, targetJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${path}/{target_id}`,
      name: 'deleteNotificationTarget',
      summary: 'Tell nothing there any more',
      tags,
      auth: 'tenant',
      params: Type.Object({ target_id: Reference }),
      responses: { 204: { description: 'It is gone.' } },
      errors: ['notification_target_not_found', 'notification_owner_required'],
      async handler(call) {
        await dropTarget(deps, call, call.params.target_id)
        return { empty: true }
      },
    }),
  ]
}

function targetJson({
  id,
  kind,
  name,
  host,
  ofAll,
  mayHear,
  createdBy,
  createdAt,
  deliveredAt,
  errorCode,
}: NotificationTarget) {
  return {
    id,
    kind,
    name,
    host,
    hears: !mayHear ? 'nothing' : ofAll ? 'tenant' : 'own',
    created_by: createdBy.subject,
    created_at: createdAt.toISOString(),
    delivered_at: deliveredAt?.toISOString() ?? null,
    error_code: errorCode,
  }
}
