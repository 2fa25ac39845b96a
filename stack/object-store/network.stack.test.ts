/** The lake's S3 client behind a network that loses, repeats, cuts and garbles; the server behind it is any. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { BucketStore } from '@sluice/iceberg'
import { PART_BYTES, startTestS3, type TestS3 } from '../../plugins/object-store/s3/store.fixture.ts'
import { withLimits } from '../../test/until.ts'
import { FAULTS, type Fault, type FaultyProxy, startFaultyProxy } from './faulty-proxy.fixture.ts'

let s3: TestS3
let proxy: FaultyProxy

before(async () => {
  s3 = await startTestS3()
  proxy = await startFaultyProxy(s3.url)
})
after(async () => {
  await proxy?.[Symbol.asyncDispose]()
  await s3?.[Symbol.asyncDispose]()
})

describe('behind a network that spoils requests', () => {
  const bucket = `sluice-faulty-${randomUUID().slice(0, 8)}`
  let direct: BucketStore
  let store: BucketStore
  before(async () => {
    direct = s3.open()
    // Signed for the server, sent through the proxy: it passes the host's name on.
    store = s3.open({ endpoint: proxy.url, attemptMs: 1_000, deadlineMs: 300_000 })
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
      // What is sent again and again has to arrive within one attempt, on whichever machine.
      await withLimits([1_000, 10_000, 60_000], async (attemptMs) => {
        const patient = s3.open({ endpoint: proxy.url, attemptMs, deadlineMs: 300_000 })
        spoilEverySecond(fault)
        const release = await patient.cache.hold([patient.localPath(path)], AbortSignal.timeout(600_000))
        proxy.spoil = () => null
        assert.ok(body.equals(await readFile(patient.localPath(path))))
        assert.deepEqual(await draftsBeside(patient.localPath(path)), [])
        await release()
      })
    })
  }

  test('a copy takes longer than an attempt may, as long as bytes come', async () => {
    const [path, body] = [`${bucket}/slow`, randomBytes(PART_BYTES)]
    await direct.put(path, body)
    // The way takes twice the time of all attempts.
    await withLimits([150, 1_500, 10_000], async (pieceMs) => {
      const hasty = s3.open({ endpoint: proxy.url, attemptMs: 4 * pieceMs, deadlineMs: 6 * pieceMs })
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
    const hasty = s3.open({ endpoint: proxy.url, attemptMs: 1_000, deadlineMs: 2_000 })
    const file = hasty.localPath(path)
    await assert.rejects(hasty.cache.hold([file], AbortSignal.timeout(600_000)), { code: 'object_store_unavailable' })
    proxy.spoil = () => null
    assert.deepEqual(await readdir(dirname(file)), [])
  })

  test('a store that never answers is given up in time, with an error that may be tried again', async () => {
    const hasty = s3.open({ endpoint: proxy.url, attemptMs: 200, deadlineMs: 700 })
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
