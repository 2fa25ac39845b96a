/**
 * A product over the log of a PostgreSQL, as its users run it: rows change, are deleted and move to other keys at the source
 * while the runtime is killed wherever it works on the log. What lookup, realtime and queries show is what the source has.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { LOG_FAULT_POINTS } from '../runtime/src/fault-points.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: realtime
    config: { key_template: "{id}", ttl: 48h }
  - type: analytics
`
const KEYS = 12

let folder: string
let data: string
let source: SourceCluster
let runtime: RuntimeProcess
let developer: Client
let viewer: Client
let random = 7

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-live-'))
  data = join(folder, 'data')
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};
    CREATE TABLE people (id int PRIMARY KEY, email text, city text); ALTER TABLE people OWNER TO ${user};
    CREATE TABLE nameless (id int, email text, city text); ALTER TABLE nameless OWNER TO ${user};
    INSERT INTO people SELECT i, 'm' || i || '@example.com', 'Bonn' FROM generate_series(1, 8) i`)
  await start(null)
  const admin = await adminOf({ url: runtimeUrl, data })
  await makeTenant(admin)
  await connectSource(developer, source.settings, source.settings.database)
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

let runtimeUrl: string

async function start(fault: string | null): Promise<void> {
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, 'upkeep: { compare_minutes: 0 }\n')
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, fault, 0, config)
  runtimeUrl = await servedAt(runtime)
  developer = await personOf({ url: runtimeUrl, data }, 'dora')
  viewer = await personOf({ url: runtimeUrl, data }, 'vera', { group: 'svc-viewers' })
}

async function upload(name: string, table: string, version = '1.0.0'): Promise<Answer> {
  const texts = manifests(table, { endpoints: ENDPOINTS, columns: COLUMNS })
  const files = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    inputs: texts.inputs.replace('mode: full', 'mode: cdc'),
  }
  const product = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
  await developer.post('/api/v1/products', product)
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, files))
  return developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: true })
}

async function sync(): Promise<Json> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  // A row that changes several times is told as often, and written once.
  for (const table of run.tables) assert.equal(table.rows_rejected, 0, JSON.stringify(table))
  return run
}

/** Some statements of one transaction; keys move into the second half and back. */
async function write(): Promise<void> {
  const statements = Array.from({ length: 1 + any(5) }, () => {
    const id = 1 + any(KEYS)
    const city = ['Bonn', 'Köln', 'Ulm', ''][any(4)]
    return [
      `INSERT INTO people VALUES (${id}, 'm${any(99)}@example.com', '${city}') ON CONFLICT (id) DO UPDATE SET city = excluded.city`,
      `UPDATE people SET city = '${city}', email = ${any(3) === 0 ? 'NULL' : `'n${any(99)}@example.com'`} WHERE id = ${id}`,
      `DELETE FROM people WHERE id = ${id}`,
      `UPDATE people SET id = ${id + KEYS} WHERE id = ${id} AND NOT EXISTS (SELECT FROM people o WHERE o.id = ${id + KEYS})`,
      `UPDATE people SET id = ${id} WHERE id = ${id + KEYS} AND NOT EXISTS (SELECT FROM people o WHERE o.id = ${id})`,
    ][any(5)]
  })
  await source.sql(`BEGIN; ${statements.join('; ')}; ${any(8) === 0 ? 'ROLLBACK' : 'COMMIT'}`)
}

/** What the source has, on every way to read it; masked for who has no grant. */
async function shownIsSource(): Promise<void> {
  const rows = await source.sql('SELECT id, email, city FROM people ORDER BY id')
  const lookup = await ok(developer.get('/api/v1/products/people/latest?limit=1000&columns=id,city'))
  const wanted = rows.map(({ id, city }) => ({ id, city }))
  assert.deepEqual(
    lookup.data.toSorted((one: Json, other: Json) => one.id - other.id),
    wanted,
  )
  const query = { sql: 'SELECT id, city FROM crm.people ORDER BY id' }
  const answered = await ok(developer.post('/api/v1/query', query))
  assert.deepEqual(
    answered.rows.map((row: unknown) => (Array.isArray(row) ? { id: row[0], city: row[1] } : row)),
    wanted,
  )
  for (let id = 1; id <= 2 * KEYS; id += 1) {
    const { status, body } = await developer.get(`/api/v1/products/people/realtime?key=${id}&columns=id,city`)
    const row = wanted.find((one) => one.id === id)
    assert.deepEqual(status === 404 ? null : body.data[0], row ?? null, `realtime, key ${id}`)
  }
  const emails = rows.flatMap(({ email }) => (email === null ? [] : [String(email)]))
  const { text } = await textOf(viewer, '/api/v1/products/people/latest?limit=1000')
  assert.deepEqual(
    emails.filter((email) => text.includes(email)),
    [],
  )
}

async function textOf(client: Client, path: string): Promise<{ readonly text: string }> {
  return { text: JSON.stringify(await ok(client.get(path))) }
}

const slots = async () => (await source.sql('SELECT slot_name FROM pg_replication_slots')).length

it('a plan says what it reads by the log, and which table the log cannot tell', async () => {
  const refused = await upload('nameless', 'public.nameless')
  assert.equal(refused.status, 422)
  assert.ok(JSON.stringify(refused.body).includes('primary key'), JSON.stringify(refused.body))
  const plan = await ok(upload('people', 'public.people'))
  assert.ok(JSON.stringify(plan).includes('"cdc"'), JSON.stringify(plan))
  assert.equal(await slots(), 0, 'a plan leaves nothing at the source')
  await ok(developer.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false, digest: plan.digest }))
  await sync()
  await shownIsSource()
  assert.equal(await slots(), 1)
})

it('changes, deletes and other keys come with the next sync, and the source may forget them', async () => {
  for (let round = 0; round < 5; round += 1) {
    for (let count = 0; count < 6; count += 1) await write()
    await sync()
    await shownIsSource()
  }
  const before = await ok(developer.get('/api/v1/products/people'))
  const { log } = await ok(developer.get('/api/v1/connections/db'))
  assert.equal(log.state, 'ok', JSON.stringify({ log, before }))
  const [behind] = await source.sql(
    'SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int AS bytes FROM pg_replication_slots',
  )
  assert.ok(Number(behind?.['bytes']) < 1_000_000, JSON.stringify(behind))
})

it('a runtime that is killed wherever it works on the log loses, repeats and mixes nothing', async () => {
  for (const fault of LOG_FAULT_POINTS) {
    await runtime.stop()
    await start(fault)
    for (let count = 0; count < 4; count += 1) await write()
    const asked = await developer.post('/api/v1/connections/db/sync')
    // Some are not met by every run.
    await Promise.race([runtime.ended, developer.untilEnded(asked.body.id).catch(() => null)])
    await write()
    if (!runtime.isEnded) await runtime.stop()
    await start(null)
    const run = await developer.untilEnded(asked.body.id)
    assert.equal(run.state, 'succeeded', `${fault}: ${JSON.stringify(run)}`)
    await sync()
    await shownIsSource()
  }
  for (let kill = 0; kill < 4; kill += 1) {
    for (let count = 0; count < 4; count += 1) await write()
    const asked = await developer.post('/api/v1/connections/db/sync')
    await sleep(any(1_500))
    runtime.kill()
    await runtime.ended
    assert.deepEqual(await runtime.lastSurvivors(), [])
    await write()
    await start(null)
    await developer.untilEnded(asked.body.id)
    await sync()
    await shownIsSource()
  }
})

it('a slot that somebody drops costs a read of all, and nobody’s hands', async () => {
  await write()
  await source.sql('SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots')
  await source.sql('DELETE FROM people WHERE id = (SELECT min(id) FROM people)')
  await sync()
  await shownIsSource()
  assert.equal(await slots(), 1)
  const { log } = await ok(developer.get('/api/v1/connections/db'))
  assert.equal(log.generation, 2, JSON.stringify(log))
})

it('a product and a connection that go leave nothing at the source', async () => {
  for (const path of ['/api/v1/products/people', '/api/v1/products/nameless', '/api/v1/connections/db']) {
    const { status, body } = await developer.send(path, { method: 'DELETE' })
    assert.ok(status < 300, `${path}: ${JSON.stringify(body)}`)
  }
  await until('the slot is gone', async () => (await slots()) === 0)
  // It goes after the slot.
  await until('the publication is gone', async () => {
    return (await source.sql('SELECT pubname FROM pg_publication')).length === 0
  })
})
