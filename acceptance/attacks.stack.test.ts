/** Attacks that once succeeded, each from where its attacker stands. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

let world: World
let owner: Client

before(async () => {
  world = await openWorld()
  const [own] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS attacked_people;
    CREATE TABLE attacked_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO attacked_people VALUES (1, 'a@a.test', 'Attackton')`)
  await world.createTenant(own)
  owner = await world.as(own, 'svc-developers', 'owner')
  await onboardPeople(world, owner, manifests('public.attacked_people'))
})

after(() => world?.close())

it('a key made by a narrowed token stays as narrow when its maker shows a wider one', async () => {
  const [own] = world.tenants
  const path = '/api/v1/products/crm.people/latest?filter=id:1'
  const flags = (groups: string) => ['--tenant', own, '--group', groups, '--user', 'lender']
  const { url } = world.deployment
  const tokenOf = async (...more: string[]) => new Client(url, await world.deployment.token(more))
  const narrow = await tokenOf(...flags('svc-developers'), '--clearance', 'public')
  assert.equal((await narrow.get(path)).status, 403)
  const made = await narrow.post('/api/v1/application-keys', { name: 'lent' })
  assert.equal(made.status, 201)
  const wide = await tokenOf(...flags('svc-developers'))
  assert.equal((await wide.get(path)).status, 200)
  const plain = await wide.post('/api/v1/application-keys', { name: 'own' })
  const readBy = async ({ body }: { readonly body: Json }) => (await new Client(url, body.token).get(path)).status
  assert.deepEqual([await readBy(made), await readBy(plain)], [403, 200])
})

it('a run that is tried again and again waits once', async () => {
  const [run] = (await owner.get('/api/v1/ingestion')).body.data
  for (let tries = 0; tries < 20; tries++) {
    const again = await owner.post(`/api/v1/ingestion/${run.id}/retry`)
    assert.equal(again.status, 202, JSON.stringify(again.body))
  }
  const queued = (await owner.get('/api/v1/ingestion?state=queued')).body.data
  assert.ok(queued.length <= 1, `${queued.length} runs wait`)
})

it('upkeep of the lake tells how much a table holds to who may read it alone', async () => {
  const [own] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS attacked_events;
    CREATE TABLE attacked_events (id integer PRIMARY KEY, seen timestamptz NOT NULL);
    INSERT INTO attacked_events SELECT i, now() FROM generate_series(1, 137) i`)
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: seen, type: timestamptz }
`
  const files = manifests('public.attacked_events', { columns, endpoints: '  - type: analytics\n' })
  const wanted = { name: 'events', namespace: 'crm', archetype: 'source_aligned' }
  assert.equal((await owner.post('/api/v1/products', wanted)).status, 201)
  const uploaded = await owner.upload('/api/v1/products/crm.events/manifests', {
    ...files,
    product: files.product.replace('name: people', 'name: events'),
    inputs: files.inputs.replace('mode: full', 'mode: incremental, cursor_column: seen'),
  })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  await owner.post('/api/v1/products/crm.events/deploy', { version: '1.0.0', dry_run: false })
  const asked = async (reader: Client) => {
    for (let synced = 0; synced < 8; synced++) {
      const { body } = await owner.post('/api/v1/connections/db/sync')
      assert.equal((await owner.untilEnded(body.id)).state, 'succeeded')
      await world.source.query('INSERT INTO attacked_events SELECT max(id) + 1, now() FROM attacked_events')
    }
    const { body } = await reader.post('/api/v1/lake/compact', { table: 'raw_db.attacked_events' })
    return body
  }
  // The runtime compacts by itself, too: a new tenant's tables within its first minute, then hourly. Once it may be first.
  const compacted = async (reader: Client) => {
    const body = await asked(reader).then((first) => (first.tables.length > 0 ? first : asked(reader)))
    const [table] = body.tables
    assert.equal(table?.compacted, true, JSON.stringify(body))
    return Object.keys(table)
  }
  const stranger = await world.as(own, 'svc-developers', 'stranger')
  assert.deepEqual(await compacted(stranger), ['table', 'compacted'])
  assert.ok((await compacted(owner)).includes('rows'))
})
