import { type TSchema, Type } from 'typebox'
import type { TenantsDeps } from '../../operations/tenants/deps.ts'
import {
  changeTenant,
  provisionTenant,
  removeTenant,
  rotateMaster,
  rotateTenantKey,
  type TenantDetail,
  tenantDetail,
  tenantPage,
} from '../../operations/tenants/tenants.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageOf } from './answers/parts.ts'
import { Tenant } from './answers/tenants.ts'
import { tenantJson } from './json/tenants.ts'
import { listReply } from './lists.ts'
import { Abandon, abandonedTypes, Page, Reference } from './requests/paths.ts'
import { TenantRequest } from './requests/tenants.ts'

const TenantParams = Type.Object({ tenant_id: Reference })
const tags = ['Tenants']
const ok = (description: string, schema: TSchema = Tenant) => ({ 200: { description, schema } })

export function tenantRoutes(deps: TenantsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/tenants',
      name: 'createTenant',
      summary: 'Create a tenant and provision its resources',
      tags,
      auth: 'admin',
      body: TenantRequest,
      idempotent: true,
      timeoutMs: 60_000,
      responses: { 201: { description: 'The tenant, provisioned.', schema: Tenant } },
      errors: ['invalid_slug', 'tenant_exists', 'walls_missing', 'store_unavailable'],
      authorize: () => {},
      async handler(call) {
        const { slug, display_name: displayName, tier } = call.body
        const answer = keptAnswer(call, (detail: TenantDetail) => ({ status: 201, body: tenantJson(detail) }))
        return answer.reply(await provisionTenant(deps, call, { slug, displayName, tier }, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/tenants',
      name: 'listTenants',
      summary: 'All tenants, newest first',
      tags,
      auth: 'admin',
      query: Page,
      responses: ok('A page of tenants.', pageOf(Tenant)),
      handler: (call) => listReply(call, cursors, 'tenants', (page) => tenantPage(deps, page), tenantJson),
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/tenants/{tenant_id}',
      name: 'getTenant',
      summary: 'A tenant with its limits, usage and resources',
      description: 'Administrators see every tenant, others their own.',
      tags,
      auth: 'any',
      params: TenantParams,
      responses: ok('The tenant.'),
      errors: ['tenant_not_found'],
      async handler(call) {
        const wanted = call.params.tenant_id
        const visible = call.principal.isAdmin || call.principal.tenant === wanted
        const { tenant, usage } = await tenantDetail(deps, visible ? wanted : '')
        const storageBytes = call.principal.isAdmin ? usage.storageBytes : inSteps(usage.storageBytes)
        const resources = call.principal.isAdmin ? tenant.resources : withoutFolders(tenant.resources)
        return { body: tenantJson({ tenant: { ...tenant, resources }, usage: { ...usage, storageBytes } }) }
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: '/api/v1/tenants/{tenant_id}',
      name: 'updateTenant',
      summary: 'Change a tenant’s name or tier',
      tags,
      auth: 'admin',
      params: TenantParams,
      body: Type.Object(
        {
          display_name: Type.Optional(TenantRequest.properties.display_name),
          tier: Type.Optional(TenantRequest.properties.tier),
        },
        { additionalProperties: false },
      ),
      responses: ok('The tenant as it is now.'),
      errors: ['tenant_not_found'],
      async handler(call) {
        const { display_name: displayName, tier } = call.body
        const change = {
          ...(displayName === undefined ? {} : { displayName }),
          ...(tier === undefined ? {} : { tier }),
        }
        return { body: tenantJson(await changeTenant(deps, call, call.params.tenant_id, change)) }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/tenants/{tenant_id}/rotate-key',
      name: 'rotateTenantKey',
      summary: 'Seal the secrets of a tenant’s connections with a new key',
      description: 'The former key is destroyed. Connections keep working; nothing has to be entered again.',
      tags,
      auth: 'admin',
      params: TenantParams,
      responses: {
        200: {
          description: 'What was sealed anew.',
          schema: Type.Object({ tenant_id: Type.String(), resealed_secrets: Type.Integer({ minimum: 0 }) }),
        },
      },
      errors: ['tenant_not_found'],
      async handler(call) {
        const tenant = call.params.tenant_id
        return { body: { tenant_id: tenant, resealed_secrets: await rotateTenantKey(deps, call, tenant) } }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/keys/rotate-master',
      name: 'rotateMasterKey',
      summary: 'Wrap all tenants’ keys under a new master key',
      description:
        'Nothing has to be entered again, and no masked value changes. The former master key stays in its file until the next rotation, for backups of the registry; repeating a rotation that was cut short finishes it.',
      tags,
      auth: 'admin',
      responses: {
        200: {
          description: 'The id of the new master key, and how many keys lie under it now.',
          schema: Type.Object({ master_key_id: Type.String(), rewrapped_keys: Type.Integer({ minimum: 0 }) }),
        },
      },
      errors: ['master_key_file_unwritable', 'master_key_missing'],
      async handler(call) {
        const { keyId, rewrapped } = await rotateMaster(deps, call)
        return { body: { master_key_id: keyId, rewrapped_keys: rewrapped } }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/tenants/{tenant_id}',
      name: 'deleteTenant',
      summary: 'Remove a tenant with everything it has',
      tags,
      auth: 'admin',
      params: TenantParams,
      query: Type.Object(
        { confirm: Type.Optional(Type.String({ maxLength: 64 })), abandon: Type.Optional(Abandon) },
        { additionalProperties: false },
      ),
      timeoutMs: 120_000,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['tenant_not_found', 'confirmation_missing', 'store_missing'],
      async handler(call) {
        const { confirm, abandon } = call.query
        await removeTenant(deps, call, call.params.tenant_id, confirm, abandonedTypes(abandon))
        return { empty: true }
      },
    }),
  ]
}

/** Where the lake is a folder, its bucket is told, and not where on this machine it lies. */
function withoutFolders(resources: TenantDetail['tenant']['resources']): TenantDetail['tenant']['resources'] {
  const { bucket, destination } = resources
  if (typeof destination !== 'string' || !destination.startsWith('file://')) return resources
  return { ...resources, destination: `file://${destination.slice(destination.indexOf(`${bucket}/`))}` }
}

const STEP_BYTES = 1024 * 1024

/** To the byte, it would tell members of the lengths of values that are hidden from them. */
function inSteps(bytes: number): number {
  return Math.ceil(bytes / STEP_BYTES) * STEP_BYTES
}
