/**
 * A product of so many rows that only those which have changed are written: as its users run it, over the log of a PostgreSQL, with
 * every kind of store, a twin, checks, upkeep and a way back. What each of them shows is what the source has.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { addressOf, startVersitygw } from '../stack/servers/versitygw.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'

const ROWS = 120_000
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: seen, type: timestamp }
`
const ENDPOINTS = `  - type: lookup
  - type: realtime
    config: { key_template: "{id}" }
  - type: timeseries
    config: { time_column: seen }
  - type: analytics
`
/** The whole content as one text, in words that PostgreSQL and the engine have in common. */
const CONTENT = (table: string, columns: readonly string[]) =>
  `SELECT count(*)::BIGINT AS n, md5(string_agg(concat_ws('|', ${columns.map((name) => `coalesce(${name}::VARCHAR, '-')`).join(', ')}), ',' ORDER BY id)) AS content FROM ${table}`

let folder: string
let data: string
let source: SourceCluster
let objects: Awaited<ReturnType<typeof startVersitygw>> | undefined
let runtime: RuntimeProcess
let developer: Client
let viewer: Client
let admin: Client

/** @param lake what the configuration says of the object store, if anything */
async function open(lake: (folder: string) => Promise<object>): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), 'sluice-large-'))
  data = join(folder, 'data')
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};
    CREATE TABLE people (id int PRIMARY KEY, email text, city text, seen timestamp, unused text); ALTER TABLE people OWNER TO ${user};
    INSERT INTO people SELECT i, 'm' || i || '@example.com', 'city ' || i % 100, '2026-01-01'::timestamp + i * interval '1 second', 'u'
      FROM generate_series(1, ${ROWS}) i`)
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, JSON.stringify({ upkeep: { compare_minutes: 0 }, ...(await lake(folder)) }))
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  const url = await servedAt(runtime)
  admin = await adminOf({ url, data })
  await makeTenant(admin)
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vera', { group: 'svc-viewers' })
  await connectSource(developer, source.settings, source.settings.database)
}

async function close(): Promise<void> {
  await runtime?.stop()
  await source?.stop()
  await objects?.stop()
  await rm(folder, { recursive: true, force: true })
}

async function startObjects(folder: string): Promise<object> {
  const login = { key: 'sluice', secret: 'for-tests-alone', port: await freePort() }
  objects = await startVersitygw(join(folder, 'lake'), login)
  const endpoint = addressOf(login).SLUICE_TEST_S3_URL
  return { object_store: { type: 's3', endpoint, access_key_id: login.key, secret_access_key: login.secret } }
}

/** @param transform null: the table as it lies */
async function deploy(name: string, transform: string | null): Promise<void> {
  const texts = manifests('people', { endpoints: ENDPOINTS, columns: COLUMNS })
  await deployFiles(name, {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    inputs: texts.inputs.replace('mode: full', 'mode: cdc'),
    compute: transform === null ? texts.compute : `${texts.compute}transform: ${JSON.stringify(transform)}\n`,
  })
}

/** `crm.again` is made of `crm.people` by somebody who is not cleared for what that hides. */
async function deployOver(): Promise<void> {
  const texts = manifests('people', { endpoints: '  - type: lookup\n', columns: COLUMNS.replace(/.*email.*\n/, '') })
  await deployFiles('again', {
    ...texts,
    product: texts.product.replace('name: people', 'name: again').replace('source_aligned', 'aggregate'),
    inputs: texts.inputs.replace(/- \{.*\}/, '- { name: source, product: crm.people, columns: [id, city, seen] }'),
  })
}

async function deployFiles(name: string, files: Readonly<Record<string, string>>): Promise<void> {
  await developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' })
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, files))
  const version = '1.0.0'
  const plan = await ok(developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: true }))
  await ok(developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false, digest: plan.digest }))
}

/** What it makes of a row PostgreSQL can tell as well. */
const TRANSFORM = "SELECT id, email, upper(city) AS city, seen FROM INPUT WHERE city <> 'many'"

async function sync(): Promise<void> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

async function queried(client: Client, sql: string): Promise<Json> {
  const { rows } = await ok(client.post('/api/v1/query', { sql }))
  return Array.isArray(rows[0]) ? rows[0] : Object.values(rows[0])
}

/** @param ids keys whose rows are looked up one by one, too, there or not */
async function shownIsSource(ids: readonly number[]): Promise<void> {
  const columns = ['id', 'city']
  const [wanted] = await source.sql(CONTENT('people', columns))
  assert.deepEqual((await queried(developer, CONTENT('crm.people', columns))).map(String), [
    String(wanted?.n),
    wanted?.content,
  ])
  const [made] = await source.sql(CONTENT(`(${TRANSFORM.replace('INPUT', 'people')}) t`, columns))
  const transformed = await queried(developer, CONTENT('crm.shouted', columns))
  assert.deepEqual(transformed.map(String), [String(made?.n), made?.content])
  assert.deepEqual((await queried(developer, CONTENT('crm.again', columns))).map(String), [
    String(wanted?.n),
    wanted?.content,
  ])
  const [hidden] = await source.sql(
    'SELECT count(*) AS n, count(DISTINCT email) AS emails, count(seen) AS seen FROM people',
  )
  const masked = 'SELECT count(*), count(DISTINCT email), count(seen) FROM crm.people'
  assert.deepEqual((await queried(viewer, masked)).map(Number), [hidden?.n, hidden?.emails, hidden?.seen].map(Number))
  const rows = await source.sql(`SELECT id, city FROM people WHERE id IN (${ids.join(', ')})`)
  for (const client of [developer, viewer]) {
    for (const id of ids) {
      const row = rows.find((one) => one.id === id) ?? null
      const realtime = await client.get(`/api/v1/products/people/realtime?key=${id}&columns=id,city`)
      assert.deepEqual(realtime.status === 404 ? null : realtime.body.data[0], row, `realtime, key ${id}`)
      const latest = await ok(client.get(`/api/v1/products/people/latest?filter=id:${id}&columns=id,city`))
      assert.deepEqual(latest.data[0] ?? null, row, `lookup, key ${id}`)
    }
  }
  const [times] = await source.sql("SELECT count(*) AS n FROM people WHERE seen >= '2030-01-01'")
  const series = await ok(
    developer.get('/api/v1/products/people/timeseries?from=2030-01-01T00:00:00Z&to=2031-01-01T00:00:00Z&limit=1000'),
  )
  assert.equal(series.data.length, Number(times?.n))
}

for (const [where, lake] of [
  ['a folder', async () => ({})],
  ['S3', startObjects],
] as const) {
  describe(`a large product, its lake in ${where}`, () => {
    before(() => open(lake))
    after(close)
    it('is brought up to date by the rows that changed, wherever it is read', async () => {
      await deploy('people', null)
      await deploy('shouted', TRANSFORM.replace('INPUT', 'source'))
      await deployOver()
      await sync()
      await shownIsSource([1, 2, 3])
      for (const [statement, ids] of [
        ["UPDATE people SET city = 'moved' WHERE id IN (5, 70000)", [5, 70_000]],
        ["UPDATE people SET email = 'other@example.com' WHERE id = 6", [6]],
        ["UPDATE people SET unused = 'other' WHERE id = 7", [7]],
        ['DELETE FROM people WHERE id BETWEEN 100 AND 110', [99, 100, 110, 111]],
        [
          `INSERT INTO people SELECT i, NULL, 'new', '2030-05-05', 'u' FROM generate_series(${ROWS + 1}, ${ROWS + 30}) i`,
          [ROWS + 1, ROWS + 30],
        ],
        ['UPDATE people SET id = id + 1000000 WHERE id IN (200, 201)', [200, 1_000_200]],
        ["UPDATE people SET city = 'many' WHERE id % 50 = 0", [50, 51, 100_000]],
        ['UPDATE people SET seen = NULL WHERE id IN (300, 301)', [300]],
        ["INSERT INTO people VALUES (105, 'back@example.com', 'back', '2026-02-02', 'u')", [105, 104]],
      ] as const) {
        await source.sql(statement)
        await sync()
        await shownIsSource(ids)
      }
      // Otherwise it was written whole each time, and this shows nothing.
      const files = await readdir(folder, { recursive: true })
      for (const table of ['people', 'shouted', 'again']) {
        const lists = files.filter((file) => file.endsWith('-deletes.parquet') && file.includes(`crm/${table}`))
        assert.ok(lists.length >= 5, `${table}: ${lists.join(' ')}`)
      }
    })

    it('keeps its content through upkeep, and goes on after it', async () => {
      const before = await queried(developer, CONTENT('crm.people', ['id', 'city']))
      for (const task of ['compact', 'expire', 'check']) {
        const report = await ok(developer.post(`/api/v1/lake/${task}`))
        assert.ok(!JSON.stringify(report).includes('"error"'), JSON.stringify(report))
      }
      assert.deepEqual(await queried(developer, CONTENT('crm.people', ['id', 'city'])), before)
      await source.sql("UPDATE people SET city = 'after upkeep' WHERE id IN (8, 9)")
      await sync()
      await shownIsSource([8, 9, 10])
    })
  })
}
