/** Who may read the raw tables of a connection, besides its creator and administrators. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import type { TenantCall } from '../flow.ts'
import { actorOf } from '../registry/actor.ts'
import type { Connection } from '../registry/connections.ts'
import { grantRawTable, listRawTableGrants, type RawTableGrant, revokeRawTableGrant } from '../registry/grants.ts'
import type { Page, PageRequest } from '../registry/paging.ts'
import { connectionOf } from './connections.ts'
import { type SubjectRequest, subjectOf } from './grant-subject.ts'
import { audited, type Keep, notFound, type Platform, requireDeveloper } from './platform.ts'

export interface RawGrantRequest extends SubjectRequest {
  /** `schema.table`; null for every table of the connection. */
  readonly table: string | null
}

/** Only who may read the tables hands them on. Throws PERMISSION `raw_table_forbidden`, INVALID_DATA `invalid_grant`. */
export async function addRawGrant(
  platform: Platform,
  call: TenantCall,
  reference: string,
  request: RawGrantRequest,
  keep: Keep<RawTableGrant>,
): Promise<RawTableGrant> {
  const connection = await ownConnection(platform, call, reference)
  const subject = subjectOf(platform, call, request)
  return inTransaction(platform.pool, async (tx) => {
    const created = await grantRawTable(tx, {
      tenant: call.tenant,
      connectionId: connection.id,
      tableName: request.table,
      ...subject,
      grantedBy: actorOf(call.principal),
    })
    const details = { grant: created.id, table: request.table }
    await audited(tx, call, call.tenant, 'raw_grant.create', { type: 'connection', id: connection.id }, details)
    await keep(tx, created)
    return created
  })
}

/** Newest first. */
export async function listRawGrants(
  platform: Platform,
  call: TenantCall,
  reference: string,
  page: PageRequest,
): Promise<Page<RawTableGrant>> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  return listRawTableGrants(platform.pool, call.tenant, connection.id, page)
}

export async function removeRawGrant(
  platform: Platform,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<void> {
  const connection = await ownConnection(platform, call, reference)
  await inTransaction(platform.pool, async (tx) => {
    if (!(await revokeRawTableGrant(tx, call.tenant, connection.id, id))) throw notFound('grant')
    await audited(tx, call, call.tenant, 'raw_grant.delete', { type: 'connection', id: connection.id }, { grant: id })
  })
}

async function ownConnection(platform: Platform, call: TenantCall, reference: string): Promise<Connection> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  const { principal } = call
  const { issuer, subject } = connection.createdBy
  if (principal.isAdmin || (issuer === principal.issuer && subject === principal.subject)) return connection
  throw new SluiceError('PERMISSION', 'only the creator of the connection grants its raw tables', {
    code: 'raw_table_forbidden',
    remedy: 'Ask the creator of the connection, or an administrator.',
  })
}
