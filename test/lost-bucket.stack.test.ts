/**
 * A tenant whose bucket is lost for good: everything that the registry knows of it can be removed, and products are made anew
 * from their sources; or the tenant is removed. Nobody has to mend anything by hand.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ENDPOINTS = `  - type: lookup
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`
const PRODUCTS = ['people', 'others']

let folder: string
let data: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let admin: Client
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lost-bucket-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new pg.Client({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, i || '@x.test' AS email, 'first' AS city
    FROM generate_series(1, 20) i; ALTER TABLE people ADD PRIMARY KEY (id)`)
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null)
  url = await servedAt(runtime)
  admin = await adminOf({ url, data })
  await makeTenant(admin)
  developer = await personOf({ url, data }, 'dora')
  await makeAll()
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function sync(): Promise<Json> {
  return developer.untilEnded((await ok(developer.post('/api/v1/connections/db/sync'))).id)
}

async function makeAll(): Promise<void> {
  await connectSource(developer, server.tcpAddress)
  for (const name of PRODUCTS) {
    const usual = manifests('public.people', { endpoints: ENDPOINTS })
    const files = { ...usual, product: usual.product.replace('name: people', `name: ${name}`) }
    await ok(
      developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }),
    )
    await ok(developer.upload(`/api/v1/products/${name}/manifests`, files))
    const deployed = await ok(developer.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false }))
    if (deployed.run_id) await developer.untilEnded(deployed.run_id)
  }
  const run = await sync()
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

/** Of one row, by each way of each product. */
async function cities(): Promise<readonly string[]> {
  const found: string[] = []
  for (const name of PRODUCTS) {
    found.push((await ok(developer.get(`/api/v1/products/${name}/latest?filter=id:7`))).data[0].city)
    found.push((await ok(developer.get(`/api/v1/products/${name}/realtime?key=7`))).data[0].city)
    found.push(
      (await ok(developer.post('/api/v1/query', { sql: `SELECT city FROM crm.${name} WHERE id = 7` }))).rows[0][0],
    )
  }
  return found
}

const bucket = () => join(data, 'lake/sluice-acme')
const lakeState = async () =>
  ((await (await fetch(`${url}/readyz`)).json()) as Json).checks.find((one: Json) => one.name === 'lake').state

async function lose(): Promise<void> {
  await rm(bucket(), { recursive: true })
  await until('it is noticed', async () => (await sync()).error?.code === 'lake_emptied')
}

it('is begun anew by deleting its products and connections', async () => {
  await lose()
  const run = await sync()
  assert.match(run.error.remedy, /delete products and connections, and make them anew/)
  for (const name of PRODUCTS) {
    const { status, body } = await developer.send(`/api/v1/products/${name}`, { method: 'DELETE' })
    assert.equal(status, 204, JSON.stringify(body))
  }
  const { status, body } = await developer.send('/api/v1/connections/db', { method: 'DELETE' })
  assert.equal(status, 204, JSON.stringify(body))
  await source.query(`UPDATE people SET city = 'second'`)
  await makeAll()
  assert.deepEqual(new Set(await cities()), new Set(['second']))
  const product = await ok(developer.get('/api/v1/products/people'))
  assert.deepEqual([product.status, product.notices], ['deployed', []])
  await until('readiness is well again', async () => (await lakeState()) === 'ok')
})

it('can be removed with its tenant', async () => {
  await lose()
  const { status, body } = await admin.send('/api/v1/tenants/acme?confirm=acme', { method: 'DELETE' })
  assert.equal(status, 204, JSON.stringify(body))
  assert.equal((await admin.get('/api/v1/tenants/acme')).status, 404)
  assert.ok(!(await readdir(join(data, 'lake'))).includes('sluice-acme'))
  await ok(admin.post('/api/v1/tenants', { slug: 'beta', display_name: 'Beta', tier: 'free' }))
})
