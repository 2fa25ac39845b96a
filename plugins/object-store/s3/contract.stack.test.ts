/** What every S3 server must give the lake: run against each that is deployed or tested with. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { BucketStore } from '@sluice/iceberg'
import { testObjectStore } from '@sluice/iceberg/object-store-contract'
import { PART_BYTES, startTestS3, type TestS3 } from './store.fixture.ts'

let s3: TestS3

before(async () => {
  s3 = await startTestS3()
})
after(() => s3?.[Symbol.asyncDispose]())

describe('the contract of object stores', () => {
  const bucket = `sluice-contract-${randomUUID().slice(0, 8)}`
  let store: BucketStore
  before(async () => {
    store = s3.open()
    await store.ensureBucket(bucket)
  })
  after(() => store.dropBucket(bucket))
  testObjectStore(() => ({ store, bucket, largeBytes: PART_BYTES + 1_000_000 }))
})

test('a wrong key is the configuration’s fault, and is not tried again and again', async () => {
  const store = s3.open({ secretAccessKey: 'wrong' })
  await assert.rejects(store.get('sluice-nobody/x'), { kind: 'CONFIG', code: 'object_store_refused' })
})

describe('copies for engines', () => {
  const bucket = `sluice-copies-${randomUUID().slice(0, 8)}`
  let store: BucketStore
  before(async () => {
    store = s3.open({ maxCacheBytes: 2_500 })
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
    const workspace = await store.workspace(bucket)
    await writeFile(join(workspace.dir, 'x'), 'rows')
    await store.adopt(join(workspace.dir, 'x'), `${bucket}/adopted`)
    assert.ok(await isThere(`${bucket}/adopted`))
    await workspace.dispose()
  })
})
