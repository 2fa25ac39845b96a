/** Connections that sync by themselves, at the times that somebody has set: by the API and by the command. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../test/until.ts'
import type { Client, Json } from './client.ts'
import { manifests } from './client.ts'
import { type Ended, runSluice } from './sluice-command.ts'
import { deployVersion, loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

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

async function sluice(...words: string[]): Promise<Ended> {
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
  return runSluice(words, { url: world.deployment.url, token })
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
    [{ max_age: '10ms' }, '/schedule/max_age', /15m, 24h/],
    [{ max_age: '1h', catch_up: 'all' }, '/schedule/catch_up', /no times that could be missed/],
    [{ every: 'hourly' }, '/schedule/every', /15m, 24h/],
    [{ every: '1h', cron: '0 6 * * *' }, '/schedule', /one of every.*cron.*max_age.* and continuous/],
    [{ every: '1h', time_zone: 'Europe/Berlin' }, '/schedule/time_zone', /Leave it out/],
    [{ catch_up: 'all' }, '/schedule', /one of every.*cron.*max_age.* and continuous/],
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

const HEAD = 'apiVersion: svc/v1\nkind: Compute\n'
const madeBy = (schedule: string) => `${HEAD}engine: auto\ntrigger: schedule\nschedule: ${schedule}\n`
const PEOPLE = '/api/v1/products/crm.people'
const TOTALS = '/api/v1/products/crm.totals'

/** People, or another product of the same rows. */
function filesOf(compute: string | null, name = 'people', more = '') {
  const files = manifests('public.scheduled_people')
  const product = `${files.product.replace('name: people', `name: ${name}`)}${more}`
  return { ...files, product, ...(compute === null ? {} : { compute }) }
}

const made = async (product: string): Promise<readonly Json[]> => {
  const { id } = (await dora.get(product)).body
  const { body } = await dora.get('/api/v1/ingestion?limit=1000')
  return body.data.filter(
    (run: Json) => run.kind === 'materialization' && run.product_id === id && run.trigger === 'schedule',
  )
}

it('makes a product anew at the times of its compute.yaml, and follows what is deployed, rolled back and deleted', async () => {
  const { id } = (await dora.get(PEOPLE)).body
  const planned = await dora.upload(`${PEOPLE}/plan?version=1.1.0`, filesOf(madeBy('{ every: 1s }')))
  assert.ok(planned.body.plan.notes.includes('it is made by itself, and not by syncs of its connections: every 1s'))
  await deployVersion(dora, id, '1.1.0', filesOf(madeBy('{ every: 1s }')))
  await until('it is made by itself', async () => (await made(PEOPLE)).length > 1)
  const page = (await dora.get(PEOPLE)).body
  assert.deepEqual(page.schedule, { every: '1s', catch_up: 'one' })
  assert.deepEqual([page.schedule_state.set_by, page.schedule_state.breaker], ['dora', 'closed'])
  assert.equal(typeof page.next_run_at, 'string')
  assert.equal((await dora.get('/api/v1/products')).body.data[0].last_run.trigger, 'schedule')
  assert.match((await sluice('product', 'list')).out, /last run +next run/)
  assert.deepEqual((await syncNow(dora)).products, [], 'a sync leaves it')

  const back = await dora.post(`${PEOPLE}/rollback`, { version: '1.0.0' })
  assert.equal((await dora.untilEnded(back.body.run_id)).state, 'succeeded')
  assert.deepEqual([(await dora.get(PEOPLE)).body.schedule, (await dora.get(PEOPLE)).body.next_run_at], [null, null])
  await deployVersion(dora, id, '1.1.0', filesOf(madeBy('{ every: 1s }')))
  const again = await dora.post(`${PEOPLE}/rollback`, { version: '1.1.0' })
  assert.equal((await dora.untilEnded(again.body.run_id)).state, 'succeeded')
  const held = (await dora.get(PEOPLE)).body
  assert.deepEqual([held.schedule.every, held.paused.reason], ['1s', 'rollback'])
  await until(
    'its ticks are let go',
    async () => (await dora.get(PEOPLE)).body.schedule_state.skipped_reason === 'paused',
  )
  await deployVersion(dora, id, '1.2.0', filesOf(null))
  assert.equal((await dora.get(PEOPLE)).body.schedule, null)
})

it('makes a product after others, which whoever deploys it has to be able to read', async () => {
  const names = ['totals', 'hidden']
  for (const name of names) {
    assert.equal((await dora.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })).status, 201)
  }
  const dan = await world.as(tenant, 'svc-developers', 'dan')
  await deployVersion(dora, 'crm.hidden', '1.0.0', filesOf(null, 'hidden', 'classification: restricted\n'))
  assert.equal((await dan.get('/api/v1/products/crm.hidden')).body.freshness.read_at, null)
  const refused = async (client: Client, product: string, after: string, table = 'scheduled_people') => {
    const files = filesOf(madeBy(`{ after: [crm.people, ${after}] }`), product.slice(4))
    files.inputs = files.inputs.replace('scheduled_people', table)
    const { status, body } = await client.upload(`/api/v1/products/${product}/plan?version=9.0.0`, files)
    const [{ message, line, column, path }] = body.errors
    return { status, code: body.code, message: message.replace(after, 'X'), line, column, path }
  }
  const absent = {
    status: 422,
    code: 'manifests_invalid',
    message: 'there is no product "X"',
    path: 'schedule.after[1]',
  }
  const place = { line: 5, column: 33 }
  assert.deepEqual(await refused(dora, 'crm.totals', 'crm.nothing'), { ...absent, ...place })
  await world.source.query('CREATE TABLE dans_rows (id integer PRIMARY KEY, email text, city text)')
  await dora.post(`${DB}/grants`, { subject: { user: 'dan' }, table: 'public.dans_rows' })
  // A product that he may not read is not there for him.
  assert.deepEqual(await refused(dan, 'crm.totals', 'crm.hidden', 'dans_rows'), { ...absent, ...place })

  await deployVersion(dora, 'crm.totals', '1.0.0', filesOf(madeBy('{ after: [crm.people] }'), 'totals'))
  const round = await dora.upload(`${PEOPLE}/plan?version=9.0.0`, filesOf(madeBy('{ after: [crm.totals] }')))
  const [circle] = round.body.errors
  assert.match(circle.message, /^"crm.totals" waits for this product/)
  assert.deepEqual([round.status, circle.line, circle.column], [422, 5, 21])
  const page = (await dora.get(TOTALS)).body
  assert.deepEqual([page.schedule, page.next_run_at], [{ after: ['crm.people'] }, null])
  await syncNow(dora)
  await until('it is made after the other', async () => (await made(TOTALS)).length === 1)
  assert.equal((await dora.send(TOTALS, { method: 'DELETE' })).status, 204)
})

it('tells how old rows are with every answer, and how far tables are behind', async () => {
  const read = () => dora.get('/api/v1/products/people/latest?filter=id:1')
  const first = await read()
  const { read_at: readAt } = first.body.meta.freshness
  const page = (await dora.get(PEOPLE)).body
  assert.deepEqual([page.freshness.read_at, first.body.meta.epoch], [readAt, page.last_materialization.epoch])
  assert.ok(Date.parse(readAt) < Date.parse(page.last_materialization.committed_at))
  assert.ok(page.freshness.age_s >= 0)
  await sleep(1_100)
  const later = await read()
  assert.equal(later.headers.get('etag'), first.headers.get('etag'))
  assert.deepEqual(later.body, first.body, 'one ETag is one body')
  const ageOf = (answer: { readonly headers: Headers }) => Number(answer.headers.get('x-sluice-freshness'))
  assert.ok(ageOf(later) > ageOf(first))
  const same = await dora.get('/api/v1/products/people/latest?filter=id:1', {
    'if-none-match': first.headers.get('etag') ?? '',
  })
  assert.deepEqual([same.status, ageOf(same) >= ageOf(later)], [304, true])
  const many = await dora.post('/api/v1/read', { items: [{ product: 'people', store: 'lookup', keys: [1] }] })
  assert.equal(many.body.data[0].meta.freshness.read_at, readAt)
  const asked = await dora.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm.people' })
  const { epochs, freshness } = asked.body.meta
  assert.deepEqual([epochs, freshness['crm.people'].read_at], [{ 'crm.people': first.body.meta.epoch }, readAt])
  assert.ok(freshness['crm.people'].age_s >= 1 && ageOf(asked) >= 1)

  const { body: lag } = await dora.get(`${DB}/lag`)
  const [table] = lag.tables
  assert.deepEqual(
    [table.table, table.read_at, table.last_read.state],
    ['public.scheduled_people', readAt, 'succeeded'],
  )
  assert.ok(table.age_s >= 1)
  const heard: Json[] = []
  const hook = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => heard.push(JSON.parse(text)))
    request.on('end', () => response.writeHead(204).end())
  })
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`
  assert.match((await sluice('notification', 'create', 'us', '--to', address)).out, /signing key.*: whsec_/)
  const refused = await dora.post('/api/v1/notifications', {
    kind: 'slack',
    name: 'x',
    url: 'https://169.254.169.254/',
  })
  assert.deepEqual([refused.status, refused.body.code], [403, 'address_refused'])
  await world.source.query('ALTER TABLE scheduled_people RENAME TO gone_people')
  const { body: run } = await dora.post(`${DB}/sync`)
  await dora.untilEnded(run.id)
  const [behind] = (await dora.get(`${DB}/lag`)).body.tables
  assert.deepEqual(
    [behind.read_at, behind.last_read.state, typeof behind.last_read.error_code],
    [readAt, 'failed', 'string'],
  )
  assert.match(
    (await sluice('connection', 'lag', 'db')).out,
    /public\.scheduled_people .*failed: .*\n.*next sync begins at .* waits after failures/s,
  )
  await until('it is told that the connection fails', () => heard.length === 1)
  const { type, subject, cause } = heard[0]
  assert.deepEqual([type, subject.name, cause], ['sluice.incident.opened', 'db', behind.last_read.error_code])
  await world.source.query('ALTER TABLE gone_people RENAME TO scheduled_people')
  await syncNow(dora)
  await until('it is told that it does not any more', () => heard.length === 2)
  assert.equal(heard[1].type, 'sluice.incident.closed')
  const [target] = (await dora.get('/api/v1/notifications')).body.data
  assert.deepEqual([target.host, target.hears, target.error_code, 'url' in target], ['127.0.0.1', 'own', null, false])
  const dan = await world.as(tenant, 'svc-developers', 'dan')
  const remove = (client: Client) => client.send(`/api/v1/notifications/${target.id}`, { method: 'DELETE' })
  assert.deepEqual([(await remove(dan)).status, (await remove(dora)).status], [403, 204])
  hook.close()
  const { id } = (await dora.get(DB)).body
  const olga = await world.as(world.tenants[1], 'svc-developers', 'olga')
  assert.equal((await olga.get(`/api/v1/connections/${id}/lag`)).status, 404)
  await deployVersion(dora, 'crm.people', '2.0.0', filesOf(null, 'people', 'classification: restricted\n'))
  const vera = await world.as(tenant, 'svc-viewers', 'vera')
  assert.deepEqual((await vera.get(`${DB}/lag`)).body.tables, [], 'as old as a product is that he may not read')
})

it('syncs when the newest sync is too long ago', async () => {
  const set = await patch({ schedule: { max_age: '1s' } })
  assert.deepEqual(set.body.schedule, { max_age: '1s' })
  const before = (await scheduledRuns()).length
  await until('it goes on', async () => (await scheduledRuns()).length > before + 1)
  assert.equal((await sluice('connection', 'update', 'db', '--max-age', '6h')).code, 0)
  assert.deepEqual((await dora.get(DB)).body.schedule, { max_age: '6h' })
  await patch({ schedule: null })
})
