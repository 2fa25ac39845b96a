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
