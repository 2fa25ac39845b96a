/** The secret fields of a connection's settings, sealed one by one with the tenant's key. */
import type { MasterKeys } from './master-keys.ts'
import { resealTargets } from './notification-targets.ts'
import { seal, unseal } from './sealing.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'
import { addSecretKey, currentTenantKey, dropSecretKeysBefore, type TenantKey, tenantKey } from './tenant-keys.ts'
import { resealWebhooks } from './webhooks.ts'

export type Secrets = Readonly<Record<string, string>>

interface SecretRow {
  readonly connectionId: string
  readonly field: string
  readonly keyVersion: number
  readonly sealed: Buffer
}

const COLUMNS = 'connection_id as "connectionId", field, key_version as "keyVersion", sealed'

/** Replaces the connection's secrets by these. */
export async function storeSecrets(
  tx: Transaction,
  masters: MasterKeys,
  connection: { readonly tenant: string; readonly id: string },
  secrets: Secrets,
): Promise<void> {
  // Before the key is read: from here on a rotation waits for this transaction, or this one has waited for it.
  await change(tx, 'replacing secrets', 'delete from connection_secrets where connection_id = $1', [connection.id])
  const key = await currentTenantKey(tx, masters, connection.tenant, 'secret')
  for (const [field, text] of Object.entries(secrets)) await writeSecret(tx, connection, field, text, key)
}

/** In clear, for the connector alone: never log, return or keep them. */
export async function readSecrets(
  db: Queryable,
  masters: MasterKeys,
  connection: { readonly tenant: string; readonly id: string },
): Promise<Secrets> {
  const rows = await many<SecretRow>(
    db,
    'reading secrets',
    `select ${COLUMNS} from connection_secrets where connection_id = $1`,
    [connection.id],
  )
  const keys = new Map<number, TenantKey>()
  for (const { keyVersion } of rows) {
    if (!keys.has(keyVersion)) {
      keys.set(keyVersion, await tenantKey(db, masters, connection.tenant, 'secret', keyVersion))
    }
  }
  return Object.fromEntries(
    rows.map((row) => [row.field, open(connection.tenant, row, keys.get(row.keyVersion) as TenantKey)]),
  )
}

/**
 * Gives the tenant a new key, seals all its secrets with it and removes the old one. One transaction: afterwards either
 * all is under the new key or nothing has changed. Returns how many secrets were sealed anew.
 */
export async function rotateSecretKey(tx: Transaction, masters: MasterKeys, tenant: string): Promise<number> {
  // Writers change this table before they read their key, so none seals with the old one from here on.
  const lock = 'lock table connection_secrets, notification_targets, webhooks in share row exclusive mode'
  await change(tx, 'locking the secrets', lock)
  const next = await addSecretKey(tx, masters, tenant)
  const rows = await many<SecretRow>(
    tx,
    'reading secrets',
    `select ${COLUMNS} from connection_secrets join connections on id = connection_id where tenant = $1`,
    [tenant],
  )
  for (const row of rows) {
    const text = open(tenant, row, await tenantKey(tx, masters, tenant, 'secret', row.keyVersion))
    await writeSecret(tx, { tenant, id: row.connectionId }, row.field, text, next)
  }
  const targets = await resealTargets(tx, masters, tenant, next)
  const webhooks = await resealWebhooks(tx, masters, tenant, next)
  await dropSecretKeysBefore(tx, tenant, next.version)
  return rows.length + targets + webhooks
}

async function writeSecret(
  tx: Transaction,
  connection: { readonly tenant: string; readonly id: string },
  field: string,
  text: string,
  { key, version }: TenantKey,
): Promise<void> {
  const sealed = seal(key, Buffer.from(text), ['secret', connection.tenant, connection.id, field, version])
  await change(
    tx,
    'storing a secret',
    `insert into connection_secrets (connection_id, field, key_version, sealed) values ($1, $2, $3, $4)
     on conflict (connection_id, field) do update set key_version = excluded.key_version, sealed = excluded.sealed`,
    [connection.id, field, version, sealed],
  )
}

function open(tenant: string, row: SecretRow, { key }: TenantKey): string {
  return unseal(key, row.sealed, ['secret', tenant, row.connectionId, row.field, row.keyVersion]).toString('utf8')
}
