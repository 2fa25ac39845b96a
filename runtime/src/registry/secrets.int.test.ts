import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type pg from 'pg'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { readSecrets, rotateSecretKey, storeSecrets } from './connection-secrets.ts'
import type { Connection } from './connections.ts'
import { MasterKeys, openMasterKeyFile } from './master-keys.ts'
import {
  checkMasterKeys,
  createTenantKeys,
  destroyTenantKeys,
  maskKey,
  neededMasterKeys,
  rotateMasterKey,
} from './tenant-keys.ts'
import { deleteTenant } from './tenants.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
const keyFile = join(folder, 'keys', 'master.json')
const masters = openMasterKeyFile(keyFile)
after(async () => {
  await registry[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const SECRETS = { password: 'correct horse – battery', token: '' }

async function tenantWithKeys(): Promise<string> {
  const tenant = await registry.tenant()
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  return tenant
}

async function connectionWithSecrets(tenant?: string): Promise<Connection> {
  const connection = await registry.connection(tenant ?? (await tenantWithKeys()))
  await inTransaction(pool, (tx) => storeSecrets(tx, masters, connection, SECRETS))
  return connection
}

const unreadable = { kind: 'CONFIG', code: 'secret_unreadable' }

describe('the secrets of a connection', () => {
  it('come back as they went in, and lie in no table in clear', async () => {
    const connection = await connectionWithSecrets()
    assert.deepEqual(await readSecrets(pool, masters, connection), SECRETS)
    const { rows } = await pool.query<{
      all: string
    }>(`select string_agg(s::text || encode(sealed, 'escape'), '') as all
      from connection_secrets s`)
    assert.doesNotMatch(rows[0]?.all ?? '', /correct horse/)
  })

  it('are sealed differently each time', async () => {
    const connection = await connectionWithSecrets()
    const sealed = async (): Promise<unknown> =>
      (
        await pool.query('select sealed from connection_secrets where connection_id = $1 order by field', [
          connection.id,
        ])
      ).rows
    const before = await sealed()
    await inTransaction(pool, (tx) => storeSecrets(tx, masters, connection, SECRETS))
    assert.notDeepEqual(await sealed(), before)
  })

  it('open in no other place: not in another field, connection or tenant, nor changed', async () => {
    const connection = await connectionWithSecrets()
    const sibling = await connectionWithSecrets(connection.tenant)
    const move = async (text: string, values: unknown[], read: Connection): Promise<void> => {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await client.query(text, values)
        await assert.rejects(readSecrets(client, masters, read), unreadable)
      } finally {
        await client.query('rollback')
        client.release()
      }
    }
    await move(
      `update connection_secrets set field = 'other' where connection_id = $1 and field = 'password'`,
      [connection.id],
      connection,
    )
    await move(
      `update connection_secrets t set sealed = s.sealed from connection_secrets s
       where s.connection_id = $1 and t.connection_id = $2 and s.field = t.field`,
      [connection.id, sibling.id],
      sibling,
    )
    await move(
      `update connection_secrets set sealed = set_byte(sealed, octet_length(sealed) - 1,
         get_byte(sealed, octet_length(sealed) - 1) # 1) where connection_id = $1`,
      [connection.id],
      connection,
    )
    const stranger = await tenantWithKeys()
    await move(
      `update tenant_keys t set wrapped = s.wrapped from tenant_keys s
       where s.tenant = $1 and t.tenant = $2 and s.purpose = t.purpose`,
      [stranger, connection.tenant],
      connection,
    )
    await assert.rejects(readSecrets(pool, masters, { ...connection, tenant: stranger }), unreadable)
  })

  it('go with the tenant’s keys, which outlive the tenant until then', async () => {
    const connection = await connectionWithSecrets()
    const kept = await pool.query('select * from connection_secrets where connection_id = $1', [connection.id])
    await inTransaction(pool, (tx) => deleteTenant(tx, connection.tenant))
    const keysOf = 'select from tenant_keys where tenant = $1'
    assert.equal((await pool.query(keysOf, [connection.tenant])).rowCount, 2)
    await destroyTenantKeys(pool, connection.tenant)
    assert.equal((await pool.query(keysOf, [connection.tenant])).rowCount, 0)
    assert.ok((kept.rowCount ?? 0) > 0)
  })

  it('are all under the new key after a rotation, those written meanwhile too', async () => {
    for (const order of ['written first', 'rotated first'] as const) {
      const connection = await connectionWithSecrets()
      const other = await registry.connection(connection.tenant)
      const rotate = (tx: pg.PoolClient) => rotateSecretKey(tx, masters, connection.tenant)
      const write = (tx: pg.PoolClient) => storeSecrets(tx, masters, other, { password: 'meanwhile' })
      const [first, second]: ((tx: pg.PoolClient) => Promise<unknown>)[] =
        order === 'written first' ? [write, rotate] : [rotate, write]
      let waiting: Promise<unknown> = Promise.resolve()
      await inTransaction(pool, async (tx) => {
        await first?.(tx)
        waiting = inTransaction(pool, (late) => (second as typeof rotate)(late))
        await someoneWaitsForALock()
      })
      await waiting
      assert.deepEqual(await readSecrets(pool, masters, connection), SECRETS)
      assert.deepEqual(await readSecrets(pool, masters, other), { password: 'meanwhile' })
      const keys = await pool.query(`select version from tenant_keys where tenant = $1 and purpose = 'secret'`, [
        connection.tenant,
      ])
      assert.deepEqual(keys.rows, [{ version: 2 }])
    }
  })
})

async function someoneWaitsForALock(): Promise<void> {
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await until('someone waits for a lock', async () => (await pool.query(waiting)).rowCount !== 0)
}

describe('the master key', () => {
  it('lies in a file for its owner alone, and stays the same', () => {
    assert.equal(statSync(keyFile).mode & 0o777, 0o600)
    assert.equal(openMasterKeyFile(keyFile).currentId, masters.currentId)
  })

  it('is replaced by rewrapping, also for runtimes that had opened the file before', async () => {
    const connection = await connectionWithSecrets()
    const [here, there] = [openMasterKeyFile(keyFile), openMasterKeyFile(keyFile)]
    const former = here.currentId
    const stolen = new MasterKeys(former, JSON.parse(readFileSync(keyFile, 'utf8')).keys)
    const rotate = () => inTransaction(pool, (tx) => rotateMasterKey(tx, here))
    assert.ok((await rotate()) > 0)
    assert.notEqual(here.currentId, former)
    for (const masters of [here, there]) assert.deepEqual(await readSecrets(pool, masters, connection), SECRETS)
    assert.equal(there.currentId, here.currentId)
    await assert.rejects(readSecrets(pool, stolen, connection), { code: 'master_key_missing' })
    assert.ok(here.key(former), 'for backups of the registry')
    await rotate()
    assert.throws(() => openMasterKeyFile(keyFile).key(former), { code: 'master_key_missing' })
    assert.deepEqual(await readSecrets(pool, there, connection), SECRETS)
    assert.equal(statSync(keyFile).mode & 0o777, 0o600)
  })

  it('is caught up with where a rotation was cut short, or the file is changed by others', async () => {
    const connection = await connectionWithSecrets()
    const masters = openMasterKeyFile(keyFile)
    masters.replace(await neededMasterKeys(pool))
    const { currentId } = masters
    assert.ok((await inTransaction(pool, (tx) => rotateMasterKey(tx, masters))) > 0)
    assert.equal(masters.currentId, currentId, 'no further key')
    assert.deepEqual(await neededMasterKeys(pool), [currentId])
    assert.deepEqual(await readSecrets(pool, masters, connection), SECRETS)
  })

  it('wraps all that is made while it is replaced', async () => {
    const masters = openMasterKeyFile(keyFile)
    const make = () => connectionWithSecrets()
    const rotate = () => inTransaction(pool, (tx) => rotateMasterKey(tx, openMasterKeyFile(keyFile)))
    const made = await Promise.all([make(), rotate(), make(), make(), rotate(), make(), rotate(), make()])
    await rotate()
    await rotate()
    for (const one of made) {
      if (typeof one !== 'number') assert.deepEqual(await readSecrets(pool, masters, one), SECRETS)
    }
  })

  it('is never made anew where the registry names one, and stops whoever lacks it', async () => {
    await connectionWithSecrets()
    const needed = await neededMasterKeys(pool)
    assert.ok(needed.length > 0)
    const missing = join(folder, 'missing.json')
    assert.throws(() => openMasterKeyFile(missing, needed), { kind: 'CONFIG', code: 'master_key_missing' })
    assert.equal(existsSync(missing), false)
    openMasterKeyFile(missing)
    assert.throws(() => openMasterKeyFile(missing, needed), { kind: 'CONFIG', code: 'master_key_missing' })
    assert.ok(openMasterKeyFile(keyFile, needed))
  })

  it('stops whoever has another key under the same id, of whichever of the keys that are needed, and only then', async () => {
    await connectionWithSecrets()
    // Of a rotation that was cut short both are needed.
    masters.replace(await neededMasterKeys(pool))
    await connectionWithSecrets()
    const needed = await neededMasterKeys(pool)
    assert.ok(needed.length > 1)
    await checkMasterKeys(pool, keyFile)
    const right = JSON.parse(readFileSync(keyFile, 'utf8'))
    const path = join(folder, 'wrong.json')
    for (const id of needed) {
      const text = JSON.stringify({ ...right, keys: { ...right.keys, [id]: randomBytes(32).toString('base64') } })
      writeFileSync(path, text, { mode: 0o600 })
      await assert.rejects(checkMasterKeys(pool, path), {
        kind: 'CONFIG',
        code: 'master_key_wrong',
        details: { key_id: id },
      })
      assert.equal(readFileSync(path, 'utf8'), text)
    }
    const [row] = (await pool.query('select tenant, wrapped from tenant_keys limit 1')).rows
    await pool.query("update tenant_keys set wrapped = 'x' where tenant = $1 and purpose = 'mask'", [row.tenant])
    await checkMasterKeys(pool, keyFile)
    await inTransaction(pool, (tx) => destroyTenantKeys(tx, row.tenant))
  })

  it('is never made anew where its file is damaged', () => {
    const damaged = join(folder, 'damaged.json')
    writeFileSync(damaged, '{"current":"mk_secretsecret","keys":')
    const open = (): MasterKeys => openMasterKeyFile(damaged)
    assert.throws(open, (error: Error) => /cannot be read/.test(error.message) && !/secretsecret/.test(error.message))
    assert.match(readFileSync(damaged, 'utf8'), /"keys":$/)
    chmodSync(damaged, 0o600)
  })
})

describe('a mask key', () => {
  it('is the same for a tenant and class, and another for any other', async () => {
    const both = openMasterKeyFile(keyFile)
    const make = async (): Promise<string> => {
      const tenant = await registry.tenant()
      await inTransaction(pool, (tx) => createTenantKeys(tx, both, tenant))
      return tenant
    }
    const [one, other] = [await make(), await make()]
    const key = async (tenant: string, classification: string): Promise<string> =>
      (await maskKey(pool, both, tenant, classification)).toString('hex')
    const identifier = await key(one, 'pii.identifier')
    assert.equal(identifier.length, 64)
    await inTransaction(pool, (tx) => createTenantKeys(tx, both, one))
    await inTransaction(pool, (tx) => rotateSecretKey(tx, both, one))
    assert.equal(await key(one, 'pii.identifier'), identifier)
    assert.notEqual(await key(one, 'pii.name'), identifier)
    assert.notEqual(await key(other, 'pii.identifier'), identifier)
  })
})
