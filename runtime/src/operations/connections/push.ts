/** Rows that the tenant's own systems send to a connection. */
import { SluiceError } from '@sluice/sdk'
import type { BodyBytes, TenantCall } from '../../flow.ts'
import type { PushedRows } from '../../ingestion/push/changes.ts'
import { pushKey, type Stored } from '../../ingestion/push/intake.ts'
import { PUSH_TYPE, type PushTable, pushTables, webhookTable } from '../../ingestion/push/settings.ts'
import { isSigned, type WebhookHeaders, webhookHeaders } from '../../ingestion/push/webhook.ts'
import { qualified } from '../../manifest/context.ts'
import { databaseNow } from '../../registry/clock.ts'
import { readSecrets } from '../../registry/connection-secrets.ts'
import { type Connection, connectionOfActiveTenant } from '../../registry/connections.ts'
import { requireDeveloper } from '../permissions.ts'
import { connectionOf } from './connections.ts'
import type { ConnectionsDeps } from './deps.ts'

export interface PushTarget {
  readonly connection: Connection
  readonly table: PushTable
}

/** Where the rows go. Throws 404 for what is not there, and CONFLICT `push_not_taken` for a connection of another type. */
export async function pushTarget(
  platform: ConnectionsDeps,
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

/** A webhook that is signed as its connection asks for. */
export interface SignedWebhook extends PushTarget {
  readonly headers: WebhookHeaders
}

/**
 * Who sends a webhook proves it by its signature, and by nothing else. Throws PERMISSION `webhook_refused`, whatever of it is
 * wrong: nobody learns which connections there are.
 */
export async function signedWebhook(
  { pool, masters }: Pick<ConnectionsDeps, 'pool' | 'masters'>,
  connectionId: string,
  { headers, bytes }: BodyBytes,
): Promise<SignedWebhook> {
  const found = webhookHeaders(headers)
  const connection = found && (await connectionOfActiveTenant(pool, connectionId))
  const table = connection?.connectorType === PUSH_TYPE ? webhookTable(connection.config) : null
  if (found === null || connection === null || table === null) throw notSigned()
  const { webhook_secret: secret } = await readSecrets(pool, masters, connection)
  const now = await databaseNow(pool)
  if (secret === undefined || !isSigned(found, bytes, secret, now.getTime())) throw notSigned()
  return { connection, table, headers: found }
}

function notSigned(): SluiceError {
  return new SluiceError('PERMISSION', 'the webhook is not signed for a connection that is there', {
    code: 'webhook_refused',
  })
}

/** As `receiveRows`; the id of the webhook is its key. */
export function receiveWebhook(
  { pushes }: Pick<ConnectionsDeps, 'pushes'>,
  { connection, table, headers }: SignedWebhook,
  { rows, changes }: PushedRows,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<Stored> {
  const { tenant, id: connectionId, updatedAt: changedAt } = connection
  const name = qualified(table.name)
  const key = pushKey(['webhook', headers.id], [name, body])
  return pushes.store({ tenant, connectionId, changedAt, table: name, rows, changes, key, signal })
}

export interface Push extends PushedRows {
  /** As it came: it decides whether a key is used for the same request again. */
  readonly body: Uint8Array
  readonly idempotencyKey: string | null
}

/** Settles once the rows are durable in the registry; a run takes them from there. Throws as `PushIntake.store`. */
export function receiveRows(
  { pushes }: Pick<ConnectionsDeps, 'pushes'>,
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
