/** Raw tables of a connection: for its creator, and for those to whom the creator grants them. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const COUNT = { sql: 'SELECT count(*) FROM raw_db.raw_people' }

let world: World
let creator: Client
let colleague: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS raw_people;
    CREATE TABLE raw_people (id integer PRIMARY KEY, email text, city text, born date);
    INSERT INTO raw_people SELECT i, 'w' || i || '@w.test', 'city' FROM generate_series(1, 9) i;
    INSERT INTO raw_people VALUES (4711, 'w@w.test', 'city', 'infinity')`)
  await world.createTenant(tenant)
  creator = await world.as(tenant, 'svc-developers', 'dora')
  colleague = await world.as(tenant, 'svc-developers', 'dan')
  const columns = [
    'id, type: integer, role: identity, nullable: false',
    'email, type: string, classification: pii.identifier',
  ]
    .concat('city, type: string', 'born, type: date')
    .map((column) => `  - { name: ${column} }\n`)
  await onboardPeople(world, creator, manifests('public.raw_people', { columns: columns.join('') }))
})

after(() => world?.close())

it('shows raw tables to the creator, and to others by a grant that only the creator gives', async () => {
  const path = '/api/v1/connections/db/grants'
  const wanted = { subject: { user: 'dan' }, table: 'public.raw_people' }
  assert.deepEqual((await creator.post('/api/v1/query', COUNT)).body.rows, [[10]])
  assert.equal((await colleague.post('/api/v1/query', COUNT)).body.code, 'table_not_found')
  assert.equal((await colleague.post(path, wanted)).body.code, 'raw_table_forbidden')
  const granted = await creator.post(path, wanted)
  assert.deepEqual([granted.status, granted.body.table, granted.body.subject], [201, wanted.table, { user: 'dan' }])
  assert.deepEqual((await colleague.post('/api/v1/query', COUNT)).body.rows, [[10]])
  assert.deepEqual((await colleague.get(path)).body.data, [granted.body])
  const second = await creator.post(path, { ...wanted, subject: { team: 'sales' } })
  const first = (await creator.get(`${path}?limit=1`)).body
  assert.deepEqual(first.data, [second.body], 'newest first')
  const rest = (await creator.get(`${path}?limit=1&cursor=${encodeURIComponent(first.next_cursor)}`)).body
  assert.deepEqual([rest.data, rest.next_cursor], [[granted.body], null])
  const removed = await creator.send(`${path}/${granted.body.id}`, { method: 'DELETE' })
  assert.equal(removed.status, 204)
  assert.equal((await colleague.post('/api/v1/query', COUNT)).body.code, 'table_not_found')
  assert.equal((await creator.post(path, { subject: {} })).body.code, 'invalid_grant')
})

it('lets nobody but the creator show under another name, or from elsewhere, what a product hides', async () => {
  const granted = await creator.post('/api/v1/connections/db/grants', { subject: { user: 'dan' } })
  assert.equal(granted.status, 201, JSON.stringify(granted.body))
  const open = (name: string, classification: string) => {
    const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: ${name}, type: string, classification: ${classification} }\n`
    const files = manifests('public.raw_people', { columns, endpoints: '  - type: analytics\n' })
    return { ...files, compute: `${files.compute}transform: SELECT id, email AS ${name} FROM source\n` }
  }
  const verdict = async (client: Client, files: Readonly<Record<string, string>>) => {
    assert.equal((await client.upload('/api/v1/products/people/manifests', files)).status, 200)
    const request = { version: '2.0.0', dry_run: true }
    const { status, body } = await client.post('/api/v1/products/people/deploy', request)
    return body.code ?? status
  }
  const plain = open('mail', 'public')
  assert.equal(await verdict(colleague, plain), 'class_lowering_refused')
  assert.equal(await verdict(colleague, open('email', 'pii.name')), 'class_lowering_refused')
  assert.equal(await verdict(colleague, open('mail', 'pii.identifier')), 200)
  assert.equal(await verdict(creator, plain), 200)
})

it('shows rows that could not be carried to who may read the raw table, while the connection leads there', async () => {
  const path = '/api/v1/connections/db/quarantine'
  const rows = async (client: Client, query = '') => {
    const { status, body } = await client.get(`${path}${query}`)
    return body.code ?? [status, body.data.map((row: Json) => [row.table, row.column, row.key, row.raw])]
  }
  const seen = [200, [['public.raw_people', 'born', { id: '4711' }, 'infinity']]]
  const table = '?table=public.raw_people'
  const [tenant] = world.tenants
  const viewer = await world.as(tenant, 'svc-viewers', 'vito')
  const dan = (await creator.get('/api/v1/connections/db/grants')).body.data.find(
    (one: Json) => one.subject.user === 'dan',
  )
  assert.deepEqual([await rows(creator), await rows(creator, table), await rows(colleague)], [seen, seen, seen])
  await creator.send(`/api/v1/connections/db/grants/${dan.id}`, { method: 'DELETE' })
  for (const other of [colleague, viewer]) {
    assert.deepEqual(await rows(other), [200, []])
    for (const named of [table, '?table=public.none']) assert.equal(await rows(other, named), 'raw_table_forbidden')
    const { body } = await other.get('/api/v1/ingestion?limit=1')
    const [read] = body.data[0].tables
    assert.deepEqual([read.rows_read, read.rows_written, read.rows_rejected], [10, 10, 0], 'in steps')
  }
  const elsewhere = JSON.stringify({ ...JSON.parse(loginOf(world.deployment)), host: 'localhost' })
  const moved = await creator.send('/api/v1/connections/db', {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ config_encrypted: elsewhere }),
  })
  assert.equal(moved.status, 200, JSON.stringify(moved.body))
  assert.deepEqual(await rows(creator), [200, []])
})

it('finds raw tables of a connection whose name has capitals', async () => {
  const body = { name: 'Warehouse', connector_type: 'postgresql', config_encrypted: loginOf(world.deployment) }
  assert.equal((await creator.post('/api/v1/connections', body)).status, 201)
  const wanted = { name: 'stock', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: product } = await creator.post('/api/v1/products', wanted)
  const files = manifests('public.raw_people', { endpoints: '  - type: analytics\n' })
  await deployVersion(creator, product.id, '1.0.0', {
    ...files,
    product: files.product.replace('name: people', 'name: stock'),
    inputs: files.inputs.replace('connection: db', 'connection: Warehouse'),
  })
  await syncNow(creator, 'Warehouse')
  for (const name of ['raw_Warehouse', '"raw_Warehouse"', 'raw_warehouse']) {
    const { status, body: answer } = await creator.post('/api/v1/query', {
      sql: `SELECT count(*) FROM ${name}.raw_people`,
    })
    assert.deepEqual([status, answer.rows], [200, [[10]]], `${name}, of which no product has the column at fault`)
  }
})

it('says nothing of a source to those who may not read it: neither what it has, nor whether it answers', async () => {
  const [tenant] = world.tenants
  const stranger = await world.as(tenant, 'svc-developers', 'dina')
  const verdicts = async (client: Client, table: string) => {
    const files = manifests(table, { endpoints: '  - type: analytics\n' })
    const codes = [(await client.upload('/api/v1/products/crm.people/plan?version=2.0.0', files)).body.code]
    assert.equal((await client.upload('/api/v1/products/people/manifests', files)).status, 200)
    for (const dry_run of [true, false]) {
      const { body } = await client.post('/api/v1/products/people/deploy', { version: '2.0.0', dry_run })
      codes.push(body.code)
    }
    return codes
  }
  const forbidden = Array(3).fill('raw_table_forbidden')
  assert.deepEqual(await verdicts(creator, 'public.none'), Array(3).fill('manifests_invalid'))
  assert.deepEqual(await verdicts(stranger, 'public.none'), forbidden)
  assert.deepEqual(await verdicts(stranger, 'public.raw_people'), forbidden)
})
