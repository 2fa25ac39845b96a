import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { withLimits } from '../../../test/until.ts'
import { FAULTS, type Fault, type FaultyProxy, startFaultyProxy } from './faulty-proxy.fixture.ts'
import { testObjectStore } from './object-store.contract.fixture.ts'
import { S3Store, type S3StoreOptions } from './s3-store.ts'

const PART_BYTES = 5 * 1024 * 1024

let dir: string
let proxy: FaultyProxy
const opened: S3Store[] = []

function openStore(changes: Partial<S3StoreOptions> = {}): S3Store {
  const store = new S3Store({
    endpoint: process.env['SLUICE_TEST_S3_URL'] as string,
    region: 'us-east-1',
    accessKeyId: process.env['SLUICE_TEST_S3_KEY'] as string,
    secretAccessKey: process.env['SLUICE_TEST_S3_SECRET'] as string,
    pathStyle: true,
    deadlineMs: 300_000,
    attemptMs: 60_000,
    partBytes: PART_BYTES,
    cacheDir: join(dir, randomUUID()),
    maxCacheBytes: 100_000_000,
    ...changes,
  })
  opened.push(store)
  return store
}

before(async () => {
  assert.ok(process.env['SLUICE_TEST_S3_URL'], 'SLUICE_TEST_S3_URL names the server; npm run test:stack starts one')
  dir = await mkdtemp(join(tmpdir(), 'sluice-s3-'))
  proxy = await startFaultyProxy(process.env['SLUICE_TEST_S3_URL'])
})
after(async () => {
  for (const store of opened) store.close()
  await proxy[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

describe('the contract of object stores', () => {
  const bucket = `sluice-contract-${randomUUID().slice(0, 8)}`
  let store: S3Store
  before(async () => {
    store = openStore()
    await store.ensureBucket(bucket)
  })
  after(() => store.dropBucket(bucket))
  testObjectStore(() => ({ store, bucket, largeBytes: PART_BYTES + 1_000_000 }))
})

describe('behind a network that spoils requests', () => {
  const bucket = `sluice-faulty-${randomUUID().slice(0, 8)}`
  let direct: S3Store
  let store: S3Store
  before(async () => {
    direct = openStore()
    // Signed for the server, sent through the proxy: it passes the host's name on.
    store = openStore({ endpoint: proxy.url, attemptMs: 1_000, deadlineMs: 300_000 })
    await direct.ensureBucket(bucket)
  })
  after(() => direct.dropBucket(bucket))

  for (const fault of FAULTS) {
    test(`${fault}: writing and reading end as if nothing had been`, async () => {
      for (const size of [1_000, PART_BYTES + 500_000]) {
        const [path, body] = [`${bucket}/${fault}-${size}`, randomBytes(size)]
        spoilEverySecond(fault)
        await store.put(path, body, { ifAbsent: true })
        const read = await store.get(path, { sizeBytes: size })
        const listed = await Array.fromAsync(store.list(bucket))
        proxy.spoil = () => null
        assert.ok(body.equals(Buffer.from(read)))
        assert.ok(body.equals(Buffer.from(await direct.get(path))), 'what is there is what was written')
        assert.ok(listed.some((found) => found.path === path))
        assert.ok(proxy.seen.some((one) => one.fault === fault))
        await assert.rejects(store.put(path, body, { ifAbsent: true }), { code: 'object_exists' })
      }
    })
  }

  for (const fault of FAULTS) {
    test(`${fault}: a copy for an engine is whole in the end`, async () => {
      const [path, body] = [`${bucket}/copy-${fault}`, randomBytes(2 * PART_BYTES)]
      await direct.put(path, body)
      spoilEverySecond(fault)
      const release = await store.cache.hold([store.localPath(path)], AbortSignal.timeout(600_000))
      proxy.spoil = () => null
      assert.ok(body.equals(await readFile(store.localPath(path))))
      assert.deepEqual(await draftsBeside(store.localPath(path)), [])
      await release()
    })
  }

  test('a copy takes longer than an attempt may, as long as bytes come', async () => {
    const [path, body] = [`${bucket}/slow`, randomBytes(PART_BYTES)]
    await direct.put(path, body)
    // The way takes twice the time of all attempts.
    await withLimits([150, 1_500, 10_000], async (pieceMs) => {
      const hasty = openStore({ endpoint: proxy.url, attemptMs: 4 * pieceMs, deadlineMs: 6 * pieceMs })
      proxy.seen.length = 0
      proxy.slowPieceMs = pieceMs
      proxy.spoil = ({ method }) => (method === 'GET' ? 'slow' : null)
      const release = await hasty.cache.hold([hasty.localPath(path)], AbortSignal.timeout(600_000))
      proxy.spoil = () => null
      assert.ok(body.equals(await readFile(hasty.localPath(path))))
      assert.equal(proxy.seen.filter(({ fault }) => fault === 'slow').length, 1)
      await release()
    })
  })

  test('a copy whose every way is cut goes on where it ended', async () => {
    const [path, body] = [`${bucket}/cut-again`, randomBytes(PART_BYTES)]
    await direct.put(path, body)
    proxy.spoil = ({ method }) => (method === 'GET' ? 'cut' : null)
    // Half of what is left comes each time, the last byte uncut.
    const release = await store.cache.hold([store.localPath(path)], AbortSignal.timeout(600_000))
    proxy.spoil = () => null
    assert.ok(body.equals(await readFile(store.localPath(path))))
    await release()
  })

  test('a copy of bytes that nobody wrote is not kept, and is given up', async () => {
    const path = `${bucket}/garbled-again`
    await direct.put(path, randomBytes(1_000))
    proxy.spoil = ({ method }) => (method === 'GET' ? 'garbled' : null)
    const hasty = openStore({ endpoint: proxy.url, attemptMs: 1_000, deadlineMs: 2_000 })
    const file = hasty.localPath(path)
    await assert.rejects(hasty.cache.hold([file], AbortSignal.timeout(600_000)), { code: 'object_store_unavailable' })
    proxy.spoil = () => null
    assert.deepEqual(await readdir(dirname(file)), [])
  })

  test('a store that never answers is given up in time, with an error that may be tried again', async () => {
    const hasty = openStore({ endpoint: proxy.url, attemptMs: 200, deadlineMs: 700 })
    proxy.spoil = () => 'late'
    await assert.rejects(hasty.put(`${bucket}/never`, Buffer.from('x')), {
      kind: 'TRANSIENT',
      code: 'object_store_unavailable',
    })
    proxy.spoil = () => null
  })

  test('a signal ends waiting', async () => {
    proxy.spoil = () => 'error'
    const signal = AbortSignal.timeout(300)
    await assert.rejects(store.get(`${bucket}/late-1000`, { signal }), { name: 'TimeoutError' })
    proxy.spoil = () => null
  })

  async function draftsBeside(file: string): Promise<readonly string[]> {
    return (await readdir(dirname(file))).filter((name) => name.endsWith('.draft'))
  }

  /** The first try of each request is spoiled and the next one let through. */
  function spoilEverySecond(fault: Fault): void {
    const tried = new Map<string, number>()
    proxy.seen.length = 0
    proxy.spoil = ({ method, url }) => {
      const key = `${method} ${url}`
      const count = (tried.get(key) ?? 0) + 1
      tried.set(key, count)
      return count % 2 === 1 ? fault : null
    }
  }
})

test('a wrong key is the configuration’s fault, and is not tried again and again', async () => {
  const store = openStore({ secretAccessKey: 'wrong' })
  await assert.rejects(store.get('sluice-nobody/x'), { kind: 'CONFIG', code: 'object_store_refused' })
})

describe('copies for engines', () => {
  const bucket = `sluice-copies-${randomUUID().slice(0, 8)}`
  let store: S3Store
  before(async () => {
    store = openStore({ maxCacheBytes: 2_500 })
    await store.ensureBucket(bucket)
  })
  after(() => store.dropBucket(bucket))
  const signal = () => AbortSignal.timeout(600_000)
  const isThere = (path: string) =>
    stat(store.localPath(path)).then(
      () => true,
      () => false,
    )

  test('are fetched once, kept while they are held, and go when there are too many', async () => {
    const paths = ['a', 'b', 'c'].map((name) => `${bucket}/${name}`)
    for (const path of paths) await store.put(path, randomBytes(1_000))
    const [a, b, c] = paths as [string, string, string]
    const held = await store.cache.hold([store.localPath(a)], signal())
    assert.equal((await readFile(store.localPath(a))).length, 1_000)
    for (const path of [b, c]) await (await store.cache.hold([store.localPath(path)], signal()))()
    await held()
    await (await store.cache.hold([store.localPath(c)], signal()))()
    const kept = await Promise.all(paths.map(isThere))
    assert.ok(kept.filter(Boolean).length <= 2)
    assert.ok(await isThere(c))
  })

  test('of a missing object there is none, and the error says so', async () => {
    const file = store.localPath(`${bucket}/nothing`)
    await assert.rejects(store.cache.hold([file], signal()), { code: 'object_missing' })
  })

  test('an adopted file is its own copy', async () => {
    const workspace = await store.workspace()
    await writeFile(join(workspace.dir, 'x'), 'rows')
    await store.adopt(join(workspace.dir, 'x'), `${bucket}/adopted`)
    assert.ok(await isThere(`${bucket}/adopted`))
    await workspace.dispose()
  })
})
