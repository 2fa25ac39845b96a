/**
 * A row is erased wherever it was carried to, whatever is killed when: a search of all that is stored finds its values before in
 * each place, and in none afterwards; what is not its own is as it was.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { ERASURE_FAULT_POINTS } from '../runtime/src/fault-points.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { filesWith, tablesWith } from './stored-text.ts'

const marker = (what: string) => `${what}-${randomBytes(8).toString('hex')}`
/** Of the row that goes. */
const KEY = marker('key')
const OWN = { email: `${marker('mail')}@x.test`, former: marker('formercity'), city: marker('city') }
/** Of the same row, as only the preview of another version has it. */
const STAGED = marker('staged')
/** The row with the same key in another tenant, and one beside it. */
const OTHERS = { tenant: marker('othertenant'), beside: marker('beside') }

const COLUMNS = `  - { name: id, type: string, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const SERVED = `  - type: lookup
    config: { history_mode: type_2, tracked_columns: [city] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`

let folder: string
let config: string
let data: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let admin: Client
let developer: Client
let stranger: Client

async function start(fault: string | null): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, fault, 0, config)
  const found = await runtime.address()
  assert.ok(found, runtime.output)
  url = found
  const token = (tenant: string) =>
    issueToken(data, { tenant, groups: ['svc-developers'], user: 'dora' }, { ttlS: 36_000 })
  admin = new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: 36_000 }))
  developer = new Client(url, await token('acme'))
  stranger = new Client(url, await token('globex'))
}

const asAdmin = { 'x-tenant-id': 'acme' }
const ERASURES = '/api/v1/connections/db/erasures'

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-erased-'))
  data = join(folder, 'data')
  config = join(folder, 'sluice.yaml')
  server = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = server.tcpAddress
  const login = { host, port, user, password, database: 'postgres' }
  source = new pg.Client(login)
  await source.connect()
  for (const table of ['people', 'strangers']) {
    await source.query(`CREATE TABLE ${table} (id text PRIMARY KEY, email text, city text)`)
    await source.query(
      `INSERT INTO ${table} SELECT 'p' || i, 'm' || i || '@x.test', 'c' || i % 7 FROM generate_series(1, 60) i`,
    )
  }
  await source.query('INSERT INTO people VALUES ($1, $2, $3), ($4, $4, $4)', [
    KEY,
    OWN.email,
    OWN.former,
    OTHERS.beside,
  ])
  await source.query('INSERT INTO strangers VALUES ($1, $2, $2)', [KEY, OTHERS.tenant])
  await writeFile(config, 'upkeep: { compare_minutes: 0 }\n')
  await start(null)
  for (const slug of ['acme', 'globex'])
    await ok(admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'enterprise' }))
  const settings = JSON.stringify({ ...login, ssl_mode: 'disable' })
  for (const client of [developer, stranger])
    await ok(
      client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: settings }),
    )
  const people = manifests('public.people', { columns: COLUMNS, endpoints: SERVED })
  await deploy(developer, 'people', people)
  // It keeps what its source has no more.
  const keeps = { ...people, output: people.output.replace('write_mode: replace', 'write_mode: merge') }
  await deploy(developer, 'kept', keeps)
  const totals = manifests('public.people', {
    columns: '  - { name: city, type: string, role: identity, nullable: false }\n  - { name: n, type: long }\n',
    endpoints: '  - type: lookup\n    config: { index_columns: [city] }\n',
  })
  await deploy(developer, 'totals', {
    ...totals,
    product: totals.product.replace('source_aligned', 'aggregate'),
    inputs: 'apiVersion: svc/v1\nkind: Inputs\ninputs:\n  - { name: source, product: crm.people }\n',
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
    compute: `${totals.compute}transform: "SELECT city, count(*) AS n FROM source GROUP BY city"\n`,
  })
  const other = manifests('public.strangers', { columns: COLUMNS, endpoints: SERVED })
  await deploy(stranger, 'people', other)
  await sync(developer)
  await sync(stranger)
  await source.query('UPDATE people SET city = $2 WHERE id = $1', [KEY, OWN.city])
  await sync(developer)
  await preview({
    ...people,
    compute: `${people.compute}transform: "SELECT id, email, '${STAGED}' || city AS city FROM source"\n`,
  })
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function deploy(client: Client, name: string, texts: Readonly<Record<string, string>>): Promise<void> {
  const archetype = name === 'totals' ? 'aggregate' : 'source_aligned'
  await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype, description: '' }))
  const product = texts['product']?.replace('name: people', `name: ${name}`) as string
  await ok(client.upload(`/api/v1/products/${name}/manifests`, { ...texts, product }))
  await ok(client.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0' }))
}

async function preview(texts: Readonly<Record<string, string>>): Promise<void> {
  await ok(developer.upload('/api/v1/products/people/manifests', texts))
  const made = await ok(
    developer.post('/api/v1/products/people/deploy', { version: '1.1.0', dry_run: false, stage: 'preview' }),
  )
  const run = await developer.untilEnded(made.run_id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

async function sync(client: Client): Promise<void> {
  const { id } = await ok(client.post('/api/v1/connections/db/sync'))
  const ended = await client.untilEnded(id)
  assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
  for (;;) {
    const products = (await ok(client.get('/api/v1/products'))).data as Json[]
    if (products.every(({ status }) => status === 'deployed')) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const rowsOf = async (client: Client, sql: string) =>
  (await ok(client.post('/api/v1/query', { sql, limit: 1000 }))).rows
const historyOf = (client: Client, name: string, id: string) =>
  client.get(`/api/v1/products/${name}/latest?filter=id:${id}&history=true`)

/** Places of each value: files of the tenant's lake, tables of the stores, the registry; but for the other tenant's row. */
async function search(texts: readonly string[]) {
  const inLake = await filesWith(join(data, 'lake'), texts, (path) => path.includes('acme'))
  const tables = (database: 'sluice_registry' | 'sluice_serving') =>
    withDatabase(data, database, (client) => tablesWith(client, texts, OTHERS.tenant))
  const [inStores, inRegistry] = [await tables('sluice_serving'), await tables('sluice_registry')]
  const placesOf = (text: string) => ({
    lake: inLake.get(text)?.length ?? 0,
    stores: inStores.get(text)?.length ?? 0,
    registry: inRegistry.get(text) ?? [],
  })
  return Object.fromEntries(texts.map((text) => [text, placesOf(text)]))
}

let others: Json

it('lies in files, stores and histories before, and goes with no less than what it says', async () => {
  const found = await search([...Object.values(OWN), KEY, STAGED + OWN.city])
  for (const [text, { lake, stores }] of Object.entries(found)) {
    assert.ok(lake > 0, `${text} is in the lake`)
    assert.ok(stores > 0, `${text} is in a store`)
  }
  assert.equal((await ok(developer.get(`/api/v1/products/people/realtime?key=${KEY}`))).data.length, 1)
  assert.equal((await ok(historyOf(developer, 'people', KEY))).data.length, 2, 'a history of two states')
  others = await everythingElse()
  const body = { table: 'public.people', key: { id: KEY } }
  assert.equal((await developer.post(ERASURES, { ...body, expire_history: true })).status, 403)
  const refused = await admin.post(ERASURES, body, asAdmin)
  assert.deepEqual([refused.status, refused.body.code], [409, 'erasure_expires_history'])
  assert.equal(
    refused.body.detail,
    'nothing was erased: with the row go former snapshots of public.people, crm.kept, crm.people, crm.totals; histories in stores of crm.kept, crm.people; previews crm.people@preview',
  )
  assert.deepEqual(refused.body.products, ['crm.kept', 'crm.people', 'crm.totals'])
  assert.deepEqual(refused.body.previews, ['crm.people@preview'])
  assert.deepEqual(refused.body.histories, ['crm.kept', 'crm.people'])
  // What is read whole is told apart by no key: any of its columns may be given, and no other.
  for (const key of [{ id: KEY, nothing: 'x' }, { nothing: 'x' }]) {
    const { status, body: wrong } = await admin.post(ERASURES, { ...body, key, expire_history: true }, asAdmin)
    assert.deepEqual([status, wrong.code], [422, 'erasure_key_mismatch'])
  }
  assert.equal(
    (await admin.post(ERASURES, { ...body, table: 'public.none', expire_history: true }, asAdmin)).status,
    400,
  )
  assert.deepEqual((await ok(admin.get(ERASURES, asAdmin))).data, [])
})

/** What is not of the row: in the raw table, products, twins, and the other tenant. */
async function everythingElse(): Promise<Json> {
  const own = await Promise.all(
    [
      `SELECT * FROM raw_db.people WHERE id <> '${KEY}' ORDER BY ALL`,
      `SELECT * FROM crm.people WHERE id <> '${KEY}' ORDER BY ALL`,
      `SELECT * FROM crm.kept WHERE id <> '${KEY}' ORDER BY ALL`,
      `SELECT * FROM crm.totals WHERE city <> '${OWN.city}' ORDER BY ALL`,
    ].map((sql) => rowsOf(developer, sql)),
  )
  const served = async (client: Client, name: string) =>
    ((await ok(client.get(`/api/v1/products/${name}/latest?limit=1000`))).data as Json[])
      .filter(({ id }) => client === stranger || id !== KEY)
      .map(({ id, email, city }) => [id, email, city])
      .toSorted()
  const theirs = await rowsOf(stranger, 'SELECT * FROM crm.people ORDER BY ALL')
  return [
    own,
    await served(developer, 'people'),
    await served(developer, 'kept'),
    theirs,
    await served(stranger, 'people'),
  ]
}

it('is nowhere afterwards, wherever the runtime was killed', async () => {
  const exports = [await exported('crm.people'), await exported('crm.people@preview')]
  await source.query('DELETE FROM people WHERE id = $1', [KEY])
  // An epoch that was committed is not made again by the next attempt: its points come before those after it.
  const [claimed, rawWritten, rawErased, ...later] = ERASURE_FAULT_POINTS
  const commits = ['materializer.before-commit', 'materializer.after-commit']
  const points = [claimed, rawWritten, rawErased, ...commits, ...later].flatMap((point) =>
    point === 'erasure.previews-ended' ? ['preview.copies-dropped', point] : [point],
  )
  let id: string | null = null
  for (const point of points) {
    await runtime.stop()
    await start(`${point}@1`)
    id ??= (await ok(admin.post(ERASURES, { table: 'public.people', key: { id: KEY }, expire_history: true }, asAdmin)))
      .id
    assert.equal((await runtime.ended).signal, 'SIGKILL', `it was killed at ${point}: ${runtime.output}`)
  }
  await start(null)
  const erasure = await untilErased(id as string)
  assert.equal(erasure.state, 'succeeded', JSON.stringify(erasure))
  assert.equal(erasure.found.rows, 1)
  assert.deepEqual(
    erasure.proof.products.map(({ name, by_key, histories }: Json) => [name, by_key, histories]).toSorted(),
    [
      ['crm.kept', true, ['lookup']],
      ['crm.people', true, ['lookup']],
      ['crm.totals', false, []],
    ],
  )
  const gone = [...Object.values(OWN), STAGED + OWN.city]
  assert.deepEqual(await search([...gone, KEY]), nothing([...gone, KEY]))
  assert.equal((await developer.get(`/api/v1/products/people/realtime?key=${KEY}`)).body.data?.length ?? 0, 0)
  assert.deepEqual((await ok(historyOf(developer, 'people', KEY))).data, [])
  for (const one of exports) assert.equal((await developer.get(`/api/v1/exports/${one}`)).status, 404)
  assert.equal((await developer.get('/api/v1/products/crm.people@preview/latest')).status, 404)
  const ended = await audit('product.preview_discard')
  assert.deepEqual(
    ended.map(({ details }: Json) => details.erasure),
    [id],
  )
  const { tables } = await ok(admin.post('/api/v1/lake/clean', {}, asAdmin))
  assert.deepEqual(
    tables.filter(({ error }: Json) => error !== undefined),
    [],
    'upkeep goes on',
  )
  assert.deepEqual(await everythingElse(), others)
  assert.ok(((await search([OTHERS.beside]))[OTHERS.beside]?.lake as number) > 0, 'the row beside it is there')
  assert.equal((await rowsOf(stranger, `SELECT * FROM crm.people WHERE id = '${KEY}'`)).length, 1)
  const records = await audit('connection.erased')
  assert.equal(records.length, 1)
  assert.equal(records[0].details.key_digest, erasure.key_digest)
  assert.doesNotMatch(JSON.stringify([records, erasure]), new RegExp(KEY))
  assert.equal((await developer.post(`/api/v1/ingestion/${erasure.run_id}/retry`)).body.code, 'erasure_ended')
})

async function audit(wanted: string): Promise<readonly Json[]> {
  const { data } = await ok(admin.get('/api/v1/audit?limit=200', asAdmin))
  return (data as Json[]).filter(({ action }) => action === wanted)
}

async function exported(product: string): Promise<string> {
  const { id } = await ok(developer.post('/api/v1/exports', { product, format: 'csv' }))
  for (;;) {
    const asked = await ok(developer.get(`/api/v1/exports/${id}`))
    if (asked.state === 'succeeded') return id
    assert.notEqual(asked.state, 'failed', JSON.stringify(asked))
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

async function untilErased(id: string): Promise<Json> {
  for (;;) {
    const erasure = await ok(admin.get(`${ERASURES}/${id}`, asAdmin))
    if (!['queued', 'running'].includes(erasure.state)) return erasure
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const nothing = (texts: readonly string[]) =>
  Object.fromEntries(texts.map((text) => [text, { lake: 0, stores: 0, registry: [] }]))

it('stays away with the next sync, and comes again only where the source has it', async () => {
  await sync(developer)
  assert.deepEqual(await search(Object.values(OWN)), nothing(Object.values(OWN)))
  await source.query('INSERT INTO people VALUES ($1, $2, $3)', [KEY, OWN.email, OWN.city])
  await sync(developer)
  assert.equal((await rowsOf(developer, `SELECT * FROM crm.people WHERE id = '${KEY}'`)).length, 1)
})
