/** Nothing of a deleted product is served by a later one of its name. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, type Json, manifests, ok } from './client.ts'
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

/** Where whoever follows the product's changes is now. */
async function placeOf(path: string): Promise<string> {
  const ended = new AbortController()
  const response = await client.begin(`${path}/changes`, { accept: 'text/event-stream' }, ended.signal)
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    const id = /^id: (.+)$/m.exec(text)?.[1]
    if (id !== undefined && text.includes('\n\n', text.indexOf(id))) {
      ended.abort()
      return id
    }
  }
  throw new Error(`no event: ${text}`)
}

test('its epochs go on above those of the deleted one, and nothing that was of that one is taken for its own', async () => {
  await world.source.query(`INSERT INTO deleted_people VALUES (3, 'three@x.test', 'new')`)
  const path = '/api/v1/products/crm.people'
  const files = manifests('public.deleted_people', { endpoints: LOOKUP + REALTIME })
  const page = (more = '') => client.get(`${path}/latest?limit=1${more}`)
  const makeAnew = async () => {
    await ok(client.send(path, { method: 'DELETE' }))
    const wanted = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { id } = await ok(client.post('/api/v1/products', wanted))
    await deployVersion(client, id, '1.0.0', files)
  }
  await makeAnew()
  await world.source.query(`UPDATE deleted_people SET city = 'second'`)
  await syncNow(client)
  const former = await page()
  const place = await placeOf(path)
  const last = former.body.meta.epoch as number
  await makeAnew()
  const now = (await ok(page())).meta.epoch as number
  assert.ok(now > last, `epoch ${now} after ${last}`)
  assert.equal((await ok(client.get(path))).last_materialization.epoch, now)
  const refused = async (asked: Promise<Json>) => (await asked).body.code
  const cursor = encodeURIComponent(former.body.next_cursor)
  assert.equal(await refused(page(`&cursor=${cursor}`)), 'cursor_invalid')
  assert.equal(await refused(client.get(`${path}/changes?from=${encodeURIComponent(place)}`)), 'cursor_invalid')
  assert.equal(await refused(client.get(`${path}/changes`, { 'last-event-id': place })), 'cursor_invalid')
  const again = await client.get(`${path}/latest?limit=1`, { 'if-none-match': former.headers.get('etag') ?? '' })
  assert.equal(again.status, 200)
  for (const way of ['latest?filter=id:1&', 'realtime?key=1&']) {
    const { meta } = await ok(client.get(`${path}/${way}at_least_epoch=${last + 1}`))
    assert.equal(meta.epoch, now)
  }
  const query = (atLeast: number) =>
    client.post('/api/v1/query', { sql: 'SELECT id FROM crm.people', at_least_epoch: atLeast, timeout_ms: 1_000 })
  assert.equal((await query(now)).status, 200)
  const { status, body } = await query(now + 1)
  assert.deepEqual([status, body.code], [409, 'epoch_not_reached'])
  assert.match(body.detail, new RegExp(`is at epoch ${now},`))
})
