/**
 * Each tenant's own keys, wrapped under a master key: `secret` seals its connections' secrets, `mask` is what its masks
 * are derived from. Destroying them makes what they protect unreadable, wherever a copy of it may lie.
 */
import { hkdfSync, randomBytes } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { type MasterKeys, openMasterKeyFile } from './master-keys.ts'
import { KEY_BYTES, seal, unseal } from './sealing.ts'
import { change, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

export type KeyPurpose = 'secret' | 'mask'

export interface TenantKey {
  readonly version: number
  readonly key: Buffer
}

interface KeyRow {
  readonly version: number
  readonly masterKeyId: string
  readonly wrapped: Buffer
}

const COLUMNS = 'version, master_key_id as "masterKeyId", wrapped'

/** Makes the tenant's first keys. Repeatable: keys that are there stay. */
export async function createTenantKeys(tx: Transaction, masters: MasterKeys, tenant: string): Promise<void> {
  for (const purpose of ['secret', 'mask'] as const) await insertKey(tx, masters, tenant, purpose, 1)
}

/** The newest key of that purpose; throws CONFIG `tenant_key_missing` where there is none (any more). */
export async function currentTenantKey(
  db: Queryable,
  masters: MasterKeys,
  tenant: string,
  purpose: KeyPurpose,
): Promise<TenantKey> {
  const row = await maybeOne<KeyRow>(
    db,
    'reading the tenant’s key',
    `select ${COLUMNS} from tenant_keys where tenant = $1 and purpose = $2 order by version desc limit 1`,
    [tenant, purpose],
  )
  return unwrap(masters, tenant, purpose, row)
}

/** A key of an earlier version, for what was sealed with it. */
export async function tenantKey(
  db: Queryable,
  masters: MasterKeys,
  tenant: string,
  purpose: KeyPurpose,
  version: number,
): Promise<TenantKey> {
  const row = await maybeOne<KeyRow>(
    db,
    'reading the tenant’s key',
    `select ${COLUMNS} from tenant_keys where tenant = $1 and purpose = $2 and version = $3`,
    [tenant, purpose, version],
  )
  return unwrap(masters, tenant, purpose, row)
}

/**
 * The key for masking values of one class in one tenant: 32 bytes, always the same. Pass it as a bound parameter, never
 * inside a statement's text.
 */
export async function maskKey(
  db: Queryable,
  masters: MasterKeys,
  tenant: string,
  classification: string,
): Promise<Buffer> {
  // Version 1 for good: another key would change every masked value, and joins over time with it.
  const { key } = await tenantKey(db, masters, tenant, 'mask', 1)
  return Buffer.from(hkdfSync('sha256', key, tenant, `mask:${classification}`, KEY_BYTES))
}

/** The key that seals values of rows in the registry. As the masks' keys it stays, and goes with the tenant. */
export async function rowsKey(db: Queryable, masters: MasterKeys, tenant: string): Promise<Buffer> {
  const { key } = await tenantKey(db, masters, tenant, 'mask', 1)
  return Buffer.from(hkdfSync('sha256', key, tenant, 'rows', KEY_BYTES))
}

/** Adds the next version of the tenant's secret key. What was sealed before stays readable by its own version. */
export async function addSecretKey(tx: Transaction, masters: MasterKeys, tenant: string): Promise<TenantKey> {
  const { version } = await currentTenantKey(tx, masters, tenant, 'secret')
  await insertKey(tx, masters, tenant, 'secret', version + 1)
  return tenantKey(tx, masters, tenant, 'secret', version + 1)
}

/** Removes the versions of the secret key before that one. */
export async function dropSecretKeysBefore(tx: Transaction, tenant: string, version: number): Promise<void> {
  const statement = `delete from tenant_keys where tenant = $1 and purpose = 'secret' and version < $2`
  await change(tx, 'removing old keys', statement, [tenant, version])
}

/** Ids of the master keys that are needed to open what the registry has. */
export async function neededMasterKeys(db: Queryable): Promise<readonly string[]> {
  const statement = 'select distinct master_key_id as id from tenant_keys order by id'
  return (await many<{ id: string }>(db, 'reading the tenants’ keys', statement)).map(({ id }) => id)
}

interface WrappedKey extends KeyRow {
  readonly tenant: string
  readonly purpose: KeyPurpose
}

/**
 * Throws CONFIG `master_key_missing` or `master_key_wrong` where the file is not the one that this registry's keys lie under:
 * what it would open later could not be read, and what it made anew could not be read by the right one. Writes nothing; a
 * registry that has not got its tables yet needs no key.
 */
export async function checkMasterKeys(db: Queryable, path: string): Promise<void> {
  const table = await maybeOne(
    db,
    'looking for keys',
    "select from pg_class where oid = to_regclass('tenant_keys')",
    [],
  )
  const needed = table === null ? [] : await neededMasterKeys(db)
  if (needed.length === 0) return
  const masters = openMasterKeyFile(path, needed)
  for (const id of needed) {
    const rows = await many<WrappedKey>(
      db,
      'reading the tenants’ keys',
      `select tenant, purpose, ${COLUMNS} from tenant_keys where master_key_id = $1
       order by created_at desc limit ${KEYS_TRIED}`,
      [id],
    )
    if (!rows.some((row) => opens(masters, row))) throw wrongMasterKey(id, path)
  }
}

/** One that does not open may have been damaged by itself; more of them were wrapped under another key. */
const KEYS_TRIED = 20

function opens(masters: MasterKeys, row: WrappedKey): boolean {
  try {
    unwrap(masters, row.tenant, row.purpose, row)
    return true
  } catch (error) {
    if (isSluiceError(error) && error.code === 'secret_unreadable') return false
    throw error
  }
}

function wrongMasterKey(id: string, path: string): SluiceError {
  return new SluiceError('CONFIG', `the master key ${id} in ${path} opens none of the registry’s keys`, {
    code: 'master_key_wrong',
    remedy: 'Put back the master key file that belongs to this registry: another key has the same id there.',
    details: { key_id: id },
  })
}

/**
 * Makes a new master key and wraps every tenant's key anew under it; returns how many. The file keeps the former one for
 * the registry's backups, until the next time. Where something lies under another key than the file's current one, that
 * is caught up with first, and no further key is made: a rotation that was cut short is finished by repeating it.
 */
export async function rotateMasterKey(tx: Transaction, masters: MasterKeys): Promise<number> {
  // Who makes a key takes a lock that this one excludes, and reads which master is the current one after it.
  await change(tx, 'locking the keys', 'lock table tenant_keys in share row exclusive mode')
  const needed = await neededMasterKeys(tx)
  const { currentId } = masters
  if (needed.every((id) => id === currentId)) masters.replace(needed)
  return rewrapTenantKeys(tx, masters)
}

/** Wraps every key that lies under another master key anew under the current one; returns how many. */
async function rewrapTenantKeys(tx: Transaction, masters: MasterKeys): Promise<number> {
  const { currentId } = masters
  const rows = await many<WrappedKey>(
    tx,
    'reading the tenants’ keys',
    `select tenant, purpose, ${COLUMNS} from tenant_keys where master_key_id <> $1 for update`,
    [currentId],
  )
  for (const row of rows) {
    const { key } = unwrap(masters, row.tenant, row.purpose, row)
    await change(
      tx,
      'rewrapping a tenant’s key',
      `update tenant_keys set master_key_id = $4, wrapped = $5 where tenant = $1 and purpose = $2 and version = $3`,
      [
        row.tenant,
        row.purpose,
        row.version,
        currentId,
        wrap(masters.key(currentId), row.tenant, row.purpose, row.version, key),
      ],
    )
  }
  return rows.length
}

/** The last step of removing a tenant. Repeatable. */
export async function destroyTenantKeys(db: Queryable, tenant: string): Promise<void> {
  await change(db, 'destroying the tenant’s keys', 'delete from tenant_keys where tenant = $1', [tenant])
}

async function insertKey(
  tx: Transaction,
  masters: MasterKeys,
  tenant: string,
  purpose: KeyPurpose,
  version: number,
): Promise<void> {
  await change(tx, 'locking the keys', 'lock table tenant_keys in row exclusive mode')
  const { currentId } = masters
  const wrapped = wrap(masters.key(currentId), tenant, purpose, version, randomBytes(KEY_BYTES))
  await change(
    tx,
    'making a tenant’s key',
    `insert into tenant_keys (tenant, purpose, version, master_key_id, wrapped)
     values ($1, $2, $3, $4, $5) on conflict do nothing`,
    [tenant, purpose, version, currentId, wrapped],
  )
}

function wrap(master: Buffer, tenant: string, purpose: KeyPurpose, version: number, key: Buffer): Buffer {
  return seal(master, key, ['tenant-key', tenant, purpose, version])
}

function unwrap(masters: MasterKeys, tenant: string, purpose: KeyPurpose, row: KeyRow | null): TenantKey {
  if (row === null) {
    throw new SluiceError('CONFIG', 'the tenant has no key of that version', {
      code: 'tenant_key_missing',
      remedy: 'The tenant was removed, or its provisioning has not finished.',
    })
  }
  const key = unseal(masters.key(row.masterKeyId), row.wrapped, ['tenant-key', tenant, purpose, row.version])
  return { version: row.version, key }
}
