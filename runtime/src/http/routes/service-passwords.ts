import { Type } from 'typebox'
import { requireAdmin } from '../../operations/permissions.ts'
import type { TenantsDeps } from '../../operations/tenants/deps.ts'
import {
  deletePassword,
  listPasswords,
  type MadePassword,
  makeServicePassword,
} from '../../operations/tenants/service-passwords.ts'
import { CLASSIFICATIONS } from '../../policy/classification.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { ServicePasswordRecord } from '../../registry/service-passwords.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { listReply } from './lists.ts'
import { Page, Reference } from './requests/paths.ts'

const tags = ['Service passwords']
const path = '/api/v1/service-passwords'
const MOST_DAYS = 3_650

const PRINTABLE = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'
const printable = { pattern: PRINTABLE, 'x-expected': 'a text without control characters' }

const Clearance = Type.Union(CLASSIFICATIONS.map((level) => Type.Literal(level)))

const PasswordRequest = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 100, ...printable, description: 'Which tool it is for.' }),
    group: Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^/?[^/\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$',
      'x-expected': 'the name of a group',
      description:
        'Whoever has the password reads as a viewer of the tenant who is in this group alone: grants to the team of this name are its.',
    }),
    clearance: Type.Optional(Clearance),
    expires_in_days: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MOST_DAYS, description: 'Absent: it is good until it is deleted.' }),
    ),
  },
  { additionalProperties: false },
)

const nullableTime = (description: string) =>
  Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })

const password = {
  id: Type.String({ description: 'The name of the user that a client logs in as, too.' }),
  name: Type.String(),
  group: Type.String(),
  clearance: Type.Union([Clearance, Type.Null()], {
    description:
      'As the claim of a token: it narrows what is read without a grant, and stands for none; what its group is granted it reads. Null: nothing is narrowed.',
  }),
  created_by: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: nullableTime('Null: it is good until it is deleted.'),
  last_used_at: nullableTime('To the minute. Null: never.'),
}

const ServicePassword = Type.Object(password, { $id: 'ServicePassword' })

const MadeServicePassword = Type.Object(
  {
    ...password,
    password: Type.Union([Type.String(), Type.Null()], {
      description: 'The password itself, shown here and never again: null where the request is answered a second time.',
    }),
  },
  { $id: 'MadeServicePassword' },
)

/** Passwords of tools that speak to PostgreSQL, and have no person behind them whose token they could show. */
export function servicePasswordRoutes(deps: TenantsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createServicePassword',
      summary: 'Make a password for a tool that speaks to PostgreSQL',
      description:
        'For administrators. The server makes the password and keeps a verifier of SCRAM-SHA-256 alone. The tool logs in with the id as its user and the tenant as its database, where clients of PostgreSQL are served; no other door takes it.',
      tags,
      auth: 'tenant',
      body: PasswordRequest,
      idempotent: true,
      authorize: (call) => requireAdmin(call.principal),
      responses: { 201: { description: 'The password.', schema: MadeServicePassword } },
      errors: ['clearance_too_wide', 'too_many_service_passwords'],
      async handler(call) {
        const { name, group, clearance = null, expires_in_days: expiresInDays = null } = call.body
        const answer = keptAnswer(call, (made: MadePassword) => ({
          status: 201,
          headers: { 'Cache-Control': 'no-store' },
          body: { ...passwordJson(made.record), password: made.password },
        }))
        const wanted = { name, group: group.replace(/^\//, ''), clearance, expiresInDays }
        return answer.reply(await makeServicePassword(deps, call, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listServicePasswords',
      summary: 'The tenant’s service passwords, newest first',
      tags,
      auth: 'tenant',
      query: Page,
      responses: {
        200: { description: 'A page of them, without the passwords themselves.', schema: pageOf(ServicePassword) },
      },
      handler(call) {
        const read = (page: PageRequest) => listPasswords(deps, call, page)
        return listReply(call, cursors, 'service-passwords', read, passwordJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${path}/{password_id}`,
      name: 'deleteServicePassword',
      summary: 'Delete a service password: sessions by it end within seconds',
      tags,
      auth: 'tenant',
      params: Type.Object({ password_id: Reference }),
      responses: { 204: { description: 'It is gone.' } },
      errors: ['service_password_not_found'],
      async handler(call) {
        await deletePassword(deps, call, call.params.password_id)
        return { empty: true }
      },
    }),
  ]
}

function passwordJson(found: ServicePasswordRecord) {
  return {
    id: found.id,
    name: found.name,
    group: found.group,
    clearance: found.clearance,
    created_by: found.createdBy.subject,
    created_at: found.createdAt.toISOString(),
    expires_at: found.expiresAt?.toISOString() ?? null,
    last_used_at: found.lastUsedAt?.toISOString() ?? null,
  }
}
