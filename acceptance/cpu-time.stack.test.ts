/** A tenant that has used its CPU time: what it is told, and what others feel of it. On a runtime of its own. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

let world: World
let spender: Client
let other: Client
let connection: Json

before(async () => {
  delete process.env['SLUICE_ACCEPTANCE_URL']
  // What some statements take.
  process.env['SLUICE_LIMITS__CPU_SECONDS__FREE'] = '1'
  world = await openWorld()
  await world.source.query('CREATE TABLE people (id integer PRIMARY KEY, email text, city text)')
  const [first, second] = world.tenants
  await world.createTenant(first, 'enterprise')
  await world.createTenant(second, 'standard')
  spender = await world.as(first, 'svc-developers', 'dora')
  other = await world.as(second, 'svc-developers', 'otto')
  await onboardPeople(world, spender, manifests('public.people'))
  connection = (await spender.get('/api/v1/connections')).body.data[0]
  await setTier(first, 'free')
})

after(() => world?.close())

async function setTier(tenant: string, tier: string): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const path = `/api/v1/tenants/${tenant}`
  const { status } = await world.admin.send(path, { method: 'PATCH', headers, body: JSON.stringify({ tier }) })
  assert.equal(status, 200)
}

const SQL = 'SELECT count(*) AS n FROM range(3000000) r(i) WHERE hash(i) > $1'
let asked = 0
/** Another one each time: an answer that is given again takes nothing. */
const query = (client: Client) => client.post('/api/v1/query', { sql: SQL, params: [++asked] })

it('refuses queries and keeps runs waiting until the time has drained, and goes on at once in another tier', async () => {
  let refused = await query(spender)
  await until('the tenant has used its time', async () => {
    if (refused.status === 200) refused = await query(spender)
    return refused.status !== 200
  })
  assert.deepEqual([refused.status, refused.body.code], [429, 'cpu_time_spent'])
  assert.ok(Number(refused.headers.get('retry-after')) >= 1)
  assert.notEqual(refused.body.remedy, '')
  const { body: draft } = await spender.get('/api/v1/products/crm.people/manifests')
  const preview = await spender.post('/api/v1/products/crm.people/preview', { digest: draft.digest })
  assert.deepEqual([preview.status, preview.body.code], [429, 'cpu_time_spent'])

  const { body: queued, status } = await spender.post(`/api/v1/connections/${connection.id}/sync`)
  assert.equal(status, 202)
  const { body: run } = await spender.get(`/api/v1/ingestion/${queued.id}`)
  assert.deepEqual([run.state, run.started_at, run.waiting.code], ['queued', null, 'cpu_time_spent'])
  assert.ok(Date.parse(run.waiting.until) > Date.now())

  assert.equal((await query(other)).status, 200, 'another tenant feels nothing of it')
  assert.equal((await spender.get('/api/v1/products/crm.people/latest')).status, 200, 'nor do reads of stores')

  await setTier(world.tenants[0], 'enterprise')
  const ended = await spender.untilEnded(queued.id)
  assert.deepEqual([ended.state, ended.waiting], ['succeeded', null])
  await until('queries are answered again', async () => (await query(spender)).status === 200)
})
