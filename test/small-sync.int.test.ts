/** One changed row, four endpoints: how many statements a run asks the registry and the stores. A number, which no machine makes larger. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { Client as Source } from 'pg'
import { type Client, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
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

/** Of the run alone, and some more for a lock that is asked for again. Whoever needs more says here for what. */
const MOST = { sluice_registry: 105, sluice_serving: 88 } as const

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: city, type: string }
  - { name: updated_at, type: timestamptz }
`
const ENDPOINTS = `  - type: lookup
  - type: timeseries
    config: { time_column: updated_at }
  - type: analytics
  - type: realtime
    config: { key_template: "{id}" }
`

let folder: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-small-'))
  server = await startCopiedServer(join(folder, 'source'))
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people (id int PRIMARY KEY, city text, updated_at timestamptz NOT NULL);
    INSERT INTO people SELECT i, 'here', '2026-01-01' FROM generate_series(1, 1000) i`)
  const data = join(folder, 'data')
  await placeTestCluster(data)
  const preload = pathToFileURL(join(import.meta.dirname, 'count-statements.js')).href
  // Among Node's options it has the runtime run its sources, by whose files it is told who calls.
  const env = { NODE_OPTIONS: `--import=${preload}`, SLUICE_TEST_STATEMENTS: join(folder, 'statements') }
  runtime = await RuntimeProcess.spawn(data, null, 0, undefined, undefined, env)
  const url = await servedAt(runtime)
  await makeTenant(await adminOf({ url, data }))
  developer = await personOf({ url, data }, 'dora')
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
  const files = manifests('public.people', { columns: COLUMNS, endpoints: ENDPOINTS })
  const inputs = files.inputs.replace('mode: full', 'mode: incremental, cursor_column: updated_at, primary_key: [id]')
  await uploadAndDeploy(developer, 'people', { ...files, inputs })
  await sync()
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function sync(): Promise<void> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
}

async function change(): Promise<readonly string[]> {
  await source.query("UPDATE people SET city = 'there', updated_at = clock_timestamp() WHERE id = 471")
  await writeFile(join(folder, 'statements'), '')
  await sync()
  await until('its end is told', async () => (await told()).some((line) => line.includes('update incidents')))
  return told()
}

const told = async () => (await readFile(join(folder, 'statements'), 'utf8')).trimEnd().split('\n')

test('a small sync asks few statements', async () => {
  // The first change makes places for its rows.
  await change()
  const statements = await change()
  const { body } = await developer.get('/api/v1/products/people/latest?filter=id:471')
  assert.equal(body.data[0].city, 'there')
  for (const [database, most] of Object.entries(MOST)) {
    const asked = statements.filter((line) => line.startsWith(database))
    const count = [...Map.groupBy(asked, (line) => line)].map(([line, all]) => `${all.length} × ${line}`).sort()
    assert.ok(asked.length > 40 && asked.length <= most, `${asked.length} statements:\n${count.join('\n')}`)
  }
})
