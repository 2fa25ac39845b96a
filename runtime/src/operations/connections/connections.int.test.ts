/** Connections that several people change at once. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { ConnectorPlugin } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { LAKE_MIGRATIONS } from '../../lake/migrations.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { readSecrets } from '../../registry/connection-secrets.ts'
import { findConnection } from '../../registry/connections.ts'
import { MasterKeys } from '../../registry/master-keys.ts'
import { createTenantKeys } from '../../registry/tenant-keys.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import { HIDDEN_SECRET } from './connection-settings.ts'
import { changeConnection, registerConnection, removeConnection } from './connections.ts'
import type { ConnectionsDeps } from './deps.ts'

const registry = await startTestRegistry([LAKE_MIGRATIONS])
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const masters = new MasterKeys('k1', { k1: Buffer.alloc(32, 1).toString('base64') })
/** What happens while the plugin looks at somebody's settings. */
let meanwhile: (() => Promise<unknown>) | null = null

/** The login that the plugin was given to look at, each time. */
let opened: string[] = []

const connector = {
  type: 'places',
  settingsSchema: {
    type: 'object',
    properties: {
      host: { type: 'string' },
      schemas: { type: 'array', items: { type: 'string' } },
      tables: { type: 'object' },
      password: { type: 'string', 'x-secret': true },
    },
    required: ['host'],
    additionalProperties: false,
  },
  async open(settings: { readonly host: string; readonly password?: string }) {
    opened.push(`${settings.password} at ${settings.host}`)
    const now = meanwhile
    meanwhile = null
    await now?.()
    return { close: async () => {} }
  },
} as unknown as ConnectorPlugin

const platform = {
  pool,
  masters,
  plugins: { connector: () => connector, connectorTypes: () => ['places'] },
  config: { limits: { schedule_interval_ms: 60_000 } },
} as unknown as ConnectionsDeps

function as(tenant: string, subject: string): TenantCall {
  const principal = { issuer: 'https://issuer.example', subject, tenant, groups: [], isAdmin: false, isDeveloper: true }
  return { tenant, principal, requestId: 'r', traceparent: null } as unknown as TenantCall
}

it('lead where their owner says, whatever somebody who saw them before sends in the same moment', async () => {
  const tenant = await registry.tenant()
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  const [owner, colleague] = [as(tenant, 'owner'), as(tenant, 'colleague')]
  const former = { host: 'old.example' }
  const configText = JSON.stringify({ ...former, password: 'first' })
  await registerConnection(platform, owner, { name: 'db', connectorType: 'places', configText }, async () => {})
  meanwhile = () =>
    changeConnection(platform, owner, 'db', {
      configText: JSON.stringify({ host: 'new.example', password: 'second' }),
    })
  const listed = { configText: JSON.stringify({ ...former, schemas: ['public'] }) }
  await assert.rejects(changeConnection(platform, colleague, 'db', listed), { code: 'connection_owner_required' })
  const now = await findConnection(pool, tenant, 'db')
  assert.ok(now)
  assert.deepEqual(now.config, { host: 'new.example' })
  assert.deepEqual(await readSecrets(pool, masters, now), { password: 'second' })
  const same = { configText: JSON.stringify({ host: 'new.example', schemas: ['public'] }) }
  await changeConnection(platform, colleague, 'db', same)
})

it('keep a secret that is sent back as answers show it, and take none for one', async () => {
  const tenant = await registry.tenant()
  const [owner, colleague] = [as(tenant, 'owner'), as(tenant, 'colleague')]
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  const configText = (settings: object) => JSON.stringify({ host: 'db.example', ...settings })
  const register = (name: string, settings: object) =>
    registerConnection(
      platform,
      owner,
      { name, connectorType: 'places', configText: configText(settings) },
      async () => {},
    )
  await register('db', { password: 'first' })
  const shown = { host: 'db.example', password: HIDDEN_SECRET }
  // Who edits what was shown, and sends it back whole: also one who may not change the login.
  const edited = { configText: JSON.stringify({ ...shown, schemas: ['public'] }) }
  for (const somebody of [owner, colleague]) {
    await changeConnection(platform, somebody, 'db', edited)
    const now = await findConnection(pool, tenant, 'db')
    assert.ok(now)
    assert.deepEqual(await readSecrets(pool, masters, now), { password: 'first' })
  }
  const elsewhere = { configText: JSON.stringify({ ...shown, host: 'other.example' }) }
  const refused = { code: 'invalid_connection_config', kind: 'INVALID_DATA' }
  await assert.rejects(changeConnection(platform, owner, 'db', elsewhere), refused)
  // Nothing is stored that it could stand for.
  await assert.rejects(register('new', { password: HIDDEN_SECRET }), refused)
  await register('open', {})
  const first = { configText: configText({ password: HIDDEN_SECRET }) }
  await assert.rejects(changeConnection(platform, owner, 'open', first), refused)
})

it('have a secret that stays looked at by the plugin as it is, but at no other place, and for nobody who may not say what is read', async () => {
  const tenant = await registry.tenant()
  const [owner, colleague] = [as(tenant, 'owner'), as(tenant, 'colleague')]
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  const shown = { host: 'db.example', password: HIDDEN_SECRET }
  const configText = JSON.stringify({ ...shown, password: 'first' })
  await registerConnection(platform, owner, { name: 'db', connectorType: 'places', configText }, async () => {})
  const lookedAt = async (who: TenantCall, change: object) => {
    opened = []
    const told = changeConnection(platform, who, 'db', { configText: JSON.stringify({ ...shown, ...change }) })
    const code = await told.then(
      () => 'taken',
      (error: { code: string }) => error.code,
    )
    return [...opened, code]
  }
  const [kept, hidden] = ['first at db.example', `${HIDDEN_SECRET} at db.example`]
  assert.deepEqual(await lookedAt(owner, {}), [kept, 'taken'])
  assert.deepEqual(await lookedAt(colleague, { schemas: ['public'] }), [kept, 'taken'])
  assert.deepEqual(await lookedAt(colleague, { tables: { a: {} } }), [hidden, 'connection_owner_required'])
  assert.deepEqual(await lookedAt(owner, { tables: { a: {} } }), [kept, 'taken'])
  for (const [who, code] of [
    [owner, 'invalid_connection_config'],
    [colleague, 'connection_owner_required'],
  ] as const) {
    assert.deepEqual(await lookedAt(who, { host: 'other.example' }), [`${HIDDEN_SECRET} at other.example`, code])
  }
})

it('are renamed and deleted while all other connections to the registry wait for them', async () => {
  const tenant = await registry.tenant()
  const owner = as(tenant, 'owner')
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  const configText = JSON.stringify({ host: 'db.example' })
  await registerConnection(platform, owner, { name: 'db', connectorType: 'places', configText }, async () => {})
  const only = registry.database.pool({ maxConnections: 1, connectTimeoutMs: 2_000 })
  const tables = async (warehouse: string, namespace?: string) =>
    (await registryCatalog(only).tables(warehouse, namespace)).map(({ ref }) => ref)
  const busy = { ...platform, pool: only, lake: { tables } } as unknown as ConnectionsDeps
  await changeConnection(busy, owner, 'db', { name: 'later' })
  await removeConnection(busy, owner, 'later')
  assert.equal(await findConnection(pool, tenant, 'later'), null)
})
