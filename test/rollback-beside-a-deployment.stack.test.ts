/** A rollback that was judged while another version came into service: it is not made against what nobody has looked at. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { type Client, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
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

let folder: string
let data: string
let source: EmbeddedServer
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-beside-'))
  data = join(folder, 'data')
  source = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = source.tcpAddress
  const login = { host, port, user, password, database: 'postgres' }
  const client = new pg.Client(login)
  await client.connect()
  await client.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people VALUES (1, 'a@x.test', 'Ulm')`)
  await client.end()
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0)
  const place = { url: await servedAt(runtime), data }
  await makeTenant(await adminOf(place))
  developer = await personOf(place, 'dora')
  await connectSource(developer, login)
  await registerProduct(developer, 'people')
})
after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

const files = manifests('public.people')
const DEPLOYED = '/api/v1/products/people'

it('is refused, and what came into service stays', async () => {
  await uploadAndDeploy(developer, 'people', files)
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  const { run_id } = await uploadAndDeploy(developer, 'people', files, '1.1.0')
  assert.equal((await developer.untilEnded(run_id)).state, 'succeeded')
  await ok(developer.upload(`${DEPLOYED}/manifests`, files))
  const [deployed, rolledBack] = await withDatabase(data, 'sluice_registry', async (registry) => {
    await registry.query('begin')
    // As any other change of classes of the tenant has it: what is judged waits for it, each in its turn.
    await registry.query("select pg_advisory_xact_lock(hashtextextended('classes of acme', 0))")
    const waiting = async () => {
      const asking = "select from pg_locks where locktype = 'advisory' and not granted"
      return (await registry.query(asking)).rows.length
    }
    const deploy = developer.post(`${DEPLOYED}/deploy`, { version: '1.2.0', dry_run: false })
    await until('the deployment waits', async () => (await waiting()) === 1)
    const rollback = developer.post(`${DEPLOYED}/rollback`, { version: '1.0.0' })
    await until('the rollback waits', async () => (await waiting()) === 2)
    await registry.query('commit')
    return Promise.all([deploy, rollback])
  })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
  assert.deepEqual([rolledBack.status, rolledBack.body.code], [409, 'plan_changed'], JSON.stringify(rolledBack.body))
  assert.equal((await ok(developer.get(DEPLOYED))).current_version, '1.2.0')
  const again = await ok(developer.post(`${DEPLOYED}/rollback`, { version: '1.0.0' }))
  assert.equal((await developer.untilEnded(again.run_id)).state, 'succeeded', 'and is made where it is judged anew')
})

it('keeps what it brings back from being taken away until it is there', async () => {
  await registerProduct(developer, 'above')
  const own = (inputs: string) => ({
    ...files,
    product: files.product.replace('name: people', 'name: above').replace('source_aligned', 'consumer_aligned'),
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n  - { name: source, ${inputs} }\n`,
  })
  const made = async (version: string, inputs: string) => {
    const { run_id } = await uploadAndDeploy(developer, 'above', own(inputs), version)
    assert.equal((await developer.untilEnded(run_id)).state, 'succeeded')
  }
  // Masked for whoever deploys, as it is in its input.
  await made('1.0.0', 'product: crm.people')
  await made('2.0.0', 'connection: db, table: public.people, mode: full')
  const { id: above } = await ok(developer.get('/api/v1/products/above'))
  await withDatabase(data, 'sluice_registry', async (registry) => {
    // As a run that makes it has it: the rollback's waits.
    await registry.query('select pg_advisory_lock(hashtextextended($1, 7))', [above])
    const back = await ok(developer.post('/api/v1/products/above/rollback', { version: '1.0.0' }))
    const gone = await developer.send(DEPLOYED, { method: 'DELETE' })
    assert.deepEqual([gone.status, gone.body.code, gone.body.products], [409, 'product_in_use', ['crm.above']])
    await ok(
      developer.upload(`${DEPLOYED}/manifests`, {
        ...own('product: crm.above'),
        product: files.product.replace('source_aligned', 'consumer_aligned'),
      }),
    )
    const circle = await developer.post(`${DEPLOYED}/deploy`, { version: '2.0.0', dry_run: false })
    assert.equal(circle.body.code, 'product_cycle', JSON.stringify(circle.body))
    await registry.query('select pg_advisory_unlock_all()')
    assert.equal((await developer.untilEnded(back.run_id)).state, 'succeeded')
  })
  const resumed = await ok(developer.post('/api/v1/products/above/resume'))
  assert.equal((await developer.untilEnded(resumed.id)).state, 'succeeded')
  assert.equal((await ok(developer.get('/api/v1/products/above'))).current_version, '1.0.0')
})
