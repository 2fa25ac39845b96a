/** A product whose transform runs in the real Trino, over HTTP and through the death of the runtime that asked for it. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Client, Json } from '../../acceptance/client.ts'
import { connectionTo, Fleet, serversFromEnvironment } from '../several/fleet.ts'
import { trinoRows } from '../trino/rows.ts'

const TENANT = `spread${Date.now().toString(36)}`
const TRINO = process.env['SLUICE_TEST_TRINO_URL'] as string
const TRANSFORM = `
  SELECT customer, count(*) AS orders, CAST(sum(amount) AS decimal(18, 2)) AS amount,
    max_by(email, id) AS email, array_join(array_agg(DISTINCT status ORDER BY status), ' ') AS statuses
  FROM o GROUP BY customer`
const ON_THE_SOURCE = `
  SELECT customer, count(*)::integer AS orders, sum(amount)::numeric(18, 2)::text AS amount,
    string_agg(DISTINCT status, ' ' ORDER BY status) AS statuses,
    (array_agg(email ORDER BY id DESC))[1] AS email
  FROM orders GROUP BY customer ORDER BY customer`

let folder: string
let fleet: Fleet
let source: pg.Client
let developer: Client
let viewer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-distributed-'))
  const settings = { SLUICE_LIMITS__LEASE_MS: '3000' }
  fleet = await Fleet.start(folder, serversFromEnvironment(process.env), 1, { trino: TRINO, settings })
  source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  await source.query(`CREATE TABLE orders
    (id integer PRIMARY KEY, customer integer NOT NULL, email text, amount numeric(12, 2), status text)`)
  await addOrders(1, 5_000)
  const admin = await fleet.client(['--role', 'admin'])
  const tenant = await admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'standard' })
  assert.equal(tenant.status, 201, JSON.stringify(tenant.body))
  developer = await fleet.client(['--tenant', TENANT, '--group', 'svc-developers', '--user', 'dora'])
  viewer = await fleet.client(['--tenant', TENANT, '--group', 'svc-viewers', '--user', 'vito'])
  await onboard()
})

after(async () => {
  await trinoRows({ url: TRINO }, `DROP CATALOG IF EXISTS lakehouse_${TENANT}`).catch(() => undefined)
  await source?.end()
  await fleet?.close()
  await rm(folder, { recursive: true, force: true })
})

function addOrders(from: number, to: number) {
  return source.query(
    `INSERT INTO orders SELECT n, n % 97, 'p' || n || '@people.test', (n % 1000) / 7.0,
      (ARRAY['new', 'paid', 'sent'])[1 + n % 3] FROM generate_series($1::integer, $2::integer) n`,
    [from, to],
  )
}

const head = (kind: string): string => `apiVersion: svc/v1\nkind: ${kind}\n`

const MANIFESTS = {
  product: `${head('Product')}name: customers\nnamespace: sales\narchetype: aggregate\n`,
  inputs: `${head('Inputs')}inputs:\n  - { name: o, connection: db, table: public.orders, mode: full }\n`,
  output: `${head('Output')}format: iceberg
schema:
  - { name: customer, type: integer, role: identity, nullable: false }
  - { name: orders, type: long }
  - { name: amount, type: "decimal(18,2)" }
  - { name: email, type: string, classification: pii.identifier }
  - { name: statuses, type: string }
write_mode: replace
`,
  quality: `${head('Quality')}checks:\n  - name: customer_unique\n    unique: [customer]\n`,
  serving: `${head('Serving')}endpoints:
  - type: lookup
    config: { index_columns: [customer] }
  - type: analytics
`,
  compute: `${head('Compute')}engine: distributed\ntransform: |${TRANSFORM}\ntrigger: on_ingestion\n`,
}

async function onboard(): Promise<void> {
  const connection = await developer.post('/api/v1/connections', connectionTo(fleet.source))
  assert.equal(connection.status, 201, JSON.stringify(connection.body))
  const wanted = { name: 'customers', namespace: 'sales', archetype: 'aggregate' }
  const { body: product } = await developer.post('/api/v1/products', wanted)
  const uploaded = await developer.upload(`/api/v1/products/${product.id}/manifests`, MANIFESTS)
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const deployed = await developer.post(`/api/v1/products/${product.id}/deploy`, { version: '1.0.0', dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
}

async function sync(): Promise<Json> {
  const { status, body } = await developer.post('/api/v1/connections/db/sync')
  assert.equal(status, 202, JSON.stringify(body))
  return developer.untilEnded(body.id)
}

async function snapshots(): Promise<readonly Json[]> {
  const { status, body } = await developer.get('/api/v1/products/customers/snapshots')
  assert.equal(status, 200, JSON.stringify(body))
  return body.data
}

async function materialized(count: number): Promise<void> {
  for (let attempt = 0; attempt < 1_500; attempt += 1) {
    if ((await snapshots()).length >= count) return
    await sleep(200)
  }
  throw new Error(`${JSON.stringify(await snapshots())} instead of ${count} snapshots`)
}

/** What SQL on the source gives is what the lake holds and what the store serves. */
async function assertAsSource(): Promise<void> {
  const { rows } = await source.query(ON_THE_SOURCE)
  const sql =
    'SELECT customer, orders, CAST(amount AS VARCHAR) AS amount, statuses, email FROM sales.customers ORDER BY customer'
  const { status, body } = await developer.post('/api/v1/query', { sql, limit: 1000 })
  assert.equal(status, 200, JSON.stringify(body))
  const expected = rows.map(({ customer, orders, amount, statuses }) => [customer, orders, amount, statuses])
  assert.deepEqual(
    body.rows.map((row: Json) => [row[0], Number(row[1]), row[2], row[3]]),
    expected,
  )
  const { body: read } = await viewer.get('/api/v1/products/customers/latest?filter=customer:13')
  assert.equal(read.data.length, 1, JSON.stringify(read))
  assert.equal(Number(read.data[0].orders), rows[13].orders)
  assert.ok(!JSON.stringify(read).includes('@people.test'), 'masked as anything else')
}

describe('a product with engine: distributed', { timeout: 600_000 }, () => {
  it('is one snapshot of what Trino made', async () => {
    const ended = await sync()
    assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
    await materialized(1)
    await assertAsSource()
    assert.equal((await snapshots()).length, 1)
    const asked = await trinoRows(
      { url: TRINO },
      "SELECT count(*) FROM system.runtime.queries WHERE state = 'FINISHED' AND query LIKE '%max_by(email, id)%' AND query NOT LIKE '%system.runtime%' AND query NOT LIKE 'EXPLAIN%' AND query NOT LIKE '% LIMIT 0'",
    )
    assert.equal(Number(asked[0]?.[0]), 1, 'it was Trino that ran the transform, once')
  })

  it('keeps its last state while the transform fails, and says where', async () => {
    const broken = TRANSFORM.replace('count(*)', 'sum(1 / (id - id))')
    const uploaded = await developer.upload('/api/v1/products/customers/manifests', {
      ...MANIFESTS,
      compute: MANIFESTS.compute.replace(TRANSFORM, broken),
    })
    assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
    // What Trino computes may be made of any column, of the hidden one, too: its owner says of which it is not.
    const lower = ['customer', 'orders', 'amount', 'statuses']
    const next = { version: '1.0.1', dry_run: false, lower }
    const deployed = await developer.post('/api/v1/products/customers/deploy', next)
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    const ended = await sync()
    assert.notEqual(ended.state, 'succeeded', JSON.stringify(ended))
    assert.match(JSON.stringify(ended), /DIVISION_BY_ZERO/)
    await assertAsSource()
    const back = await developer.post('/api/v1/products/customers/rollback', { version: '1.0.0', lower })
    assert.equal((await developer.untilEnded(back.body.run_id)).state, 'succeeded', JSON.stringify(back.body))
    await assertAsSource()
    const resumed = await developer.post('/api/v1/products/customers/resume')
    assert.equal((await developer.untilEnded(resumed.body.id)).state, 'succeeded', JSON.stringify(resumed.body))
    await assertAsSource()
  })

  it('says which casts lose something, and counts them where that is allowed', async () => {
    const lossy = MANIFESTS.output.replace('{ name: amount, type: "decimal(18,2)" }', '{ name: amount, type: long }')
    const path = '/api/v1/products/customers'
    const uploaded = async (output: string) =>
      assert.equal((await developer.upload(`${path}/manifests`, { ...MANIFESTS, output })).status, 200)
    await uploaded(lossy)
    for (const dry_run of [true, false]) {
      const { status, body } = await developer.post(`${path}/deploy`, { version: '2.0.0', dry_run })
      assert.deepEqual([status, body.code], [422, 'lossy_cast'], JSON.stringify(body))
      assert.match(body.detail, /decimal\(18,2\), and as long they lose digits/)
    }
    await uploaded(`${lossy}allow_lossy: [amount]\n`)
    const lower = ['customer', 'orders', 'amount', 'statuses']
    const deployed = await developer.post(`${path}/deploy`, { version: '2.0.0', dry_run: false, lower })
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    const run = deployed.body.run_id ? await developer.untilEnded(deployed.body.run_id) : await sync()
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    const { rows } = await source.query(
      'SELECT count(*)::integer AS lost FROM (SELECT sum(amount) AS a FROM orders GROUP BY customer) AS sums WHERE a % 1 <> 0',
    )
    assert.ok(rows[0].lost > 0)
    assert.deepEqual((await developer.get(path)).body.last_materialization.lossy_values, { amount: rows[0].lost })
    const back = await developer.post(`${path}/rollback`, { version: '1.0.0', lower })
    assert.equal((await developer.untilEnded(back.body.run_id)).state, 'succeeded', JSON.stringify(back.body))
    const resumed = await developer.post(`${path}/resume`)
    assert.equal((await developer.untilEnded(resumed.body.id)).state, 'succeeded', JSON.stringify(resumed.body))
    await assertAsSource()
  })

  it('comes to the same end when the runtime is killed while Trino works', async () => {
    const before = (await snapshots()).length
    for (const [round, delayMs] of [400, 900, 1500].entries()) {
      await addOrders(10_000 * (round + 1), 10_000 * (round + 1) + 4_000)
      const { body } = await developer.post('/api/v1/connections/db/sync')
      await sleep(delayMs)
      await fleet.runtimes[0]?.stop('SIGKILL')
      await fleet.runtimes[0]?.start()
      const ended = await developer.untilEnded(body.id)
      assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
      await assertAsSource()
    }
    assert.equal((await snapshots()).length, before + 3, 'one for each sync')
  })
})
