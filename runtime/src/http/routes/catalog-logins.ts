import { Type } from 'typebox'
import type { CatalogDeps } from '../../operations/catalog/deps.ts'
import { issueCatalogLogin, revokeCatalogLogin } from '../../operations/catalog/logins.ts'
import { defineRoute, type Route } from '../route.ts'
import { Reference } from './requests/paths.ts'

const Login = Type.Object({
  catalog: Type.String({ description: 'The catalog’s name: `catalog_name` of its rows.' }),
  host: Type.String(),
  port: Type.Integer(),
  database: Type.String(),
  user: Type.String(),
  password: Type.String({ description: 'Told this once.' }),
  uri: Type.String(),
})

export function catalogLoginRoutes(deps: CatalogDeps): readonly Route[] {
  const head = {
    path: '/api/v1/tenants/{id}/catalog-login',
    tags: ['Iceberg'],
    auth: 'admin',
    params: Type.Object({ id: Reference }),
    errors: ['tenant_not_found', 'catalog_logins_unavailable'],
  } as const
  return [
    defineRoute({
      ...head,
      method: 'POST',
      name: 'issueCatalogLogin',
      summary: 'Make the tenant’s PostgreSQL login for SQL catalogs, or renew its password',
      description:
        'For engines that read Iceberg’s JDBC catalog. It selects the rows of the tenant’s catalog that any member may read without a grant: plain tables, open products, and the masked twins of those with sensitive columns. Access to the files is the object store’s own.',
      responses: { 201: { description: 'The login.', schema: Login } },
      handler: async (call) => ({ status: 201, body: await issueCatalogLogin(deps, call, call.params.id) }),
    }),
    defineRoute({
      ...head,
      method: 'DELETE',
      name: 'revokeCatalogLogin',
      summary: 'Remove the tenant’s PostgreSQL login for SQL catalogs',
      responses: { 204: { description: 'Removed, with its sessions.' } },
      handler: async (call) => {
        await revokeCatalogLogin(deps, call, call.params.id)
        return { empty: true }
      },
    }),
  ]
}
