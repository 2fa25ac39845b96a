/** Nothing of a deleted product is served by a later one of its name. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const LOOKUP = '  - type: lookup\n    config: { index_columns: [id, city] }\n'
const REALTIME = '  - type: realtime\n    config: { key_template: "{id}" }\n'

let world: World
let client: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  client = await world.as(tenant, 'svc-developers', 'dora')
  await world.source.query(`DROP TABLE IF EXISTS deleted_people;
    CREATE TABLE deleted_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO deleted_people VALUES (1, 'old@x.test', 'old'), (2, 'gone@x.test', 'gone')`)
})
after(() => world?.close())

const read = (path: string) => client.get(`/api/v1/products/people/${path}`)
/** The rows, or the status of a refusal. */
async function cities(): Promise<readonly string[] | number> {
  const found: string[] = []
  for (const id of [1, 2]) {
    const { status, body } = await read(`latest?filter=id:${id}`)
    if (status !== 200) return status
    found.push(...body.data.map((row: Json) => `${row.id} ${row.city}`))
  }
  return found
}

test('a product of a deleted one’s name begins with nothing of it, at endpoints of former versions too', async () => {
  const both = manifests('public.deleted_people', { endpoints: LOOKUP + REALTIME })
  const product = await onboardPeople(world, client, both)
  await syncNow(client)
  assert.deepEqual(await cities(), ['1 old', '2 gone'])
  assert.equal((await read('realtime?key=2')).status, 200)
  await deployVersion(client, product.id, '2.0.0', manifests('public.deleted_people', { endpoints: LOOKUP }))
  const deleted = await client.send(`/api/v1/products/${product.id}`, { method: 'DELETE' })
  assert.ok(deleted.status < 300, JSON.stringify(deleted.body))
  await world.source.query(`DELETE FROM deleted_people WHERE id = 2; UPDATE deleted_people SET city = 'new'`)
  const wanted = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: again } = await client.post('/api/v1/products', wanted)
  await deployVersion(client, again.id, '1.0.0', both)
  await syncNow(client)
  assert.deepEqual(await cities(), ['1 new'])
  assert.match(JSON.stringify((await read('realtime?key=1')).body), /"new"/)
  assert.equal((await read('realtime?key=2')).status, 404)
})
