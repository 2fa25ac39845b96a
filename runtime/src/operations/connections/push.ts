/** Rows that the tenant's own systems send to a connection. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { PushedRows } from '../../ingestion/push/changes.ts'
import { pushKey, type Stored } from '../../ingestion/push/intake.ts'
import { PUSH_TYPE, type PushTable, pushTables } from '../../ingestion/push/settings.ts'
import { qualified } from '../../manifest/context.ts'
import type { Connection } from '../../registry/connections.ts'
import { type Platform, requireDeveloper } from '../platform.ts'
import { connectionOf } from './connections.ts'

export interface PushTarget {
  readonly connection: Connection
  readonly table: PushTable
}

/** Where the rows go. Throws 404 for what is not there, and CONFLICT `push_not_taken` for a connection of another type. */
export async function pushTarget(
  platform: Platform,
  call: TenantCall,
  idOrName: string,
  name: string,
): Promise<PushTarget> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, idOrName)
  if (connection.connectorType !== PUSH_TYPE)
    throw new SluiceError('CONFLICT', `connections of type ${connection.connectorType} read a source`, {
      code: 'push_not_taken',
      remedy: 'Push to a connection of the type push.',
    })
  const tables = pushTables(connection.config)
  const table = [...tables.values()].find((one) => qualified(one.name) === qualified(name))
  if (table !== undefined) return { connection, table }
  throw new SluiceError('INVALID_DATA', 'the connection has no table of that name', {
    code: 'push_table_not_found',
    remedy: `Tables: ${[...tables.keys()].slice(0, 20).join(', ')}.`,
  })
}

export interface Push extends PushedRows {
  /** As it came: it decides whether a key is used for the same request again. */
  readonly body: Uint8Array
  readonly idempotencyKey: string | null
}

/** Settles once the rows are durable in the registry; a run takes them from there. Throws as `PushIntake.store`. */
export function receiveRows(
  { pushes }: Pick<Platform, 'pushes'>,
  { principal, tenant, signal }: Pick<TenantCall, 'principal' | 'tenant' | 'signal'>,
  { connection, table }: PushTarget,
  { rows, changes, body, idempotencyKey }: Push,
): Promise<Stored> {
  const name = qualified(table.name)
  const { issuer, subject } = principal
  const key = idempotencyKey === null ? null : pushKey(['token', issuer, subject, idempotencyKey], [name, body])
  const { id: connectionId, updatedAt: changedAt } = connection
  return pushes.store({ tenant, connectionId, changedAt, table: name, rows, changes, key, signal })
}
