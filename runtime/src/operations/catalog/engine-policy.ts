/** What people may in engines outside, which ask before everything that they do. What is not allowed here by name is refused. */
import type { PolicyQuestion, PolicyTable } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { rawDomain } from '../../materializer/inputs.ts'
import { findTenant } from '../../registry/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { isHidden, mayUseCatalog, recordRead, tableAccess } from './table-access.ts'

/** Who wants it. */
export interface Asker {
  /** As the engine calls them. */
  readonly user: string
  /** Null where the user is nobody that the issuer has named. */
  readonly principal: Principal | null
}

/** What answering needs of the request. */
export type Asking = Pick<TenantCall, 'requestId' | 'signal'>

/**
 * One question, yes or no. An administrator is the platform's own login there: it makes and drops catalogs and reads what no
 * person is allowed to, and nothing that is nobody's.
 */
export async function allows(
  platform: CatalogDeps,
  asking: Asking,
  { principal, user }: Asker,
  question: PolicyQuestion,
): Promise<boolean> {
  if (principal === null || question.about === 'nothing') return false
  if ('table' in question && isHidden(question.table)) return false
  if (principal.isAdmin) return true
  switch (question.about) {
    case 'statement':
      return mayBegin(platform, principal.tenant)
    case 'catalog':
      return mayUseCatalog(principal, question.catalog)
    case 'schema':
      return mayUseCatalog(principal, question.catalog) && !isRaw(question.schema)
    case 'table':
      return mayRead(platform, asking, principal, question.table)
    case 'rows':
      return mayRead(platform, asking, principal, question.table, true)
    case 'others-statement':
      return question.owner === user
    case 'own':
      return true
    case 'operation':
      return false
  }
}

/** As the REST API refuses tokens of a tenant that is not active, and queries of one that has used its CPU time. */
async function mayBegin(platform: CatalogDeps, tenant: string | null): Promise<boolean> {
  if (tenant === null || platform.cpu.isSpent(tenant)) return false
  return (await findTenant(platform.pool, tenant))?.status === 'active'
}

/** Raw tables are read over the REST API alone; the names of their connections are not listed either. */
const isRaw = (schema: string): boolean => schema.toLowerCase().startsWith(rawDomain(''))

async function mayRead(
  platform: CatalogDeps,
  asking: Asking,
  principal: Principal,
  table: PolicyTable,
  isSelect = false,
): Promise<boolean> {
  if (principal.tenant === null) return false
  const call = callOf(asking, principal, principal.tenant)
  if ((await tableAccess(platform, call, table)) !== 'read') return false
  if (isSelect) await recordRead(platform, call, table)
  return true
}

export function callOf({ requestId, signal }: Asking, principal: Principal, tenant: string): TenantCall {
  return {
    requestId,
    signal,
    principal,
    tenant,
    traceparent: null,
    params: {},
    query: {},
    body: null,
    idempotencyKey: null,
    idempotency: null,
    lastEventId: null,
    namedTenant: null,
    mediaType: null,
    authorization: null,
  }
}
