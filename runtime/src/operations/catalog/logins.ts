/** Logins of SQL catalogs: an administrator makes, renews and removes them. */
import type { CatalogLogin } from '../../catalog/logins.ts'
import type { AuthenticatedCall } from '../../flow.ts'
import { findTenant } from '../../registry/tenants.ts'
import { audited } from '../audit.ts'
import { notFound } from '../not-found.ts'
import type { CatalogDeps } from './deps.ts'

/** Throws `tenant_not_found`, UNSUPPORTED `catalog_logins_unavailable`. */
export async function issueCatalogLogin(
  platform: CatalogDeps,
  call: AuthenticatedCall,
  tenant: string,
): Promise<CatalogLogin> {
  if ((await findTenant(platform.pool, tenant))?.status !== 'active') throw notFound('tenant')
  // The record comes first: a login that nobody knows of must not be.
  await audited(platform.pool, call, tenant, 'catalog_login.issue', { type: 'tenant', id: tenant })
  return platform.catalogLogins.issue(tenant)
}

export async function revokeCatalogLogin(
  platform: CatalogDeps,
  call: AuthenticatedCall,
  tenant: string,
): Promise<void> {
  if (!(await findTenant(platform.pool, tenant))) throw notFound('tenant')
  await platform.catalogLogins.revoke(tenant)
  await audited(platform.pool, call, tenant, 'catalog_login.revoke', { type: 'tenant', id: tenant })
}
