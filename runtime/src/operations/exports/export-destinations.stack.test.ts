/** Destinations of exports at a real S3-compatible store. */
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { BucketStore } from '@sluice/iceberg'
import { S3Buckets } from '@sluice/object-store/s3/buckets'
import { SluiceError } from '@sluice/sdk'
import { Registry } from 'prom-client'
import { type OpenedDestinations, openDestinations } from '../../assembly/object-stores.ts'
import { servicesOf } from '../../assembly/plugin-host.ts'
import { loadConfig } from '../../config.ts'
import { PluginMetrics } from '../../plugins/plugin-metrics.ts'
import { ExportDestinations } from './export-destinations.ts'

const { SLUICE_TEST_S3_URL: url, SLUICE_TEST_S3_KEY: key, SLUICE_TEST_S3_SECRET: secret } = process.env
const BUCKET = `sluice-exports-${randomUUID().slice(0, 8)}`
const { signal } = new AbortController()
/** In one piece, in several of an upload in parts, and just at the end of one. */
const LENGTHS = [0, 1, 16 * 1024 * 1024, 33 * 1024 * 1024 + 7]

let folder: string
let store: BucketStore
const opened: OpenedDestinations[] = []

before(async () => {
  assert.ok(url && key && secret, 'SLUICE_TEST_S3_URL names the server; npm run test:stack starts one')
  folder = await mkdtemp(join(tmpdir(), 'sluice-destinations-'))
  const buckets = new S3Buckets({
    ...{ endpoint: url, region: 'us-east-1', accessKeyId: key, secretAccessKey: secret, pathStyle: true },
    ...{ deadlineMs: 60_000, attemptMs: 30_000 },
  })
  store = new BucketStore({ buckets, cacheDir: join(folder, 'reader'), maxCacheBytes: 1e8 })
  await store.ensureBucket(BUCKET)
})
after(async () => {
  for (const one of opened) await one.close()
  await store?.dropBucket(BUCKET)
  await store?.close()
  await rm(folder, { recursive: true, force: true })
})

/** As a runtime has them that was configured so. */
async function destinationsWith(all: Readonly<Record<string, Readonly<Record<string, string>>>>) {
  const environment = Object.fromEntries(
    Object.entries(all).flatMap(([name, changes]) =>
      Object.entries({
        ...{ endpoint: String(url), access_key_id: String(key), secret_access_key: String(secret) },
        ...{ bucket: BUCKET, prefix: 'a/b', tenants: 'acme', ...changes },
      }).map(([field, value]) => [`SLUICE_EXPORTS__DESTINATIONS__${name}__${field}`.toUpperCase(), value]),
    ),
  )
  const config = loadConfig({ environment: { SLUICE_DATA_DIR: folder, ...environment }, flags: {} })
  const logger = { debug() {}, info() {}, warn() {}, error() {} }
  const services = { logger, dataDirectory: folder, faultPoint: async () => {} }
  const found = await openDestinations(config, servicesOf(config, services, new PluginMetrics(new Registry())))
  opened.push(found)
  return new ExportDestinations(found.destinations)
}

const there = async (): Promise<readonly string[]> =>
  (await Array.fromAsync(store.list(BUCKET))).map(({ path }) => path).sort()

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

async function* pieces(whole: Buffer, failure?: Error): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < whole.length; at += 100_000) yield whole.subarray(at, at + 100_000)
  if (failure) throw failure
}

function bytesOf(length: number): Buffer {
  const whole = Buffer.alloc(length)
  for (let at = 0; at + 4 <= length; at += 4) whole.writeUInt32LE(at, at)
  return whole
}

test('a file arrives byte for byte, and a later attempt replaces it', async () => {
  const destinations = await destinationsWith({ there: {} })
  for (const length of LENGTHS) {
    const file = { id: 'exp_1', tenant: 'acme', bytes: length, format: 'csv' } as const
    const whole = bytesOf(length)
    const place = await destinations.put(file, 'there', pieces(whole), signal)
    assert.deepEqual(place, { destination: 'there', address: `s3://${BUCKET}/a/b/acme/exp_1.csv` })
    assert.equal(hash(await store.get(`${BUCKET}/a/b/acme/exp_1.csv`)), hash(whole))
    assert.deepEqual(await there(), [`${BUCKET}/a/b/acme/exp_1.csv`])
  }
  const leftHere = await readdir(folder, { recursive: true, withFileTypes: true })
  assert.deepEqual(
    leftHere.filter((entry) => entry.isFile()).map(({ name }) => name),
    [],
    'nothing stays on this machine',
  )
})

test('a file that cannot be read to its end is not there at all, and the reason is the reader’s', async () => {
  const destinations = await destinationsWith({ there: {} })
  const reason = new SluiceError('PERMISSION', 'no more', { code: 'export_not_permitted' })
  for (const length of LENGTHS) {
    const file = { id: 'exp_2', tenant: 'acme', bytes: length + 1, format: 'csv' } as const
    await assert.rejects(destinations.put(file, 'there', pieces(bytesOf(length), reason), signal), reason)
  }
  const short = { id: 'exp_2', tenant: 'acme', bytes: 2, format: 'csv' } as const
  await assert.rejects(destinations.put(short, 'there', pieces(bytesOf(1)), signal))
  assert.ok(!(await there()).some((path) => path.includes('exp_2')))
})

test('a bucket that is not there, and a key that is refused, are told in terms of the destination', async () => {
  const wrong = {
    bucket: { bucket: `${BUCKET}-none` },
    key: { secret_access_key: 'not-the-secret' },
  }
  const destinations = await destinationsWith(wrong)
  const file = { id: 'exp_3', tenant: 'acme', bytes: 1, format: 'csv' } as const
  for (const name of Object.keys(wrong)) {
    await assert.rejects(destinations.put(file, name, pieces(bytesOf(1)), signal), (error: SluiceError) => {
      assert.equal(error.code, 'export_destination_refused')
      assert.ok(!`${error.message} ${error.remedy}`.includes(String(key)), error.message)
      return true
    })
  }
})
