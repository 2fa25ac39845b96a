/** Who may read the raw tables of a connection, besides its creator and administrators. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import type { TenantCall } from '../flow.ts'
import { actorOf, isActor } from '../registry/actor.ts'
import { grantRawTable, listRawTableGrants, type RawTableGrant, revokeRawTableGrant } from '../registry/grants.ts'
import type { Page, PageRequest } from '../registry/paging.ts'
import { connectionOf } from './connections.ts'
import { type SubjectRequest, subjectOf } from './grant-subject.ts'
import { audited, type Keep, notFound, type Platform, requireDeveloper } from './platform.ts'
import { mayGrantRaw, ownsConnection } from './raw-rights.ts'

export interface RawGrantRequest extends SubjectRequest {
  /** `schema.table`; null for every table of the connection. */
  readonly table: string | null
  /** Whether the subject may grant it on to others. */
  readonly grantable: boolean
}

/**
 * For the creator of the connection, administrators, and who holds a grant on the table that may be granted on. Throws
 * PERMISSION `raw_table_forbidden`, INVALID_DATA `invalid_grant`.
 */
export async function addRawGrant(
  platform: Platform,
  call: TenantCall,
  reference: string,
  request: RawGrantRequest,
  keep: Keep<RawTableGrant>,
): Promise<RawTableGrant> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  const subject = subjectOf(platform, call, request)
  if (!(await mayGrantRaw(platform, call, connection, request.table))) throw notOwned()
  return inTransaction(platform.pool, async (tx) => {
    const created = await grantRawTable(tx, {
      tenant: call.tenant,
      connectionId: connection.id,
      tableName: request.table,
      ...subject,
      grantable: request.grantable,
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

/** For the creator of the connection, administrators, and whoever has granted it. */
export async function removeRawGrant(
  platform: Platform,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<void> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  const isOwner = ownsConnection(call.principal, connection)
  await inTransaction(platform.pool, async (tx) => {
    const removed = await revokeRawTableGrant(tx, call.tenant, connection.id, id)
    const isOwn = removed !== null && isActor(call.principal, removed.grantedBy)
    if (!isOwner && !isOwn) throw notOwned()
    if (removed === null) throw notFound('grant')
    await audited(tx, call, call.tenant, 'raw_grant.delete', { type: 'connection', id: connection.id }, { grant: id })
  })
}

function notOwned(): SluiceError {
  return new SluiceError('PERMISSION', 'only the creator of the connection grants its raw tables', {
    code: 'raw_table_forbidden',
    remedy: 'Ask the creator of the connection, or an administrator.',
  })
}
