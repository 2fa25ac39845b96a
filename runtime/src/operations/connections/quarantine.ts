/** Rows of a connection that could not be carried, for who may read its raw tables. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { listQuarantine, type QuarantinedRow, quarantinedTables } from '../../registry/quarantine.ts'
import { requireMember } from '../permissions.ts'
import { mayReadRaw, rawReader } from '../rights/raw-rights.ts'
import { connectionOf } from './connections.ts'
import type { ConnectionsDeps } from './deps.ts'

/**
 * Newest first. Of one table where it is named, else of all that the caller may read: which rows, columns and values of a
 * table were refused, and how many, is known to nobody else. Throws PERMISSION `raw_table_forbidden`.
 */
export async function quarantineOf(
  platform: ConnectionsDeps,
  call: TenantCall,
  reference: string,
  table: string | null,
  page: PageRequest,
): Promise<Page<QuarantinedRow>> {
  requireMember(call.principal)
  const { pool, masters } = platform
  const connection = await connectionOf(platform, call.tenant, reference)
  if (table !== null && !(await mayReadRaw(platform, call, connection, table))) throw rawTableForbidden(table)
  const mayRead = rawReader(platform, call.principal, call.tenant)
  const known = table === null ? await quarantinedTables(pool, connection.id) : [table]
  const rights = await Promise.all(known.map((name) => mayRead(connection.id, name)))
  const tables = known.filter((_, index) => rights[index])
  return listQuarantine(pool, masters, { tenant: call.tenant, connectionId: connection.id, tables }, page)
}

export function rawTableForbidden(table: string): SluiceError {
  return new SluiceError('PERMISSION', `you may not read the raw table ${table}`, {
    code: 'raw_table_forbidden',
    remedy: 'Ask the creator of the connection for a grant on the table.',
  })
}
