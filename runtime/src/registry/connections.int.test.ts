import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { migrate } from '../database/migrate.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import {
  connectionsNamed,
  createConnection,
  deleteConnection,
  everyConnection,
  findConnection,
  findConnectionByName,
  listConnections,
  recordConnectionTest,
  updateConnection,
} from './connections.ts'
import { connectorState, connectorStates, forgetConnectorState, saveConnectorState } from './connector-states.ts'
import { connectionNames } from './migrations/009-connection-names.ts'
import { registryMigrations } from './migrations.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

function create(tenant: string, name: string) {
  const config = { host: 'db', port: 5432, list: [1, 'two'] }
  return inTransaction(pool, (tx) =>
    createConnection(tx, { tenant, name, connectorType: 'postgresql', config, createdBy: ANN }),
  )
}

describe('a connection', () => {
  it('is found by any case of its name, and among any number', async () => {
    const [mine, theirs] = [await registry.tenant(), await registry.tenant()]
    const names = ['First', 'b', 'c', 'd', 'last']
    for (const [at, name] of names.entries()) {
      const { id } = await create(mine, name)
      // Times have milliseconds, and two connections may be made within one: then they come in the order of their ids.
      await pool.query(`update connections set created_at = to_timestamp($1) where id = $2`, [at, id])
    }
    await create(theirs, 'first')
    const named = (found: readonly { readonly name: string; readonly tenant: string }[]) =>
      found.map(({ name, tenant }) => [name, tenant])
    assert.deepEqual(named(await connectionsNamed(pool, mine, ['first', 'none'])), [['First', mine]])
    assert.deepEqual(named(await connectionsNamed(pool, mine, [])), [])
    const all = await Array.fromAsync(everyConnection(pool, mine, 2))
    assert.deepEqual(
      all.map(({ name }) => name),
      ['last', 'd', 'c', 'b', 'First'],
    )
  })

  it('is found by id and by name, in its tenant only', async () => {
    const [mine, theirs] = [await registry.tenant(), await registry.tenant()]
    const crm = await create(mine, 'crm')
    await create(theirs, 'crm')
    assert.deepEqual(crm.config, { host: 'db', port: 5432, list: [1, 'two'] })
    assert.deepEqual(await findConnection(pool, mine, crm.id), crm)
    assert.deepEqual(await findConnection(pool, mine, 'crm'), crm)
    assert.equal(await findConnection(pool, theirs, crm.id), null)
    await assert.rejects(create(mine, 'crm'), { kind: 'CONFLICT', code: 'connection_exists' })
    const billing = await create(mine, 'billing')
    await assert.rejects(updateConnection(pool, mine, billing.id, { name: 'crm' }), { code: 'connection_exists' })
    assert.equal(await updateConnection(pool, theirs, billing.id, { name: 'stolen' }), null)
    assert.deepEqual(
      (await listConnections(pool, mine, { limit: 10, after: null })).items.map(({ name }) => name).sort(),
      ['billing', 'crm'],
    )
    assert.equal(await inTransaction(pool, (tx) => deleteConnection(tx, theirs, crm.id)), false)
    assert.equal(await inTransaction(pool, (tx) => deleteConnection(tx, mine, crm.id)), true)
  })

  it('has a name that no other of its tenant has in another case', async () => {
    const [mine, theirs] = [await registry.tenant(), await registry.tenant()]
    const [crm, billing] = [await create(mine, 'crm'), await create(mine, 'billing')]
    const taken = { kind: 'CONFLICT', code: 'connection_exists' }
    await assert.rejects(create(mine, 'CRM'), taken)
    await assert.rejects(updateConnection(pool, mine, billing.id, { name: 'Crm' }), taken)
    assert.equal((await create(theirs, 'CRM')).name, 'CRM')
    assert.equal((await updateConnection(pool, mine, crm.id, { name: 'Crm' }))?.name, 'Crm')
    await assert.rejects(create(mine, 'crm'), taken)
  })

  it('keeps a name that it had when another could have it in another case', async () => {
    const former = registryMigrations.migrations.slice(0, registryMigrations.migrations.indexOf(connectionNames))
    const postgres = await startTestPostgres()
    await using database = await postgres.createDatabase({ migrations: [{ name: 'registry', migrations: former }] })
    const old = database.pool()
    await old.query(`insert into tenant_slugs (slug) values ('acme'), ('other');
      insert into tenants (slug, display_name, tier, status) values ('acme', '', 'standard', 'active'),
        ('other', '', 'standard', 'active');
      insert into connections (id, tenant, name, connector_type, config, created_by, created_at)
        select id, tenant, name, 'postgresql', '{}', '{}', now() + after from (values
          ('con_1', 'acme', 'crm', interval '1 s'), ('con_2', 'acme', 'CRM', interval '2 s'),
          ('con_3', 'acme', 'Crm', interval '3 s'), ('con_4', 'other', 'CRM', interval '4 s')) c (id, tenant, name, after)`)
    await migrate(old, [registryMigrations])
    assert.equal((await updateConnection(old, 'acme', 'con_2', { config: { host: 'db' } }))?.name, 'CRM')
    const taken = { code: 'connection_exists' }
    await assert.rejects(updateConnection(old, 'acme', 'con_2', { name: 'cRM' }), taken)
    await assert.rejects(make('other', 'crm'), taken)
    for (const name of ['CRM', 'cRm']) await assert.rejects(make('acme', name), taken)
    assert.equal((await updateConnection(old, 'acme', 'con_3', { name: 'billing' }))?.name, 'billing')
    await assert.rejects(make('acme', 'Billing'), taken)

    function make(tenant: string, name: string) {
      return inTransaction(old, (tx) =>
        createConnection(tx, { tenant, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
      )
    }
  })

  it('that is named like the id of another does not stand in for it', async () => {
    const tenant = await registry.tenant()
    const real = await create(tenant, 'real')
    const impostor = await create(tenant, real.id)
    assert.equal((await findConnection(pool, tenant, real.id))?.id, real.id)
    assert.equal((await findConnectionByName(pool, tenant, real.id))?.id, impostor.id)
  })

  it('loses its test result with a change of where it leads, and takes none of an older state', async () => {
    const connection = await registry.connection(await registry.tenant())
    assert.equal(await recordConnectionTest(pool, connection, 'ok'), true)
    const renamed = await updateConnection(pool, connection.tenant, connection.id, { name: 'renamed' })
    assert.equal(renamed?.status, 'ok')
    const moved = await updateConnection(pool, connection.tenant, connection.id, { config: { host: 'elsewhere' } })
    assert.equal(moved?.status, 'untested')
    assert.equal(await recordConnectionTest(pool, connection, 'ok'), false)
    assert.equal((await findConnection(pool, connection.tenant, connection.id))?.status, 'untested')
  })

  it('keeps a state for each table, with the transaction that it belongs to', async () => {
    const connection = await registry.connection(await registry.tenant())
    const key = { connectionId: connection.id, tableName: 'public.orders', runId: 'run_1' }
    const state = { version: 1, value: { cursor: '2026-01-01', seen: ['a'] } }
    await inTransaction(pool, (tx) => saveConnectorState(tx, key, state))
    const failing = inTransaction(pool, async (tx) => {
      await saveConnectorState(tx, key, { version: 2 })
      throw new Error('lake said no')
    })
    await assert.rejects(failing)
    assert.deepEqual((await connectorState(pool, connection.id, 'public.orders'))?.state, state)
    await inTransaction(pool, (tx) => saveConnectorState(tx, { ...key, runId: 'run_2' }, { version: 3 }))
    assert.deepEqual(
      (await connectorStates(pool, connection.id)).map(({ runId, state }) => [runId, state]),
      [['run_2', { version: 3 }]],
    )
    await forgetConnectorState(pool, connection.id, 'public.orders')
    assert.equal(await connectorState(pool, connection.id, 'public.orders'), null)
  })
})
