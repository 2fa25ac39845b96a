import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import {
  listKeys,
  type MadeKey,
  makeApplicationKey,
  revokeKey,
  revokeKeysOf,
} from '../../operations/tenants/application-keys.ts'
import type { TenantsDeps } from '../../operations/tenants/deps.ts'
import type { ApplicationKeyRecord } from '../../registry/application-keys.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const tags = ['Application keys']
const path = '/api/v1/application-keys'
const MOST_DAYS = 365
const DEFAULT_DAYS = 90

const Operation = Type.Union([Type.Literal('read'), Type.Literal('query')])

const KeyRequest = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
      'x-expected': 'a text without control characters',
      description: 'Which application it is for.',
    }),
    products: Type.Optional(
      Type.Array(Reference, {
        minItems: 1,
        maxItems: 100,
        description: 'By id, name or namespace.name. Absent: all that you may read, but restricted ones.',
      }),
    ),
    operations: Type.Optional(
      Type.Array(Operation, {
        minItems: 1,
        uniqueItems: true,
        description: 'read: serving endpoints; query: SQL over the products. Default: both.',
      }),
    ),
    unmask: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
        maxItems: 100,
        description: 'Classes to show in clear, as far as you see them so; `*` for all of those. Default: none.',
      }),
    ),
    expires_in_days: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_DAYS, default: DEFAULT_DAYS })),
  },
  { additionalProperties: false },
)

const nullableTime = (description: string) =>
  Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })

const key = {
  id: Type.String(),
  name: Type.String(),
  products: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: 'Ids. Null: all that its maker may read, but restricted ones.',
  }),
  operations: Type.Array(Operation),
  unmask: Type.Array(Type.String()),
  created_by: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time' }),
  last_used_at: nullableTime('To the minute. Null: never.'),
}

const ApplicationKey = Type.Object(key, { $id: 'ApplicationKey' })

const MadeApplicationKey = Type.Object(
  {
    ...key,
    token: Type.Union([Type.String(), Type.Null()], {
      description: 'The key itself, shown here and never again: null where the request is answered a second time.',
    }),
  },
  { $id: 'MadeApplicationKey' },
)

/** Keys of applications, that read products with no person behind them. */
export function applicationKeyRoutes(deps: TenantsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createApplicationKey',
      summary: 'Make a key for an application, which reads what you may read',
      description:
        'It is sent as a bearer token. It never has more than you have when it is used, sees every masked column masked unless `unmask` names its class, and changes nothing.',
      tags,
      auth: 'tenant',
      body: KeyRequest,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 201: { description: 'The key.', schema: MadeApplicationKey } },
      errors: ['key_needs_member', 'product_not_found', 'ambiguous_product', 'too_many_application_keys'],
      async handler(call) {
        const {
          name,
          products = null,
          operations,
          unmask = [],
          expires_in_days: expiresInDays = DEFAULT_DAYS,
        } = call.body
        const answer = keptAnswer(call, (made: MadeKey) => ({
          status: 201,
          headers: { 'Cache-Control': 'no-store' },
          body: { ...keyJson(made.key), token: made.token },
        }))
        const wanted = { name, products, operations: operations ?? ['read', 'query'], unmask, expiresInDays } as const
        return answer.reply(await makeApplicationKey(deps, call, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listApplicationKeys',
      summary: 'The tenant’s application keys, newest first',
      tags,
      auth: 'tenant',
      query: Page,
      responses: {
        200: { description: 'A page of keys, without the keys themselves.', schema: pageOf(ApplicationKey) },
      },
      handler(call) {
        const read = (page: PageRequest) => listKeys(deps, call, page)
        return listReply(call, cursors, 'application-keys', read, keyJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${path}/{key_id}`,
      name: 'deleteApplicationKey',
      summary: 'Revoke a key: it is refused everywhere from now on',
      tags,
      auth: 'tenant',
      params: Type.Object({ key_id: Reference }),
      responses: { 204: { description: 'It is gone.' } },
      errors: ['application_key_not_found'],
      async handler(call) {
        await revokeKey(deps, call, call.params.key_id)
        return { empty: true }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path,
      name: 'deleteApplicationKeysOf',
      summary: 'Revoke every key that a person made: for somebody who leaves',
      tags,
      auth: 'tenant',
      query: Type.Object(
        {
          created_by: Type.String({ minLength: 1, maxLength: 255, description: 'The `sub` of their tokens.' }),
          issuer: Type.Optional(
            Type.String({ minLength: 1, maxLength: 2000, description: 'The `iss` of them. Absent: your own issuer.' }),
          ),
        },
        { additionalProperties: false },
      ),
      responses: {
        200: {
          description: 'Ids of the keys that are gone.',
          schema: Type.Object({ revoked: Type.Array(Type.String()) }),
        },
      },
      errors: ['invalid_grant'],
      async handler(call) {
        const { created_by: user, issuer } = call.query
        return { body: { revoked: await revokeKeysOf(deps, call, user, issuer) } }
      },
    }),
  ]
}

function keyJson(found: ApplicationKeyRecord) {
  return {
    id: found.id,
    name: found.name,
    products: found.products,
    operations: found.operations,
    unmask: found.unmask,
    created_by: found.createdBy.subject,
    created_at: found.createdAt.toISOString(),
    expires_at: found.expiresAt.toISOString(),
    last_used_at: found.lastUsedAt?.toISOString() ?? null,
  }
}
