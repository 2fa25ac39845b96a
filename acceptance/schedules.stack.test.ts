/** Connections that sync by themselves, at the times that somebody has set: by the API and by the command. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../test/until.ts'
import type { Client, Json } from './client.ts'
import { manifests } from './client.ts'
import { loginOf, onboardPeople, openWorld, type World } from './world.ts'

const launcher = join(import.meta.dirname, '../runtime/bin/sluice.js')
const DB = '/api/v1/connections/db'

let world: World
let dora: Client
let tenant = ''

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(`CREATE TABLE scheduled_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO scheduled_people VALUES (1, 'a@s.test', 'one')`)
  await world.createTenant(tenant)
  await world.createTenant(world.tenants[1])
  dora = await world.as(tenant, 'svc-developers', 'dora')
  await onboardPeople(world, dora, manifests('public.scheduled_people'))
})

after(() => world?.close())

function patch(body: Json, client = dora, path = DB) {
  const headers = { 'content-type': 'application/json' }
  return client.send(path, { method: 'PATCH', headers, body: JSON.stringify(body) })
}

async function sluice(
  ...words: string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
  const env = { ...Object.fromEntries(foreign), SLUICE_URL: world.deployment.url, SLUICE_TOKEN: token }
  return new Promise((resolve) => {
    execFile(process.execPath, [launcher, ...words], { env }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err })
    })
  })
}

const scheduledRuns = async (): Promise<readonly Json[]> =>
  (await dora.get('/api/v1/ingestion?limit=1000')).body.data.filter((run: Json) => run.trigger === 'schedule')

it('syncs by itself while it has a schedule, and tells its next and its last run', async () => {
  const plain = (await dora.get(DB)).body
  assert.deepEqual([plain.schedule, plain.next_run_at, plain.schedule_state], [null, null, null])
  assert.deepEqual([plain.last_run.state, plain.last_run.trigger], ['succeeded', 'manual'])

  const set = await patch({ schedule: { every: '1s' } })
  assert.equal(set.status, 200, JSON.stringify(set.body))
  assert.deepEqual(set.body.schedule, { every: '1s', catch_up: 'one' })
  assert.ok(Math.abs(Date.parse(set.body.next_run_at) - Date.now()) < 60_000, set.body.next_run_at)
  await world.source.query(`INSERT INTO scheduled_people VALUES (2, 'b@s.test', 'two')`)
  const read = async () => (await dora.get('/api/v1/products/people/latest?filter=id:2')).body.data
  await until('the row is there without anybody asking', async () => (await read())?.length === 1)
  await until('it goes on', async () => (await scheduledRuns()).length > 2)
  const { body: list } = await dora.get('/api/v1/connections')
  assert.equal(list.data[0].last_run.trigger, 'schedule')
  assert.equal(list.data[0].schedule_state.set_by, 'dora')

  const removed = await patch({ schedule: null })
  assert.deepEqual([removed.body.schedule, removed.body.next_run_at], [null, null])
  const isDone = (runs: readonly Json[]) => runs.every(({ state }) => state !== 'queued' && state !== 'running')
  await until('what had begun has ended', async () => isDone(await scheduledRuns()))
  const before = (await scheduledRuns()).length
  await sleep(2_500)
  assert.equal((await scheduledRuns()).length, before, 'nothing begins any more')
})

it('is set, shown, changed and taken away by the command', async () => {
  const update = (...words: string[]) => sluice('connection', 'update', 'db', ...words)
  const set = await update('--cron', '0 6 * * MON-FRI', '--time-zone', 'Europe/Berlin', '--json')
  assert.equal(set.code, 0, set.err)
  assert.deepEqual((await dora.get(DB)).body.schedule, {
    cron: '0 6 * * MON-FRI',
    time_zone: 'Europe/Berlin',
    catch_up: 'one',
  })
  const { out } = await sluice('connection', 'list')
  assert.match(out, /last run +next run/)
  assert.ok(out.includes((await dora.get(DB)).body.next_run_at), out)
  assert.equal((await update('--every', '6h', '--catch-up', 'none')).code, 0)
  assert.deepEqual((await dora.get(DB)).body.schedule, { every: '6h', catch_up: 'none' })
  const wrong = await update('--cron', '61 * * * *')
  assert.equal(wrong.code, 1)
  assert.match(wrong.err, /0 6 \* \* MON-FRI/)
  assert.equal((await update('--no-schedule')).code, 0)
  assert.equal((await dora.get(DB)).body.schedule, null)
})

it('is refused with what to write instead, and changes nothing then', async () => {
  const wrong: readonly (readonly [Json, string, RegExp])[] = [
    [{ cron: '61 * * * *' }, '/schedule/cron', /minute \(0-59\).*0 6 \* \* MON-FRI/],
    [{ cron: '@daily' }, '/schedule/cron', /0 6 \* \* MON-FRI/],
    [{ cron: '0 0 31 2 *' }, '/schedule/cron', /a day that no month has/],
    [{ cron: '0 6 * * *', time_zone: 'Mars/Olympus' }, '/schedule/time_zone', /Europe\/Berlin/],
    [{ every: 'hourly' }, '/schedule/every', /15m, 24h/],
    [{ every: '1h', cron: '0 6 * * *' }, '/schedule', /either every.*or cron/],
    [{ every: '1h', time_zone: 'Europe/Berlin' }, '/schedule/time_zone', /Leave it out/],
    [{ catch_up: 'all' }, '/schedule', /either every.*or cron/],
  ]
  for (const [schedule, pointer, message] of wrong) {
    const config_encrypted = loginOf(world.deployment)
    const created = await dora.post('/api/v1/connections', {
      name: 'db2',
      connector_type: 'postgresql',
      config_encrypted,
      schedule,
    })
    for (const { status, body } of [await patch({ schedule }), created]) {
      assert.deepEqual(
        [status, body.code, body.errors?.[0]?.pointer],
        [400, 'invalid_schedule', pointer],
        JSON.stringify(body),
      )
      assert.match(body.errors[0].message, message)
    }
  }
  assert.equal((await dora.get(DB)).body.schedule, null)
  assert.equal((await dora.get('/api/v1/connections/db2')).status, 404)
})

it('is for developers of the tenant, and begins no run once whoever set it is none any more', async () => {
  const vito = await world.as(tenant, 'svc-viewers', 'vito')
  const noah = await world.as(tenant, null, 'noah')
  const olga = await world.as(world.tenants[1], 'svc-developers', 'olga')
  const { id } = (await dora.get(DB)).body
  for (const [client, status] of [
    [vito, 403],
    [noah, 403],
    [olga, 404],
  ] as const) {
    for (const schedule of [{ every: '1s' }, null]) {
      assert.equal((await patch({ schedule }, client, `/api/v1/connections/${id}`)).status, status)
    }
  }
  assert.equal((await noah.get(DB)).status, 403)
  assert.equal((await olga.get(`/api/v1/connections/${id}`)).status, 404)
  assert.equal((await dora.get(DB)).body.schedule, null)

  const dan = await world.as(tenant, 'svc-developers', 'dan')
  assert.equal((await patch({ schedule: { every: '2h' } }, dan)).status, 200)
  assert.equal((await dora.get(DB)).body.schedule_state.right_lost, false)
  // As of which second a token is issued is all that it says.
  await sleep(1_100)
  await (await world.as(tenant, 'svc-viewers', 'dan')).get('/api/v1/products')
  const lost = (await dora.get(DB)).body
  assert.deepEqual([lost.schedule_state.set_by, lost.schedule_state.right_lost, lost.next_run_at], ['dan', true, null])
  assert.match((await sluice('connection', 'list')).out, /dan may not sync any more/)
  const taken = await patch({ schedule: { every: '2h' } })
  assert.deepEqual([taken.body.schedule_state.set_by, taken.body.schedule_state.right_lost], ['dora', false])
  assert.equal(typeof taken.body.next_run_at, 'string')
  const { body: audit } = await world.admin.get('/api/v1/audit?limit=20', { 'x-tenant-id': tenant })
  assert.ok(JSON.stringify(audit).includes('"every":"2h"'), 'it is on record')
})
