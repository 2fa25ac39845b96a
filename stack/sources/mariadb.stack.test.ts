/**
 * Products over a MariaDB, as their users run them: rows change, are deleted and move to other keys at the source while the
 * runtime is killed now and then. What lookup and queries show is what the source has, of one moment for both tables.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { type Answer, Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import { type SourceServer, startSource } from '../../plugins/connectors/mariadb/source-server.ts'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { placeTestCluster } from '../../runtime/src/database/testing.ts'
import { FAULT_POINTS } from '../../runtime/src/fault-points.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: born, type: date }
`
const ENDPOINTS = '  - type: lookup\n    config: { index_columns: [id] }\n  - type: analytics\n'
const CHANGED = 'changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)'
const KEYS = 12

let folder: string
let data: string
let source: SourceServer
let runtime: RuntimeProcess
let developer: Client
let random = 7

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-mariadb-'))
  data = join(folder, 'data')
  source = await startSource()
  const { user, database, password, host, port } = source.settings
  await source.sql(
    `GRANT SELECT ON \`${database}\`.* TO '${user}'@'%'`,
    `CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(90), city VARCHAR(90), born DATE, ${CHANGED}, KEY (changed))`,
    `INSERT INTO people (id, email, city, born) SELECT seq, CONCAT('m', seq, '@example.com'), 'Bonn', '1980-02-29' FROM seq_1_to_8`,
  )
  const url = await start(null)
  const admin = new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: 36_000 }))
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
  const login = JSON.stringify({ host, port, user, password, database, ssl_mode: 'require' })
  await ok(developer.post('/api/v1/connections', { name: 'db', connector_type: 'mariadb', config_encrypted: login }))
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(fault: string | null): Promise<string> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, fault)
  const url = await runtime.address()
  assert.ok(url, runtime.output)
  const who = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
  developer = new Client(url, await issueToken(data, who, { ttlS: 36_000 }))
  return url
}

async function deploy(name: string, input: string): Promise<Answer> {
  const texts = manifests(`${source.settings.database}.people`, { endpoints: ENDPOINTS, columns: COLUMNS })
  const files = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    inputs: texts.inputs.replace('mode: full', input),
  }
  await ok(developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, files))
  return developer.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false })
}

async function sync(): Promise<Json> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return run
}

/** Some statements of one transaction; keys move into the second half and back. */
async function write(): Promise<void> {
  const statements = Array.from({ length: 1 + any(5) }, () => {
    const id = 1 + any(KEYS)
    const city = ['Bonn', 'Köln', 'Ulm', '', '"a,b"'][any(5)]
    return [
      `INSERT INTO people (id, email, city) VALUES (${id}, 'm${any(99)}@example.com', '${city}') ON DUPLICATE KEY UPDATE city = VALUES(city)`,
      `UPDATE people SET city = '${city}', email = ${any(3) === 0 ? 'NULL' : `'n${any(99)}@example.com'`} WHERE id = ${id}`,
      `DELETE FROM people WHERE id = ${id}`,
      `UPDATE IGNORE people SET id = ${id + KEYS} WHERE id = ${id}`,
      `UPDATE IGNORE people SET id = ${id} WHERE id = ${id + KEYS}`,
    ][any(5)] as string
  })
  await source.sql('START TRANSACTION', ...statements, any(8) === 0 ? 'ROLLBACK' : 'COMMIT')
}

async function shownIsSource(): Promise<void> {
  const rows = await source.sql(
    "SELECT id, city, born FROM people WHERE born IS NULL OR born NOT LIKE '%-00%' ORDER BY id",
  )
  const wanted = rows.map(([id, city, born]) => ({ id: Number(id), city, born }))
  for (const name of ['people', 'all_people']) {
    const lookup = await ok(developer.get(`/api/v1/products/${name}/latest?limit=1000&columns=id,city,born`))
    assert.deepEqual(
      lookup.data.toSorted((one: Json, other: Json) => one.id - other.id),
      wanted,
      name,
    )
    const query = { sql: `SELECT id, city, born FROM crm.${name} ORDER BY id` }
    const answered = await ok(developer.post('/api/v1/query', query))
    assert.deepEqual(
      answered.rows.map((row: Json) => (Array.isArray(row) ? { id: row[0], city: row[1], born: row[2] } : row)),
      wanted,
      name,
    )
  }
}

it('a connection is checked, its tables are listed, and products are made of them', async () => {
  const checked = await ok(developer.post('/api/v1/connections/db/test'))
  assert.ok(JSON.stringify(checked).includes('the login may read 1 table or view'), JSON.stringify(checked))
  const found = await ok(developer.get('/api/v1/connections/db/discover'))
  assert.ok(JSON.stringify(found).includes('"suggested_cursor":"changed"'), JSON.stringify(found))
  await ok(deploy('people', 'mode: incremental, cursor_column: changed, primary_key: [id]'))
  await ok(deploy('all_people', 'mode: incremental, primary_key: [id]'))
  await sync()
  await shownIsSource()
})

it('changes, deletes and other keys come with the next sync', async () => {
  for (let round = 0; round < 6; round += 1) {
    for (let count = 0; count < 5; count += 1) await write()
    await sync()
    await shownIsSource()
  }
})

it('a row with a zero date costs nothing but itself, and comes once it is mended', async () => {
  await source.sql("SET SESSION sql_mode = ''", "UPDATE people SET born = '2024-00-10' ORDER BY id LIMIT 1")
  await sync()
  await shownIsSource()
  await source.sql('UPDATE people SET born = NULL WHERE born = "2024-00-10"', 'SET SESSION sql_mode = DEFAULT')
  await sync()
  await shownIsSource()
})

it('a runtime that is killed wherever it reads loses, repeats and mixes nothing', async () => {
  for (const fault of FAULT_POINTS.filter((point) => point.startsWith('ingestion.'))) {
    await runtime.stop()
    await start(fault)
    for (let count = 0; count < 3; count += 1) await write()
    const asked = await developer.post('/api/v1/connections/db/sync')
    await Promise.race([runtime.ended, developer.untilEnded(asked.body.id).catch(() => null)])
    await write()
    if (!runtime.isEnded) await runtime.stop()
    await start(null)
    const run = await developer.untilEnded(asked.body.id)
    assert.equal(run.state, 'succeeded', `${fault}: ${JSON.stringify(run)}`)
    await sync()
    await shownIsSource()
  }
})
