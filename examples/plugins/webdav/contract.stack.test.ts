/** The contract of object stores, at a real WebDAV server. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { BucketStore } from '@sluice/iceberg'
import { testObjectStore } from '@sluice/iceberg/object-store-contract'
import { WebdavBuckets } from './buckets.ts'

const bucket = `sluice-contract-${randomUUID().slice(0, 8)}`
let folder: string
let store: BucketStore

const open = (changes: { readonly password?: string } = {}) => {
  const url = process.env['SLUICE_TEST_WEBDAV_URL']
  assert.ok(url, 'SLUICE_TEST_WEBDAV_URL names the server; npm run test:stack starts one')
  const { username, password, href } = loginOf(url)
  const settings = { url: href, username, password, deadline_ms: 60_000, attempt_ms: 30_000, ...changes }
  return new BucketStore({
    buckets: new WebdavBuckets(settings),
    cacheDir: join(folder, randomUUID()),
    maxCacheBytes: 1e8,
  })
}

function loginOf(text: string) {
  const url = new URL(text)
  const { username, password } = url
  url.username = ''
  url.password = ''
  return { username, password, href: url.href }
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-webdav-'))
  store = open()
  await store.ensureBucket(bucket)
})
after(async () => {
  await store?.dropBucket(bucket)
  store?.close()
  await rm(folder, { recursive: true, force: true })
})

testObjectStore(() => ({ store, bucket, largeBytes: 6_000_000 }))

test('a wrong password is the configuration’s fault, and is not tried again and again', async () => {
  const other = open({ password: 'wrong' })
  await assert.rejects(other.get(`${bucket}/x`), { kind: 'CONFIG', code: 'object_store_refused' })
  other.close()
})

test('buckets are listed, and nothing beside', async () => {
  assert.ok((await store.buckets()).includes(bucket))
  await assert.rejects(store.put(`${bucket}-none/x`, Buffer.from('x')), { code: 'object_missing' })
})

test('an engine has a copy, byte for byte', async () => {
  const [path, body] = [`${bucket}/copied/ä b%20.parquet`, randomBytes(3_000_000)]
  await store.put(path, body)
  const release = await store.cache.hold([store.localPath(path)], AbortSignal.timeout(600_000))
  assert.ok(body.equals(await readFile(store.localPath(path))))
  await release()
})
