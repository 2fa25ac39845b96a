import { Type } from 'typebox'
import type { Platform } from '../../operations/platform.ts'
import { provisionTenant, removeTenant, tenantDetail } from '../../operations/tenants.ts'
import { listTenants, updateTenant } from '../../registry/tenants.ts'
import type { Cursors } from '../cursor.ts'
import { defineRoute, type Route } from '../route.ts'
import { listReply } from './lists.ts'
import { Page, Reference, TenantRequest, tenantJson } from './shapes.ts'

const TenantParams = Type.Object({ tenant_id: Reference })
const tags = ['Tenants']
const ok = (description: string) => ({ 200: { description } })

export function tenantRoutes(platform: Platform, cursors: Cursors): readonly Route[] {
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
      responses: { 201: { description: 'The tenant, provisioned.' } },
      errors: ['invalid_slug', 'tenant_exists', 'store_unavailable'],
      authorize: () => {},
      async handler(call) {
        const { slug, display_name: displayName, tier } = call.body
        await provisionTenant(platform, call, { slug, displayName, tier })
        return { status: 201, body: tenantJson(await tenantDetail(platform, slug)) }
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
      responses: ok('A page of tenants.'),
      handler: (call) =>
        listReply(
          call,
          cursors,
          'tenants',
          (page) => listTenants(platform.pool, page),
          (tenant) => tenantJson({ tenant, usage: { products: 0, connections: 0, runningRuns: 0, storageBytes: 0 } }),
        ),
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
        return { body: tenantJson(await tenantDetail(platform, visible ? wanted : '')) }
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
        await updateTenant(platform.pool, call.params.tenant_id, {
          ...(displayName === undefined ? {} : { displayName }),
          ...(tier === undefined ? {} : { tier }),
        })
        return { body: tenantJson(await tenantDetail(platform, call.params.tenant_id)) }
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
      query: Type.Object({ confirm: Type.Optional(Type.String({ maxLength: 64 })) }, { additionalProperties: false }),
      timeoutMs: 120_000,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['tenant_not_found', 'confirmation_missing'],
      async handler(call) {
        await removeTenant(platform, call, call.params.tenant_id, call.query.confirm)
        return { empty: true }
      },
    }),
  ]
}
