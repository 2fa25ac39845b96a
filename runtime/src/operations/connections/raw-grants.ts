/** Who may read the raw tables of a connection, besides its creator and administrators. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { actorOf, isActor } from '../../registry/actor.ts'
import { type EndedGrant, keepFormerBasis, lockGrants } from '../../registry/grant-bases.ts'
import {
  grantRawTable,
  listRawTableGrants,
  type RawTableGrant,
  rawGrantAddedTo,
  revokeRawTableGrant,
} from '../../registry/grants.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { endWhatRested, restsOn } from '../rights/grant-rights.ts'
import { type SubjectRequest, subjectOf } from '../rights/grant-subject.ts'
import { ownsConnection, rawBasis } from '../rights/raw-rights.ts'
import { connectionOf } from './connections.ts'
import type { ConnectionsDeps } from './deps.ts'

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
  platform: ConnectionsDeps,
  call: TenantCall,
  reference: string,
  request: RawGrantRequest,
  keep: Keep<RawTableGrant>,
): Promise<RawTableGrant> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  const subject = subjectOf(platform, call, request)
  const needs = await rawBasis(platform, call, connection, request.table, 'grant')
  if (needs === null) throw notOwned()
  const grantedBy = actorOf(call.principal)
  return inTransaction(platform.pool, async (tx) => {
    await lockGrants(tx, call.tenant)
    const given = {
      tenant: call.tenant,
      connectionId: connection.id,
      tableName: request.table,
      ...subject,
      grantable: request.grantable,
      grantedBy,
    }
    await keepFormerBasis(tx, await rawGrantAddedTo(tx, given))
    const created = await grantRawTable(tx, given)
    await restsOn(tx, created, { classes: [], grantable: request.grantable ? ['raw'] : [], grantedBy, needs })
    const details = { grant: created.id, table: request.table }
    await audited(tx, call, call.tenant, 'raw_grant.create', { type: 'connection', id: connection.id }, details)
    await keep(tx, created)
    return created
  })
}

/** Newest first. */
export async function listRawGrants(
  platform: ConnectionsDeps,
  call: TenantCall,
  reference: string,
  page: PageRequest,
): Promise<Page<RawTableGrant>> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  return listRawTableGrants(platform.pool, call.tenant, connection.id, page)
}

/** For the creator of the connection, administrators, and whoever has granted it. Gives what ended with it. */
export async function removeRawGrant(
  platform: ConnectionsDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<readonly EndedGrant[]> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  const isOwner = ownsConnection(call.principal, connection)
  return inTransaction(platform.pool, async (tx) => {
    await lockGrants(tx, call.tenant)
    const removed = await revokeRawTableGrant(tx, call.tenant, connection.id, id)
    const isOwn = removed !== null && isActor(call.principal, removed.grantedBy)
    if (!isOwner && !isOwn) throw notOwned()
    if (removed === null) throw notFound('grant')
    await audited(tx, call, call.tenant, 'raw_grant.delete', { type: 'connection', id: connection.id }, { grant: id })
    return endWhatRested(tx, call, { grant: id })
  })
}

function notOwned(): SluiceError {
  return new SluiceError('PERMISSION', 'only the creator of the connection grants its raw tables', {
    code: 'raw_table_forbidden',
    remedy: 'Ask the creator of the connection, or an administrator.',
  })
}
