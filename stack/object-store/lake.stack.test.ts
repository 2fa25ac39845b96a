/** The lake over S3: everything that engines read and write goes by this machine's copies. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { BucketStore, Lake, StoreCatalog, type TableRef, withObjects } from '@sluice/iceberg'
import { commitStep, LIMITS, publish, readScan, startTestLake, type TestLake } from '@sluice/iceberg/testing'
import { S3Buckets } from '@sluice/object-store/s3/buckets'
import type { TableSchema } from '@sluice/sdk'
import { FAULTS, type FaultyProxy, startFaultyProxy } from './faulty-proxy.fixture.ts'

let base: TestLake
let proxy: FaultyProxy
let store: BucketStore
let test3: TestLake
const warehouse = `sluice-${randomUUID().slice(0, 8)}`
const newRef = (): TableRef => ({ warehouse, namespace: 'far', table: `t_${randomUUID().slice(0, 8)}` })
const signal = () => AbortSignal.timeout(600_000)
const SCHEMA: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] }
const append = (id: number) => ({ operation: 'append', schema: SCHEMA, select: `SELECT ${id} AS id` }) as const

const openStore = (folder: string, limits: { readonly deadlineMs: number; readonly attemptMs: number }) =>
  new BucketStore({
    buckets: new S3Buckets({
      endpoint: proxy.url,
      region: 'us-east-1',
      accessKeyId: process.env['SLUICE_TEST_S3_KEY'] as string,
      secretAccessKey: process.env['SLUICE_TEST_S3_SECRET'] as string,
      pathStyle: true,
      ...limits,
    }),
    cacheDir: join(base.dir, folder),
    maxCacheBytes: 100_000_000,
  })

before(async () => {
  assert.ok(process.env['SLUICE_TEST_S3_URL'], 'SLUICE_TEST_S3_URL names the server; npm run test:stack starts one')
  base = await startTestLake()
  proxy = await startFaultyProxy(process.env['SLUICE_TEST_S3_URL'])
  store = openStore('copies', { deadlineMs: 300_000, attemptMs: 1_000 })
  const engine = withObjects(base.engine, store.cache)
  const catalog = new StoreCatalog(store)
  const lake = new Lake({ store, catalog, engine })
  test3 = { ...base, lake, catalog, engine, publish: (staged) => lake.publish(catalog, staged) }
  await lake.provision(warehouse)
})
after(async () => {
  await test3.lake.drop(warehouse)
  await store.close()
  await proxy[Symbol.asyncDispose]()
  await base[Symbol.asyncDispose]()
})

test('commits, past snapshots, compaction, expiry and cleaning', async () => {
  const ref = newRef()
  const first = await commitStep(test3, ref, append(1))
  for (let id = 2; id <= 4; id += 1) await commitStep(test3, ref, append(id))
  await rm(join(base.dir, 'copies', 'objects'), { recursive: true, force: true })
  assert.deepEqual(await readScan(test3, await test3.lake.scan(ref)), [[1], [2], [3], [4]])
  assert.deepEqual(await readScan(test3, await test3.lake.scan(ref, { snapshotId: first.snapshotId as string })), [[1]])
  const compacted = await test3.lake.stageCompaction(ref, { minFiles: 2, limits: LIMITS }, signal())
  assert.ok(compacted)
  await publish(test3, compacted)
  const scan = await test3.lake.scan(ref)
  assert.equal(scan.files.length, 1)
  assert.match(scan.files[0]?.uri ?? '', new RegExp(`^s3://${warehouse}/tables/far/${ref.table}/data/`))
  assert.deepEqual(await readScan(test3, scan), [[1], [2], [3], [4]])
  assert.deepEqual(await test3.lake.check(ref, signal()), [])
  await store.remove(scan.files[0]?.path as string)
  const [problem] = await test3.lake.check(ref, signal())
  assert.deepEqual([problem?.kind, problem?.code], ['data_file', 'object_missing'])
})

for (const fault of FAULTS) {
  test(`a network whose first tries are ${fault} changes nothing`, async () => {
    const ref = newRef()
    const tried = new Map<string, number>()
    proxy.spoil = ({ method, url }) => {
      const count = (tried.get(`${method} ${url}`) ?? 0) + 1
      tried.set(`${method} ${url}`, count)
      return count % 2 === 1 ? fault : null
    }
    await commitStep(test3, ref, append(1))
    await commitStep(test3, ref, append(2))
    await rm(join(base.dir, 'copies', 'objects'), { recursive: true, force: true })
    assert.deepEqual(await readScan(test3, await test3.lake.scan(ref)), [[1], [2]])
    proxy.spoil = () => null
    assert.deepEqual(await test3.lake.check(ref, signal()), [])
  })
}

test('a store that is away: the old state stays, the write fails, and the next one is well', async () => {
  const ref = newRef()
  await commitStep(test3, ref, append(1))
  const hasty = openStore('hasty', { deadlineMs: 1_000, attemptMs: 300 })
  const away: TestLake = {
    ...test3,
    lake: new Lake({ store: hasty, catalog: new StoreCatalog(hasty), engine: test3.engine }),
  }
  proxy.spoil = ({ method }) => (method === 'PUT' ? 'error' : null)
  await assert.rejects(commitStep(away, ref, append(2)), { kind: 'TRANSIENT', code: 'object_store_unavailable' })
  proxy.spoil = () => null
  await hasty.close()
  assert.deepEqual(await readScan(test3, await test3.lake.scan(ref)), [[1]])
  await commitStep(test3, ref, append(3))
  assert.deepEqual(await readScan(test3, await test3.lake.scan(ref)), [[1], [3]])
})
