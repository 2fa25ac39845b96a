/** What tests of a real S3 store share: stores on the server that `SLUICE_TEST_S3_URL` names, closed at the end. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BucketStore } from '@sluice/iceberg'
import { S3Buckets, type S3BucketsOptions } from './buckets.ts'

/** The smallest part that S3 takes of an upload in parts. */
export const PART_BYTES = 5 * 1024 * 1024

export interface TestS3 extends AsyncDisposable {
  readonly url: string
  open(changes?: Partial<S3BucketsOptions> & { readonly maxCacheBytes?: number }): BucketStore
}

export async function startTestS3(): Promise<TestS3> {
  const url = process.env['SLUICE_TEST_S3_URL']
  assert.ok(url, 'SLUICE_TEST_S3_URL names the server; npm run test:stack starts one')
  const dir = await mkdtemp(join(tmpdir(), 'sluice-s3-'))
  const opened: BucketStore[] = []
  return {
    url,
    open({ maxCacheBytes = 100_000_000, ...changes } = {}) {
      const buckets = new S3Buckets({
        endpoint: url,
        region: 'us-east-1',
        accessKeyId: process.env['SLUICE_TEST_S3_KEY'] as string,
        secretAccessKey: process.env['SLUICE_TEST_S3_SECRET'] as string,
        pathStyle: true,
        deadlineMs: 300_000,
        attemptMs: 60_000,
        partBytes: PART_BYTES,
        ...changes,
      })
      const store = new BucketStore({ buckets, cacheDir: join(dir, randomUUID()), maxCacheBytes })
      opened.push(store)
      return store
    },
    async [Symbol.asyncDispose]() {
      for (const store of opened) await store.close()
      await rm(dir, { recursive: true, force: true })
    },
  }
}
