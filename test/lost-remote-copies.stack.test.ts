/**
 * What happens to values in Redis, with the lake in S3, behind a runtime's back: emptied, an older copy put back, another
 * product's. Readers get the right values or none, and the lake makes all of it whole again.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import pg from 'pg'
import { type Answer, Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import type { StackServer } from '../stack/server.ts'
import valkey from '../stack/servers/valkey.ts'
import { addressOf, startVersitygw } from '../stack/servers/versitygw.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ENDPOINTS = `  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: city, type: string }
`
/** As long as a product that was loaded is kept, and a little more for a slow machine. */
const LOADED_FOR_MS = 30_000
const LOGIN = { key: 'sluice', secret: 'for-tests-alone' }

let folder: string
let data: string
let configFile: string
let server: EmbeddedServer
let values: StackServer
let objects: Awaited<ReturnType<typeof startVersitygw>>
let redis: Redis
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let developer: Client
const kept = new Map<string, readonly (readonly [Buffer, number, Buffer])[]>()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lost-remote-'))
  data = join(folder, 'data')
  configFile = join(folder, 'sluice.yaml')
  server = await startCopiedServer(join(folder, 'source'))
  values = await valkey.start(join(folder, 'values'))
  redis = new Redis(values.env['SLUICE_TEST_REDIS_URL'] as string)
  const login = { ...LOGIN, port: await freePort() }
  objects = await startVersitygw(join(folder, 'objects'), login)
  const address = new URL(values.env['SLUICE_TEST_REDIS_URL'] as string)
  const password = address.password
  address.password = ''
  const config = {
    plugins: [
      'lookup/postgresql',
      'timeseries/postgresql',
      'analytics/duckdb',
      'realtime/redis',
      'connectors/postgresql',
    ].map((name) => `@sluice/${name}`),
    serving: {
      ...{ lookup: { driver: 'postgresql' }, timeseries: { driver: 'postgresql' }, analytics: { driver: 'duckdb' } },
      realtime: { driver: 'redis', settings: { url: address.href, password } },
    },
    object_store: {
      type: 's3',
      endpoint: addressOf(login).SLUICE_TEST_S3_URL,
      access_key_id: login.key,
      secret_access_key: login.secret,
    },
  }
  await writeFile(configFile, JSON.stringify(config))
  source = new pg.Client({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, 'foreign' AS city FROM generate_series(1, 20) i;
    ALTER TABLE people ADD PRIMARY KEY (id)`)
  await start()
  const admin = await adminOf({ url, data })
  await makeTenant(admin)
  await connectSource(developer, server.tcpAddress)
  // Epoch 1 of a product that has the same name, and is another one.
  await makeProduct()
  await keep('foreign')
  await ok(developer.send('/api/v1/products/people', { method: 'DELETE' }))
  await source.query(`UPDATE people SET city = 'older'`)
  await makeProduct()
  await keep('older')
  await source.query(`UPDATE people SET city = 'right'`)
  await sync()
  await until('the first reads are right', async () => cityOf(await value()) === 'right')
})

after(async () => {
  await runtime?.stop()
  redis?.disconnect()
  await values?.stop()
  await objects?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, configFile)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
}

async function makeProduct(): Promise<void> {
  await registerProduct(developer, 'people')
  const files = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
  await ok(developer.upload('/api/v1/products/people/manifests', files))
  const deployed = await ok(developer.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false }))
  if (deployed.run_id) await developer.untilEnded(deployed.run_id)
  await sync()
}

async function sync(): Promise<Json> {
  const run = await developer.untilEnded((await ok(developer.post('/api/v1/connections/db/sync'))).id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return run
}

const value = () => developer.get('/api/v1/products/people/realtime?key=7')

/** All keys as a snapshot of the server has them. */
async function keep(name: string): Promise<void> {
  await until('there are values', async () => (await value()).status === 200)
  const keys = await redis.keysBuffer('*')
  const all = keys.map(async (key) => [key, Math.max(0, await redis.pttl(key)), await redis.dumpBuffer(key)] as const)
  kept.set(name, (await Promise.all(all)) as readonly (readonly [Buffer, number, Buffer])[])
}

async function putBack(name: string): Promise<void> {
  await redis.flushall()
  for (const [key, ttlMs, dump] of kept.get(name) ?? []) await redis.restore(key, ttlMs, dump)
}

const cityOf = ({ status, body }: Answer) =>
  status === 200 ? (/foreign|older|right/.exec(JSON.stringify(body.data ?? body.rows))?.[0] ?? 'nothing') : null

async function untilRight(wrongForMs = 0): Promise<ReadonlySet<string>> {
  const refused = new Set<string>()
  const wrongUntilMs = performance.now() + wrongForMs
  await until('values are right again', async () => {
    const answer = await value()
    if (answer.status === 200 && cityOf(answer) !== 'right' && performance.now() < wrongUntilMs) return false
    if (answer.status === 200) assert.equal(cityOf(answer), 'right', JSON.stringify(answer.body))
    else assert.equal(answer.status, 503, JSON.stringify(answer.body))
    if (answer.status !== 200) refused.add(answer.body.code)
    return answer.status === 200
  })
  const product = await ok(developer.get('/api/v1/products/people'))
  assert.deepEqual(
    [product.status, ...product.endpoints.map((one: Json) => one.state)],
    ['deployed', ...Array(2).fill('ok')],
  )
  return refused
}

describe('a lake in S3 whose registry was lost', () => {
  it('is told of, and left as it is', async () => {
    const bucket = join(folder, 'objects/objects/sluice-acme')
    const before = await readdir(bucket, { recursive: true })
    assert.ok(before.length > 0)
    const other = join(folder, 'other')
    const started = await RuntimeProcess.spawn(other, null, 0, configFile)
    try {
      const address = (await started.address()) as string
      assert.ok(address, started.output)
      const lakeOf = async () =>
        ((await (await fetch(`${address}/readyz`)).json()) as Json).checks.find((one: Json) => one.name === 'lake')
      await until('readiness says it', async () => (await lakeOf()).unknown_buckets === 1)
      assert.match(started.output, /put back the registry[^]*the registry has never had a tenant; they are left alone/)
      const admin = new Client(address, await issueToken(other, { role: 'admin' }, { ttlS: 3600 }))
      const tenant = { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }
      const refused = await admin.post('/api/v1/tenants', tenant)
      assert.deepEqual([refused.status, refused.body.code], [409, 'lake_foreign'], JSON.stringify(refused.body))
      assert.equal((await admin.get('/api/v1/tenants/acme')).body.status, 'failed')
      assert.equal((await admin.send('/api/v1/tenants/acme?confirm=acme', { method: 'DELETE' })).status, 204)
    } finally {
      await started.stop()
    }
    assert.deepEqual(await readdir(bucket, { recursive: true }), before)
  })
})

describe('values in Redis', () => {
  for (const what of ['emptied', 'older', 'foreign']) {
    it(`${what} before a start`, async () => {
      await runtime.stop()
      await putBack(what)
      await start()
      await untilRight()
    })

    it(`${what} while the runtime runs`, async () => {
      await putBack(what)
      await untilRight(LOADED_FOR_MS)
    })
  }
})
