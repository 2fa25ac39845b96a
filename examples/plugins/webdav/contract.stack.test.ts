/** The contract of object stores, at a real WebDAV server. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { BucketStore } from '@sluice/iceberg'
import { testObjectStore } from '@sluice/iceberg/object-store-contract'
import { WebdavBuckets } from './buckets.ts'

const bucket = `sluice-contract-${randomUUID().slice(0, 8)}`
let folder: string
let store: BucketStore

const open = (changes: { readonly password?: string; readonly url?: string } = {}) => {
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
  await store?.close()
  await rm(folder, { recursive: true, force: true })
})

testObjectStore(() => ({ store, bucket, largeBytes: 6_000_000 }))

test('a wrong password is the configuration’s fault, and is not tried again and again', async () => {
  const other = open({ password: 'wrong' })
  await assert.rejects(other.get(`${bucket}/x`), { kind: 'CONFIG', code: 'object_store_refused' })
  await other.close()
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

test('of those who may not replace a file one at a time moves it, whatever the server makes of two', async () => {
  const { href } = loginOf(process.env['SLUICE_TEST_WEBDAV_URL'] as string)
  const target = new URL(href)
  let [underWay, most] = [0, 0]
  /** Passes everything on; moves take their time. */
  const proxy = createServer(async (asked, answer) => {
    const { method, headers, url: path } = asked
    if (method === 'MOVE') {
      underWay += 1
      most = Math.max(most, underWay)
      await sleep(100)
    }
    const onward = request({ host: target.hostname, port: target.port, method, path, headers, agent: false }, (got) => {
      if (method === 'MOVE') underWay -= 1
      answer.writeHead(got.statusCode ?? 500, got.headers)
      got.pipe(answer)
    })
    asked.pipe(onward)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${target.pathname}`
  const slow = open({ url })
  const path = `${bucket}/raced`
  const puts = Array.from({ length: 4 }, (_, each) => slow.put(path, Buffer.from(`${each}`), { ifAbsent: true }))
  const outcomes = await Promise.allSettled(puts)
  proxy.close()
  assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected', 'rejected'])
  for (const one of outcomes) if (one.status === 'rejected') assert.equal(one.reason.code, 'object_exists')
  assert.equal(most, 1)
})
