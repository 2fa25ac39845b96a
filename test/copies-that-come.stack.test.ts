/**
 * A copy that a store lacked and that another runtime has written: nobody tells the others, since they are told of epochs
 * alone, and their readers get its rows from then on all the same. And one that has a later epoch than the registry says.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { Client as Source } from 'pg'
import { type Client, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { lostCopy } from '../runtime/src/registry/endpoint-states.ts'
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
let server: EmbeddedServer
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-come-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  const source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people (id int PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'a' || i || '@c.test', 'here' FROM generate_series(1, 5) i`)
  await source.end()
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null)
  const url = await servedAt(runtime)
  const admin = await adminOf({ url, data })
  developer = await personOf({ url, data }, 'dora')
  await makeTenant(admin)
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
  await uploadAndDeploy(developer, 'people', manifests('public.people'))
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
})

after(async () => {
  await runtime?.stop()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

const read = () => developer.get('/api/v1/products/people/latest?filter=id:3')
/** What the other runtime writes down of the twin, which the developer reads; the copy in clear is as it was. */
const note = (change: string) =>
  withDatabase(data, 'sluice_registry', (registry: pg.Client) =>
    registry.query(`update endpoint_states set updated_at = now(), ${change}
      where endpoint = 'lookup' and variant <> 'clear'`),
  )

for (const [what, error] of [
  ['is being built anew', `'${JSON.stringify(lostCopy('emptied'))}'`],
  ['is yet to be written', 'null'],
] as const) {
  test(`a copy that ${what} is read as soon as it is said to be there`, async () => {
    await until('it is read', async () => (await read()).status === 200)
    const { body } = await developer.get('/api/v1/products/people')
    const epoch = Number(body.last_materialization.epoch)
    await note(`state = 'pending', applied_epoch = null, next_retry_at = now() + interval '1 hour', error = ${error}`)
    await until('it is known to be missing', async () => (await read()).status !== 200)
    await note(`state = 'ok', applied_epoch = ${epoch}, next_retry_at = null, error = null`)
    const found = await read()
    assert.equal(found.status, 200, JSON.stringify(found.body))
  })
}

test('a copy of a later epoch than the registry says is told of by the version that made it', async () => {
  const files = manifests('public.people')
  const later = { ...files, product: `${files.product}description: later\n` }
  const { run_id: run } = await uploadAndDeploy(developer, 'people', later, '1.1.0')
  assert.equal((await developer.untilEnded(run)).state, 'succeeded')
  await until('it is read', async () => (await read()).body.meta?.version === '1.1.0')
  const { meta } = (await read()).body
  await note(`applied_epoch = ${meta.epoch - 1}`)
  // Whatever changes rights has the product loaded anew.
  await ok(developer.post('/api/v1/products/people/grants', { subject: { user: 'vito' }, may: 'read' }))
  const found = await read()
  assert.deepEqual(found.body.meta, meta, JSON.stringify(found.body))
})
