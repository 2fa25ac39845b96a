/**
 * A registry that a later release has been on. As long as that only added, this release serves on it, starts on it and does
 * all its work there, and says so; where the later one says that this one is too old, it does not start.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { MIGRATIONS } from '../runtime/src/assembly/migrations.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { type MigrationList, migrate } from '../runtime/src/database/migrate.ts'
import { startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`

let folder: string
let data: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let developer: Client
let admin: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-later-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new pg.Client({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, 'p' || i AS email, 'Riga' AS city
    FROM generate_series(1, 20) i; ALTER TABLE people ADD PRIMARY KEY (id)`)
  await start()
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  runtime = await RuntimeProcess.spawn(data, null)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
  admin = await adminOf({ url, data })
}

const registryCheck = async () => {
  const { status, checks } = (await (await fetch(`${url}/readyz`)).json()) as Json
  assert.equal(status, 'ready')
  const { latency_ms: _, ...check } = checks.find((one: Json) => one.name === 'registry')
  return check
}

async function sync(): Promise<void> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

async function deploy(version: string): Promise<void> {
  await ok(developer.upload('/api/v1/products/people/manifests', manifests('public.people', { endpoints: ENDPOINTS })))
  const { run_id: run } = await ok(developer.post('/api/v1/products/people/deploy', { version, dry_run: false }))
  if (run) assert.equal((await developer.untilEnded(run)).state, 'succeeded')
}

/** What a tenant's people do, from nothing to nothing. */
async function work(tier: string): Promise<void> {
  await ok(admin.post('/api/v1/tenants', { slug: `other-${tier}`, display_name: 'Other', tier }))
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
  await deploy('1.0.0')
  await sync()
}

async function read(city: string): Promise<void> {
  const people = '/api/v1/products/people'
  const reads = {
    lookup: () => developer.get(`${people}/latest?filter=id:7`),
    realtime: () => developer.get(`${people}/realtime?key=7`),
    analytics: () => developer.post('/api/v1/query', { sql: 'SELECT city FROM crm.people WHERE id = 7' }),
  }
  for (const [type, ask] of Object.entries(reads))
    await until(`${type} has the newest rows`, async () => JSON.stringify((await ask()).body).includes(city))
}

/** Reads, a sync, a version, and everything that writes to other tables of the registry. */
async function goOn(city: string): Promise<void> {
  await source.query('UPDATE people SET city = $1', [city])
  await sync()
  await read(city)
  await deploy(`2.0.${city.length}`)
  await read(city)
  const people = '/api/v1/products/people'
  const grant = { subject: { user: 'vera' }, may: 'unmask', classes: ['pii.identifier'] }
  const granted = await ok(developer.post(`${people}/grants`, grant))
  await ok(developer.send(`${people}/grants/${granted.id}`, { method: 'DELETE' }))
  const key = await ok(developer.post('/api/v1/application-keys', { name: `app-${city}`, products: ['people'] }))
  await ok(new Client(url, key.token).get(`${people}/latest?filter=id:7`))
  await ok(developer.send(`/api/v1/application-keys/${key.id}`, { method: 'DELETE' }))
  const { data: snapshots } = await ok(developer.get(`${people}/snapshots`))
  const back = { snapshot_id: snapshots.at(-1).snapshot_id }
  const { run_id: run } = await ok(developer.post(`${people}/rollback`, back, { 'idempotency-key': `back-${city}` }))
  assert.equal((await developer.untilEnded(run)).state, 'succeeded')
  await ok(developer.post(`${people}/resume`))
  await ok(developer.get('/api/v1/ingestion'))
  await ok(developer.get(`${people}/quality`))
}

/** As far from this release as one that only adds can be: every table has more columns, and there are more tables. */
async function laterRelease(): Promise<readonly MigrationList[]> {
  const tables = await withDatabase(data, 'sluice_registry', async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c where c.relkind in ('r', 'p') and not c.relispartition
         and c.relnamespace = 'public'::regnamespace and c.relname <> 'schema_migrations' order by 1`,
    )
    return rows.map(({ name }) => name)
  })
  assert.ok(tables.length > 30, tables.join())
  const more = tables.map((table, index) => {
    const columns = `add column later_a text, add column later_b integer not null default 7`
    return `alter table ${table} ${columns}; create index on ${table} (later_b); create table later_${index} (a int)`
  })
  const added = { id: '900_later', sql: more.join(';') }
  const registry = MIGRATIONS[0] as MigrationList
  const own = { name: 'later', migrations: [{ id: '001_own', sql: 'create table later_own (a int)' }] }
  return [{ ...registry, migrations: [...registry.migrations, added] }, ...MIGRATIONS.slice(1), own]
}

const BREAKING = { id: '901_breaks', sql: 'create table later_breaks (a int)', breaksOlder: true as const }

let later: readonly MigrationList[]

/** Beside this one, as where runtimes are replaced one after the other. */
async function migrateTo(lists: readonly MigrationList[]): Promise<void> {
  later = lists
  const pool = await withDatabase(data, 'sluice_registry', async (client) => {
    const { host, port, user, password, database } = client
    return new pg.Pool({ host, port, user, password, database, max: 1 } as pg.PoolConfig)
  })
  await migrate(pool, lists).finally(() => pool.end())
}

it('serves, works and starts on what only adds, and says that it is there', async () => {
  await makeTenant(admin)
  await work('free')
  assert.deepEqual(await registryCheck(), { name: 'registry', ok: true })

  await migrateTo(await laterRelease())
  await goOn('Tallinn')
  const seen = { name: 'registry', ok: true, newer_migrations: 2, too_old: false }
  assert.deepEqual(await registryCheck(), seen)

  await runtime.stop()
  await start()
  assert.match(runtime.output, /900_later.*a newer release has been on this registry/)
  assert.deepEqual(await registryCheck(), seen)
  await read('Tallinn')
  await goOn('Vilnius')
  await ok(developer.send('/api/v1/products/people', { method: 'DELETE' }))
  await ok(developer.send('/api/v1/connections/db', { method: 'DELETE' }))
  await work('standard')
  await read('Vilnius')
})

it('does not start where the later release says that this one is too old, and says so before while it runs', async () => {
  const [registry, ...others] = later as [MigrationList, ...MigrationList[]]
  await migrateTo([{ ...registry, migrations: [...registry.migrations, BREAKING] }, ...others])
  const seen = { name: 'registry', ok: true, state: 'degraded', newer_migrations: 3, too_old: true }
  await until('it is said', async () => (await registryCheck()).too_old === true)
  assert.deepEqual(await registryCheck(), seen)
  assert.equal((await developer.get('/api/v1/products/people/latest?filter=id:7')).status, 200)
  await runtime.stop()
  const refused = await RuntimeProcess.spawn(data, null)
  assert.equal((await refused.ended).code, 1)
  assert.match(refused.output, /registry\/901_breaks/)
  assert.match(refused.output, /Start the release that did it, or a later one/)
})
