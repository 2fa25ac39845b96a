/** What was classified stays classified in the past: no later version opens the snapshots of a stricter one. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const PLAIN = '@past.test'

let world: World
let developer: Client
let viewer: Client
let product: Json

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS past_people;
    CREATE TABLE past_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO past_people SELECT i, 'a' || i || '${PLAIN}', 'city' FROM generate_series(-1, 9) i`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  product = await onboardPeople(world, developer, version('pii.identifier'))
})

after(() => world?.close())

/** The row whose id is negative is put aside by versions with a check. */
function version(classification: string | null, level = 'internal', isChecked = true) {
  const email = classification === null ? '' : `  - { name: email, type: string, classification: ${classification} }\n`
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n${email}  - { name: city, type: string }\n`
  const files = manifests('public.past_people', { columns })
  const checks = isChecked ? '\n  - name: positive\n    range: { column: id, min: 0 }\n    on_error: quarantine' : ' []'
  return {
    ...files,
    product: `${files.product}classification: ${level}\n`,
    quality: `apiVersion: svc/v1\nkind: Quality\nchecks:${checks}\n`,
  }
}

async function materialized(number: string, files: Readonly<Record<string, string>>, ...lower: string[]) {
  await deployVersion(developer, product.id, number, files, lower)
  await syncNow(developer)
}

async function shows(client: Client, sql: string, as_of?: string) {
  const { status, body } = await client.post('/api/v1/query', { sql, ...(as_of === undefined ? {} : { as_of }) })
  return { status, plain: JSON.stringify(body).includes(PLAIN), code: body.code }
}

async function assertPastIsMasked(): Promise<void> {
  const { body } = await viewer.get(`/api/v1/products/${product.id}/snapshots`)
  const first = body.data.at(-1)
  const asked = [
    ['SELECT * FROM crm.people', 'v1.0.0'],
    ['SELECT * FROM crm.people', first.snapshot_id],
    ['SELECT * FROM crm.people', first.committed_at],
    ['SELECT * FROM crm."people@v1.0.0"'],
  ] as const
  for (const [sql, asOf] of asked) {
    assert.deepEqual(await shows(viewer, sql, asOf), { status: 200, plain: false, code: undefined }, `${sql} ${asOf}`)
  }
}

it('masks a past as it was masked then, whatever its columns are since', async () => {
  await materialized('2.0.0', version(null, 'internal', false))
  await assertPastIsMasked()
  const aside = await shows(viewer, 'SELECT * FROM crm.people__quarantine')
  assert.equal(aside.plain, false, 'rows that the first version put aside')
  await materialized('3.0.0', version('internal'), 'email')
  assert.equal((await shows(viewer, 'SELECT * FROM crm.people')).plain, true, 'today it is open')
  await assertPastIsMasked()
})

it('does not take one masked class for another', async () => {
  const cleared = { subject: { user: 'vito' }, may: 'unmask', classes: ['pii.name'] }
  assert.equal((await developer.post(`/api/v1/products/${product.id}/grants`, cleared)).status, 201)
  await materialized('4.0.0', version('pii.name'))
  assert.equal((await shows(viewer, 'SELECT * FROM crm.people')).plain, true, 'today it is of a class that is clear')
  await assertPastIsMasked()
})

it('keeps a past to those who might read it then', async () => {
  await materialized('5.0.0', version(null, 'confidential'))
  await materialized('6.0.0', version(null, 'internal'))
  const noor = await world.as(world.tenants[0], 'svc-viewers', 'noor')
  assert.equal((await shows(noor, 'SELECT * FROM crm.people')).status, 200)
  const past = await shows(noor, 'SELECT * FROM crm.people', 'v5.0.0')
  assert.deepEqual([past.status, past.code], [403, 'product_forbidden'])
})

it('keeps what was hidden last, when its column is gone', async () => {
  const wanted = { name: 'folk', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: folk } = await developer.post('/api/v1/products', wanted)
  const deploy = async (number: string, classification: string | null) => {
    const files = version(classification)
    const product = files.product.replace('name: people', 'name: folk')
    await deployVersion(developer, folk.id, number, { ...files, product })
    await syncNow(developer)
  }
  await deploy('1.0.0', 'internal')
  const open = await shows(viewer, 'SELECT * FROM crm.folk')
  assert.deepEqual(open, { status: 200, plain: true, code: undefined }, 'as it was open')
  await deploy('1.1.0', 'pii.identifier')
  await deploy('2.0.0', null)
  for (const [sql, asOf] of [
    ['SELECT * FROM crm.folk', 'v1.0.0'],
    ['SELECT * FROM crm."folk@v1.0.0"', undefined],
  ] as const)
    assert.deepEqual([(await shows(viewer, sql, asOf)).plain], [false], sql)
})

it('asks the past of the product that is named, not of its namesakes', async () => {
  const wanted = { name: 'people', namespace: 'ops', archetype: 'source_aligned', description: '' }
  const { body: namesake } = await developer.post('/api/v1/products', wanted)
  const files = version(null, 'restricted', false)
  const product = files.product.replace('namespace: crm', 'namespace: ops')
  await deployVersion(developer, namesake.id, '1.0.0', { ...files, product })
  await syncNow(developer)
  const { body } = await viewer.get('/api/v1/products/crm.people/snapshots')
  const [{ snapshot_id: as_of }] = body.data
  const sql = 'SELECT count(*) FROM crm.people'
  const past = await viewer.post('/api/v1/query', { sql, as_of })
  assert.equal(past.status, 200, JSON.stringify(past.body))
  assert.deepEqual(Object.keys(past.body.meta.snapshots), ['crm.people'])
})
