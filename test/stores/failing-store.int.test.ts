/** One store of a product fails: the others serve, the product says so, and the store is brought up to date by itself. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { describeRun } from '../../runtime/src/command/run-progress.ts'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../../runtime/src/database/testing.ts'
import { RuntimeProcess } from '../crash/runtime-process.ts'
import { until } from '../until.ts'

const ENDPOINTS = '  - type: lookup\n  - type: realtime\n    config: { key_template: "{id}" }\n'
const SETTLE_MS = 300_000

describe('a store that fails', () => {
  let folder: string
  let trouble: string
  let server: EmbeddedServer
  let source: pg.Client
  let runtime: RuntimeProcess
  let client: Client

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-failing-'))
    trouble = join(folder, 'trouble')
    const data = join(folder, 'data')
    await writeConfig()
    server = await startCopiedServer(join(folder, 'source'))
    const { host, port, user, password } = server.tcpAddress
    source = new pg.Client({ host, port, user, password, database: 'postgres' })
    await source.connect()
    await source.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
      INSERT INTO people SELECT i, i || '@example.com', 'city ' || i FROM generate_series(1, 20) i`)
    await placeTestCluster(data)
    runtime = await RuntimeProcess.spawn(data, null, 0, join(folder, 'sluice.yaml'))
    const url = await runtime.address()
    assert.ok(url, runtime.output)
    const admin = new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: 3600 }))
    await admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' })
    const who = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
    client = new Client(url, await issueToken(data, who, { ttlS: 3600 }))
    const login = JSON.stringify({ host, port, user, password, database: 'postgres', ssl_mode: 'prefer' })
    await ok(client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: login }))
    const product = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
    await ok(client.post('/api/v1/products', product))
    await ok(client.upload('/api/v1/products/people/manifests', manifests('public.people', { endpoints: ENDPOINTS })))
    await ok(client.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false }))
  })

  after(async () => {
    await runtime?.stop()
    await source?.end()
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  async function writeConfig(): Promise<void> {
    const plugins = ['@sluice/lookup/postgresql', '@sluice/analytics/duckdb', '@sluice/connectors/postgresql']
    const unreliable = join(import.meta.dirname, 'unreliable-realtime')
    const config = {
      plugins: [...plugins, unreliable],
      serving: {
        lookup: { driver: 'postgresql' },
        analytics: { driver: 'duckdb' },
        realtime: { driver: 'unreliable', settings: { trouble } },
      },
      allow_unproved: true,
    }
    await writeFile(join(folder, 'sluice.yaml'), JSON.stringify(config))
  }

  async function sync(): Promise<Json> {
    const { id } = await ok(client.post('/api/v1/connections/db/sync'))
    return client.untilEnded(id)
  }

  const product = () => ok(client.get('/api/v1/products/people'))
  const looked = (id: number) => client.get(`/api/v1/products/people/latest?filter=id:${id}`)
  const cached = (id: number) => client.get(`/api/v1/products/people/realtime?key=${id}`)

  async function untilDeployed(): Promise<void> {
    for (const deadline = Date.now() + SETTLE_MS; Date.now() < deadline; await sleep(200)) {
      if ((await product()).status === 'deployed') return
    }
    assert.fail(`the store was not brought up to date: ${JSON.stringify(await product())}`)
  }

  it('leaves the others served, and is tried again alone until it is well', async () => {
    await writeFile(trouble, 'transient')
    const run = await sync()
    assert.equal(run.state, 'succeeded')
    const [made] = run.products
    const error = { code: 'store_unavailable', message: 'the store is away' }
    assert.deepEqual(
      [made.name, made.epoch, made.current_epoch, made.behind, made.stores],
      [
        'crm.people',
        1,
        1,
        ['realtime'],
        [
          { endpoint: 'lookup', state: 'ok', epoch: 1, error: null },
          { endpoint: 'realtime', state: 'failed', epoch: null, error: { ...error, ...made.stores[1].error } },
        ],
      ],
    )
    assert.equal(made.stores[1].error.message, error.message)
    const logged =
      'crm.people: epoch 1 with 20 rows is published; realtime serves nothing yet, and is tried again: the store'
    assert.ok(
      run.log.some(({ message }: Json) => message.startsWith(logged)),
      JSON.stringify(run.log),
    )
    assert.equal((await product()).status, 'degraded')
    assert.equal((await looked(7)).body.data[0].city, 'city 7')
    assert.notEqual((await cached(7)).status, 200, 'what was never written is not answered')
    const epoch = (await looked(7)).body.meta.epoch
    await rm(trouble)
    await untilDeployed()
    assert.equal((await cached(7)).body.data[0].city, 'city 7')
    assert.equal((await looked(7)).body.meta.epoch, epoch, 'nothing was materialized again')
  })

  it('serves its former epoch, and says so, while it is behind', async () => {
    await writeFile(trouble, 'transient')
    await source.query(`UPDATE people SET city = 'moved' WHERE id = 7`)
    await sync()
    const [fresh, old] = [await looked(7), await cached(7)]
    assert.equal(fresh.body.data[0].city, 'moved')
    assert.equal(old.body.data[0].city, 'city 7')
    assert.equal(old.body.meta.epoch, fresh.body.meta.epoch - 1)
    await rm(trouble)
    await untilDeployed()
    assert.equal((await cached(7)).body.data[0].city, 'moved')
  })

  it('is named by the run while it is written, to who may read the product', async () => {
    await writeFile(trouble, 'held')
    const { id } = await ok(client.post('/api/v1/connections/db/sync'))
    const path = `/api/v1/ingestion/${id}`
    let run: Json
    await until('the stores are written', async () => {
      run = await ok(client.get(path))
      return run.progress?.stores.some(({ state }: Json) => state === 'ok')
    })
    const { product_id: _, ...progress } = run.progress
    assert.deepEqual(progress, {
      product: 'crm.people',
      phase: 'writing',
      epoch: 3,
      stores: [
        { endpoint: 'lookup', state: 'ok', epoch: 3, error: null },
        { endpoint: 'realtime', state: 'writing', epoch: 2, error: null },
      ],
    })
    assert.match(describeRun(run, null, Date.now()), /^running, writing crm\.people to realtime, /)
    await rm(trouble)
    const ended = await client.untilEnded(id)
    assert.deepEqual([ended.state, ended.progress], ['succeeded', null])
  })

  it('is given everything when it refuses the difference', async () => {
    await writeFile(trouble, 'conflict')
    await source.query(`DELETE FROM people WHERE id = 8; UPDATE people SET city = 'again' WHERE id = 9`)
    assert.equal((await sync()).state, 'succeeded')
    assert.equal((await product()).status, 'deployed')
    assert.equal((await cached(8)).status, 404)
    assert.equal((await cached(9)).body.data[0].city, 'again')
    await rm(trouble)
  })

  it('is not written twice when only its answer was lost', async () => {
    await writeFile(trouble, 'lost')
    await source.query(`UPDATE people SET city = 'once' WHERE id = 10`)
    await sync()
    assert.equal((await cached(10)).body.data[0].city, 'once', 'the write had been committed')
    await untilDeployed()
    assert.equal((await cached(10)).body.meta.epoch, (await looked(10)).body.meta.epoch)
  })

  it('gets no product under a name that it says it cannot hold', async () => {
    const name = 'people_2'
    const usual = manifests('public.people', { endpoints: ENDPOINTS })
    const files = { ...usual, product: usual.product.replace('name: people', `name: ${name}`) }
    await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
    await ok(client.upload(`/api/v1/products/${name}/manifests`, files))
    for (const dry_run of [true, false]) {
      const { status, body } = await client.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run })
      assert.deepEqual([status, body.code], [422, 'unusable_name'])
      assert.match(body.remedy, /\[a-z\]\+/)
    }
    assert.equal((await ok(client.get(`/api/v1/products/${name}`))).current_version, null)
  })
})
