/** What cannot be done is refused before anything is done: nothing is dropped by a deletion that is refused, no run is queued that can only fail. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { type Answer, type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import {
  adminOf,
  connectSource,
  makeTenant,
  personOf,
  registerProduct,
  servedAt,
  uploadAndDeploy,
} from './first-steps.ts'
import { until } from './until.ts'

let folder: string
let data: string
let source: EmbeddedServer
let runtime: RuntimeProcess
let developer: Client
let admin: Client

const DECIMALS = ['12345678901234567.8900000000', '12345678901234567.8800000000', '12345678901234568.0000000000']

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-at-once-'))
  data = join(folder, 'data')
  source = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = source.tcpAddress
  const login = { host, port, user, password, database: 'postgres' }
  const client = new pg.Client(login)
  await client.connect()
  await client.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people VALUES (1, 'a@x.test', 'Ulm'), (2, 'b@x.test', 'Bonn');
    CREATE TABLE amounts (id numeric(30,10) PRIMARY KEY, city text);
    INSERT INTO amounts SELECT n::numeric, 'of ' || n FROM unnest('{${DECIMALS.join(',')},1}'::text[]) n`)
  await client.end()
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0)
  const place = { url: await servedAt(runtime), data }
  const platform = await adminOf(place)
  await makeTenant(platform)
  developer = await personOf(place, 'dora')
  admin = {
    post: (path: string, body?: unknown) => platform.post(path, body, { 'x-tenant-id': 'acme' }),
    get: (path: string) => platform.get(path, { 'x-tenant-id': 'acme' }),
  } as Client
  await connectSource(developer, login)
  for (const name of ['people', 'amounts']) await registerProduct(developer, name)
  await uploadAndDeploy(developer, 'people', files)
  await uploadAndDeploy(developer, 'amounts', {
    ...manifests('public.amounts', {
      columns:
        '  - { name: id, type: "decimal(30,10)", role: identity, nullable: false }\n  - { name: city, type: string }\n',
    }),
    product: files.product.replace('name: people', 'name: amounts'),
  })
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
})
after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

const files = manifests('public.people')
const PEOPLE = '/api/v1/products/people'

async function refused(asked: Promise<Answer>, status: number, code: string): Promise<Json> {
  const { status: got, body } = await asked
  assert.deepEqual([got, body.code], [status, code], JSON.stringify(body))
  return body
}

const deploy = (version: string, more: Json = {}) =>
  developer.post(`${PEOPLE}/deploy`, { version, dry_run: false, ...more })
const rowOf = (id: number) => developer.get(`${PEOPLE}/latest?filter=id:${id}`)
const runs = async (): Promise<number> => (await ok(developer.get('/api/v1/ingestion?limit=1000'))).data.length

it('takes a number in JSON for the key that it is, or refuses it', async () => {
  const read = async (key: string): Promise<Answer> => {
    const body = `{"items":[{"product":"crm.amounts","store":"lookup","keys":[${key}]}]}`
    return developer.send('/api/v1/read', { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  }
  for (const text of DECIMALS) {
    const [item] = (await ok(read(`"${text}"`))).data
    assert.equal(item.rows[0]?.city, `of ${text}`, JSON.stringify(item))
  }
  for (const written of ['12345678901234567.89', '12345678901234567.88', '0.99999999999999999999', '1e400']) {
    const problem = await refused(read(written), 400, 'validation_failed')
    assert.deepEqual(
      problem.errors.map(({ pointer }: Json) => pointer),
      ['/items/0/keys/0'],
    )
    assert.equal(JSON.stringify(problem).includes(written), false, 'and is not repeated')
  }
  // A client of JavaScript has rounded it before it was sent.
  const [rounded] = (await ok(read('12345678901234568'))).data
  assert.equal(rounded.error?.code, 'key_malformed', JSON.stringify(rounded))
  const [whole] = (await ok(read('1'))).data
  assert.equal(whole.rows[0].city, 'of 1')
  // What some clients write of a double, and what is another decimal than the double that it becomes.
  for (const written of ['1.10000000000000001', '1234567890123.3999', '{"id":1.10000000000000001}']) {
    const [item] = (await ok(read(written))).data
    assert.equal(item.error?.code, 'key_malformed', JSON.stringify(item))
  }
  const ask = (params: string) => {
    const body = `{"sql":"SELECT city FROM crm.amounts WHERE id = ?","params":[${params}]}`
    return developer.send('/api/v1/query', { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  }
  await refused(ask('12345678901234567.89'), 400, 'validation_failed')
  // As a double the first would be equal to all of these rows.
  for (const [whole, found] of [
    ['12345678901234568', [['of 12345678901234568.0000000000']]],
    ['12345678901234566', []],
    ['10000000000000000000', []],
  ] as const) {
    assert.deepEqual((await ok(ask(whole))).rows, found, whole)
  }
  assert.deepEqual((await ok(ask('"12345678901234567.89"'))).rows, [[`of ${DECIMALS[0]}`]])
  const doubled = await developer.send('/api/v1/query', {
    method: 'POST',
    body: '{"sql":"SELECT ?::DOUBLE AS a, 2 * ? AS b","params":[0.10000000000000001,1e+16]}',
    headers: { 'content-type': 'application/json' },
  })
  assert.deepEqual([doubled.status, doubled.body.rows], [200, [[0.1, 2e16]]])
})

it('erases nothing of a paused product, tries no run of it again, and says so at once', async () => {
  await uploadAndDeploy(developer, 'people', files, '1.1.0').then(({ run_id }) => developer.untilEnded(run_id))
  const back = await ok(developer.post(`${PEOPLE}/rollback`, { version: '1.0.0' }))
  const wanted = { table: 'public.people', key: { id: 1 } }
  // While it is on its way, or when it is there.
  const early = await admin.post('/api/v1/connections/db/erasures', { ...wanted, expire_history: true })
  assert.equal(early.status, 409, JSON.stringify(early.body))
  assert.match(early.body.code, /^(run_in_progress|product_paused)$/)
  assert.equal((await developer.untilEnded(back.run_id)).state, 'succeeded')
  const before = await runs()
  for (const more of [{}, { expire_history: true }]) {
    const problem = await refused(
      admin.post('/api/v1/connections/db/erasures', { ...wanted, ...more }),
      409,
      'product_paused',
    )
    assert.match(`${problem.detail} ${problem.remedy}`, /crm\.people.*resume/is)
  }
  assert.deepEqual((await ok(admin.get('/api/v1/connections/db/erasures'))).data, [])
  await refused(developer.post(`${PEOPLE}/materialize`), 409, 'product_paused')
  const [made] = (await ok(developer.get('/api/v1/ingestion?limit=1000'))).data.filter(
    ({ trigger, state }: Json) => trigger === 'deploy' && state === 'succeeded',
  )
  await refused(developer.post(`/api/v1/ingestion/${made.id}/retry`), 409, 'product_paused')
  assert.equal(await runs(), before, 'and nothing was queued')
  const { id } = await ok(developer.post(`${PEOPLE}/resume`))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  const erasure = await ok(admin.post('/api/v1/connections/db/erasures', { ...wanted, expire_history: true }))
  const run = await developer.untilEnded(erasure.run_id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  assert.deepEqual([(await ok(rowOf(1))).data.length, (await ok(rowOf(2))).data.length], [0, 1])
})

it('queues no run of a product whose registry is older than its lake', async () => {
  const pause = { reason: 'registry_outdated', version: '9.0.0', since: '2026-01-01T00:00:00Z' }
  await withDatabase(data, 'sluice_registry', (registry) =>
    registry.query(`update products set paused = $1 where name = 'people'`, [JSON.stringify(pause)]),
  )
  await refused(developer.post(`${PEOPLE}/rollback`, { version: '1.0.0' }), 409, 'product_paused')
  await ok(developer.upload(`${PEOPLE}/manifests`, files))
  const deployed = await ok(deploy('1.2.0'))
  assert.equal(deployed.run_id, null)
  assert.equal((await ok(developer.get(PEOPLE))).paused.reason, 'registry_outdated', 'until somebody says who is right')
  const { id } = await ok(developer.post(`${PEOPLE}/resume?right=registry`))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
})

it('begins nothing for a product that is being deleted', async () => {
  await ok(developer.upload(`${PEOPLE}/manifests`, files))
  await registerProduct(developer, 'below')
  await ok(
    developer.upload('/api/v1/products/below/manifests', {
      ...manifests('public.people', {
        columns: '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n',
      }),
      product: files.product.replace('name: people', 'name: below').replace('source_aligned', 'consumer_aligned'),
      inputs: 'apiVersion: svc/v1\nkind: Inputs\ninputs:\n  - { name: source, product: crm.people }\n',
    }),
  )
  const marked = (until: string) =>
    withDatabase(data, 'sluice_registry', (registry) =>
      registry.query(`update products set deletion_until = ${until} where name = 'people'`),
    )
  const asked: Readonly<Record<string, () => Promise<Answer>>> = {
    preview: () => deploy('2.0.0', { stage: 'preview' }),
    deploy: () => deploy('2.0.0'),
    rollback: () => developer.post(`${PEOPLE}/rollback`, { version: '1.0.0' }),
    materialize: () => developer.post(`${PEOPLE}/materialize`),
    manifests: () => developer.upload(`${PEOPLE}/manifests`, files),
    export: () => developer.post('/api/v1/exports', { product: 'crm.people', format: 'csv' }),
    statement: () => developer.post('/api/v1/exports', { sql: 'SELECT n.id FROM crm.amounts n, CRM.People p' }),
    below: () => developer.post('/api/v1/products/below/deploy', { version: '1.0.0', dry_run: false }),
  }
  const before = await runs()
  await marked("now() + interval '1 hour'")
  for (const ask of Object.values(asked)) await refused(ask(), 409, 'product_being_deleted')
  assert.equal(await runs(), before)
  assert.equal((await ok(rowOf(2))).data.length, 1)
  // The deletion died, and its time is over.
  await marked("now() - interval '1 second'")
  const run = await ok(developer.post(`${PEOPLE}/materialize`))
  assert.equal((await developer.untilEnded(run.id)).state, 'succeeded')
})

it('marks the product before it waits for who writes its copies', async () => {
  const { id: product } = await ok(developer.get(PEOPLE))
  await withDatabase(data, 'sluice_registry', async (registry) => {
    const first = async (text: string) => (await registry.query(text, [product])).rows[0]
    const { token } = await first('select token from product_fences where product_id = $1')
    // As a run that is writing to its stores has it.
    await registry.query('select pg_advisory_lock(hashtextextended($1, 7))', [product])
    const isFenced = async () =>
      (await first('select token from product_fences where product_id = $1'))?.token !== token
    const gone = developer.send(PEOPLE, { method: 'DELETE' })
    await until('runs of it are fenced off', isFenced)
    const { is_leaving: isLeaving } = await first(
      'select deletion_until > clock_timestamp() as is_leaving from products where id = $1',
    )
    assert.equal(isLeaving, true)
    const { token: fenced } = await first('select token from product_fences where product_id = $1')
    const again = developer.send(PEOPLE, { method: 'DELETE' })
    await until('another deletion waits as well', async () => {
      return (await first('select token from product_fences where product_id = $1'))?.token !== fenced
    })
    await registry.query('select pg_advisory_unlock_all()')
    // The later one finds nothing, and takes nothing of a product that has the name by then.
    const statuses = (await Promise.all([gone, again])).map(({ status }) => status)
    assert.deepEqual(statuses.toSorted(), [204, 404])
  })
  assert.equal((await rowOf(2)).status, 404)
})

it('a deletion that is refused has dropped nothing', async () => {
  await registerProduct(developer, 'people')
  const { run_id } = await uploadAndDeploy(developer, 'people', files)
  assert.equal((await developer.untilEnded(run_id)).state, 'succeeded')
  await ok(developer.upload(`${PEOPLE}/manifests`, files))
  const { id: product } = await ok(developer.get(PEOPLE))
  const staged = await withDatabase(data, 'sluice_registry', async (registry) => {
    const copies = () => registry.query('select * from endpoint_states where product_id = $1 order by 2, 3', [product])
    const before = (await copies()).rows
    await registry.query('begin')
    // As any other change of classes of the tenant has it: each waits for it, in turn.
    await registry.query("select pg_advisory_xact_lock(hashtextextended('classes of acme', 0))")
    const waiting = async () =>
      (await registry.query("select from pg_locks where locktype = 'advisory' and not granted")).rows.length
    const stage = deploy('1.1.0', { stage: 'preview' })
    await until('the preview waits', async () => (await waiting()) === 1)
    const gone = developer.send(PEOPLE, { method: 'DELETE' })
    await until('the deletion waits', async () => (await waiting()) === 2)
    await registry.query('commit')
    const made = await ok(stage)
    await refused(gone, 409, 'preview_exists')
    assert.deepEqual((await copies()).rows, before)
    return made
  })
  assert.equal((await ok(rowOf(2))).data.length, 1)
  assert.equal((await developer.untilEnded(staged.run_id)).state, 'succeeded')
})
