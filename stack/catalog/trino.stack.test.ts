/**
 * Trino as a writer over the REST catalog: tables of the sandbox that it makes, changes by position deletes and reads, and
 * what queries, products and PyIceberg's reading then make of them.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Client } from '../../acceptance/client.ts'
import { type Json, manifests } from '../../acceptance/client.ts'
import { deployVersion, openWorld, type World } from '../../acceptance/world.ts'
import { restCatalog } from '../trino/catalogs.ts'
import { TrinoError, trinoRows } from '../trino/rows.ts'

const trino = { url: process.env['SLUICE_TEST_TRINO_URL'] as string }
const FILES = { 'fs.native-local.enabled': 'true', 'local.location': '/' }

let world: World
let tenant: string
let developer: Client

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  const token = (user: string, group: string) =>
    world.deployment.token(['--tenant', tenant, '--group', group, '--user', user])
  await make('writing', await token('dora', 'svc-developers'))
  await make('reading', await token('vito', 'svc-viewers'))
  await sql('CREATE SCHEMA writing.sandbox')
})

after(async () => {
  for (const name of ['writing', 'reading']) await sql(`DROP CATALOG ${name}`).catch(() => undefined)
  await world?.close()
})

const sql = (statement: string) => trinoRows(trino, statement)

async function make(name: string, token: string): Promise<void> {
  const settings = { ...FILES, ...restCatalog(world.deployment.url, tenant, token) }
  const properties = Object.entries(settings).map(([key, value]) => `"${key}" = '${value}'`)
  await sql(`CREATE CATALOG ${name} USING iceberg WITH (${properties.join(', ')})`)
}

async function query(statement: string): Promise<Json> {
  const { status, body } = await developer.post('/api/v1/query', { sql: statement })
  assert.equal(status, 200, JSON.stringify(body))
  return body.rows
}

/** The same rows by Trino and by our own queries; values that JSON holds alike. */
async function assertBoth(statement: string, rows: readonly (readonly unknown[])[]): Promise<void> {
  assert.deepEqual(await query(statement), rows, 'by a query')
  assert.deepEqual(await sql(statement.replaceAll('sandbox.', 'writing.sandbox.')), rows, 'by Trino')
}

const CONTENT = 'SELECT id, name, part FROM sandbox.orders ORDER BY id'

describe('Trino, over REST', () => {
  it('makes a table, adds rows, deletes, updates and merges', async () => {
    await sql(`CREATE TABLE writing.sandbox.orders (id bigint, name varchar, part varchar)
      WITH (partitioning = ARRAY['part'])`)
    await sql(
      `INSERT INTO writing.sandbox.orders VALUES (1, 'one', 'a'), (2, 'two', 'a'), (3, 'three', 'b'), (4, NULL, NULL)`,
    )
    await assertBoth(CONTENT, [
      [1, 'one', 'a'],
      [2, 'two', 'a'],
      [3, 'three', 'b'],
      [4, null, null],
    ])
    await sql('DELETE FROM writing.sandbox.orders WHERE id = 2')
    await assertBoth('SELECT id FROM sandbox.orders ORDER BY id', [[1], [3], [4]])
    await sql(`UPDATE writing.sandbox.orders SET name = 'changed', part = 'c' WHERE id = 3`)
    await sql(`MERGE INTO writing.sandbox.orders o
      USING (VALUES (1, 'merged'), (9, 'new')) AS n (id, name) ON o.id = n.id
      WHEN MATCHED THEN UPDATE SET name = n.name
      WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.name, 'd')`)
    await assertBoth(CONTENT, [
      [1, 'merged', 'a'],
      [3, 'changed', 'c'],
      [4, null, null],
      [9, 'new', 'd'],
    ])
    const [[deletes]] = (await sql('SELECT count(*) FROM writing.sandbox."orders$files" WHERE content = 1')) as [
      [number],
    ]
    assert.ok(deletes > 0, 'the deletes are files of positions')
  })

  it('makes a table of a query in one step', async () => {
    await sql(`CREATE TABLE writing.sandbox.copied AS SELECT id, name FROM writing.sandbox.orders WHERE id > 1`)
    await assertBoth('SELECT id, name FROM sandbox.copied ORDER BY id', [
      [3, 'changed'],
      [4, null],
      [9, 'new'],
    ])
    await sql('CREATE OR REPLACE TABLE writing.sandbox.copied AS SELECT CAST(7 AS bigint) AS id')
    await assertBoth('SELECT id FROM sandbox.copied', [[7]])
    await sql('DROP TABLE writing.sandbox.copied')
    assert.equal((await developer.post('/api/v1/query', { sql: 'SELECT * FROM sandbox.copied' })).status, 400)
  })

  it('changes columns, rewrites and expires', async () => {
    await sql('ALTER TABLE writing.sandbox.orders ADD COLUMN score double')
    await sql('ALTER TABLE writing.sandbox.orders RENAME COLUMN name TO title')
    await sql(`UPDATE writing.sandbox.orders SET score = 0.5 WHERE id = 9`)
    const rows = [
      [1, 'merged', null],
      [3, 'changed', null],
      [4, null, null],
      [9, 'new', 0.5],
    ]
    await assertBoth('SELECT id, title, score FROM sandbox.orders ORDER BY id', rows)
    await sql('ALTER TABLE writing.sandbox.orders EXECUTE optimize')
    await assertBoth('SELECT id, title, score FROM sandbox.orders ORDER BY id', rows)
  })

  it('is refused where it may not write', async () => {
    const refusal = async (statement: string) => {
      const error = await sql(statement).then(
        () => assert.fail(statement),
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof TrinoError, String(error))
    }
    await refusal('INSERT INTO reading.sandbox.orders (id) VALUES (5)')
    await refusal('CREATE TABLE reading.sandbox.theirs AS SELECT 1 AS id')
    await refusal('CREATE SCHEMA writing.mine')
    assert.deepEqual(await query('SELECT count(*) FROM sandbox.orders'), [[4]])
  })

  it('is followed by a product that reads its table', async () => {
    const request = { name: 'orders', namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { body: product } = await developer.post('/api/v1/products', request)
    const columns =
      '  - { name: id, type: long, role: identity, nullable: false }\n  - { name: title, type: string, classification: pii.name }\n'
    const files = manifests('orders', { columns, endpoints: '  - type: lookup\n' })
    await deployVersion(developer, product.id, '1.0.0', {
      ...files,
      product: files.product.replace('name: people', 'name: orders'),
      inputs: files.inputs.replace('connection: db', 'connection: sandbox'),
    })
    await assertProduct([1, 3, 4, 9])
    await sql('DELETE FROM writing.sandbox.orders WHERE id IN (3, 4)')
    await assertProduct([1, 9])
    assert.deepEqual(await sql('SELECT id FROM writing.crm.orders ORDER BY id'), [[1], [9]])
    await assert.rejects(sql('DELETE FROM writing.crm.orders WHERE id = 1'), TrinoError)
    const told = (await sql('DESCRIBE reading.crm.orders')).map(([name, , , comment]) => [name, comment])
    assert.deepEqual(told, [
      ['id', 'class public'],
      ['title', 'class pii.name; masked for you: redact'],
    ])
  })
})

/** Materializes it, and looks into the lake and the store. */
async function assertProduct(ids: readonly number[]): Promise<void> {
  const { body } = await developer.post('/api/v1/products/orders/materialize')
  assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
  assert.deepEqual(
    await query('SELECT id FROM crm.orders ORDER BY id'),
    ids.map((id) => [id]),
  )
  for (const id of [1, 3, 4, 9]) {
    const found = await developer.get(`/api/v1/products/orders/latest?filter=id:${id}`)
    assert.equal(found.body.data?.length ?? 0, ids.includes(id) ? 1 : 0, JSON.stringify(found.body))
  }
}
