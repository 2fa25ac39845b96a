/** What clients without a key may ask leave for, in the store's own protocol: single files, read or written, and nothing beside. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ClientRequest, LentAccess, WriteMethod } from '@sluice/sdk'
import { S3Buckets } from './buckets.ts'

const ENDPOINT = 'http://127.0.0.1:9'
const FILE = `${ENDPOINT}/sluice-acme/acme/sandbox/t/data/a%20b.parquet`
const PATH = 'sluice-acme/acme/sandbox/t/data/a b.parquet'
const REFUSED = { kind: 'PERMISSION', code: 'catalog_signing_refused' }

const open = (pathStyle = true) =>
  new S3Buckets({
    endpoint: ENDPOINT,
    region: 'us-east-1',
    accessKeyId: 'key',
    secretAccessKey: 'secret',
    pathStyle,
    deadlineMs: 1_000,
    attemptMs: 1_000,
  })
const asked = (method: string, uri = FILE, headers?: ClientRequest['headers']): ClientRequest => ({
  ...{ method, uri, region: 'us-east-1' },
  ...(headers === undefined ? {} : { headers }),
})

let buckets: S3Buckets
let lent: LentAccess
before(async () => {
  buckets = open()
  // Nothing listens there: whether signatures are safe is asked again before the first.
  lent = (await buckets.lend?.()) as LentAccess
})
after(async () => {
  lent.close()
  await buckets.close()
})

test('clients are told how to have requests signed, and no key', () => {
  const settings = lent.settings({ address: 'https://data.example.com/iceberg', signing: 'v1/acme/sign' })
  assert.equal(settings['s3.signer.uri'], 'https://data.example.com/iceberg')
  assert.equal(settings['s3.signer.endpoint'], 'v1/acme/sign')
  assert.ok(!JSON.stringify(settings).includes('secret'))
})

test('where the bucket is in the host’s name nothing is lent', async () => {
  const store = open(false)
  assert.equal(store.lend, undefined)
  await store.close()
})

test('nothing is signed before the store has said what it makes of it', async () => {
  const read = lent.read(asked('GET', `${FILE}?x-id=GetObject`))
  assert.equal(read.path, PATH)
  await assert.rejects(read.sign(), { code: 'object_store_unavailable' })
})

describe('refused is', () => {
  const wherever: Readonly<Record<string, string>> = {
    'another server': FILE.replace('127.0.0.1', '127.0.0.2'),
    'a login in the address': FILE.replace('http://', 'http://me:too@'),
    'a fragment': `${FILE}#x`,
    'no address': 'nonsense',
    'a slash inside of a name': FILE.replace('a%20b', 'a%2Fb'),
    'what is no text': FILE.replace('a%20b', '%ff'),
    'the rights of a file': `${FILE}?acl`,
    'a former version': `${FILE}?versionId=null`,
  }
  const headers: Readonly<Record<string, ClientRequest['headers']>> = {
    'a copy': { 'x-amz-copy-source': ['/sluice-acme/x'] },
    'rights for others': { 'X-Amz-Acl': ['public-read'] },
    'an archive to unpack': { 'x-amz-meta-snowball-auto-extract': ['true'] },
    'a value of more lines': { 'x-amz-checksum-crc32': ['a\nb'] },
  }
  const ways: Readonly<Record<string, (request: Omit<ClientRequest, 'method' | 'region'>) => unknown>> = {
    read: ({ uri, headers: more }) => lent.read(asked('GET', uri, more)),
    write: ({ uri, headers: more }) => lent.write(asked('PUT', uri, more)),
  }
  for (const [way, ask] of Object.entries(ways)) {
    for (const [what, uri] of Object.entries(wherever)) {
      test(`to ${way}: ${what}`, () => assert.throws(() => ask({ uri }), REFUSED))
    }
    for (const [what, more] of Object.entries(headers)) {
      test(`to ${way} with ${what}`, () => assert.throws(() => ask({ uri: FILE, headers: more ?? {} }), REFUSED))
    }
  }
  test('to read by any other method', () => {
    for (const method of ['PUT', 'POST', 'DELETE', 'get', 'OPTIONS'])
      assert.throws(() => lent.read(asked(method)), REFUSED)
  })
})

test('a write is one file at once, or in parts, and nothing else', () => {
  const STEPS: readonly (readonly [WriteMethod, Readonly<Record<string, string>>, string])[] = [
    ['PUT', {}, 'make'],
    ['PUT', { partNumber: '10000', uploadId: 'u' }, 'part'],
    ['POST', { uploads: '' }, 'begin'],
    ['POST', { uploadId: 'u' }, 'end'],
    ['DELETE', {}, 'remove'],
    ['DELETE', { uploadId: 'u' }, 'abandon'],
  ]
  for (const [method, parameters, step] of STEPS) {
    assert.deepEqual(lent.write(asked(method, `${FILE}?${new URLSearchParams(parameters)}`)), {
      path: PATH,
      parameters,
      step,
    })
    assert.equal(lent.take(method, { path: PATH, parameters }, {}).step, step)
  }
  const OTHERS: readonly (readonly [WriteMethod, Readonly<Record<string, string>>])[] = [
    ['PUT', { acl: '' }],
    ['PUT', { partNumber: '1' }],
    ['PUT', { partNumber: '0', uploadId: 'u' }],
    ['PUT', { partNumber: '10001', uploadId: 'u' }],
    ['PUT', { partNumber: '1', uploadId: 'u v' }],
    ['POST', {}],
    ['POST', { delete: '' }],
    ['POST', { uploads: 'x' }],
    ['DELETE', { partNumber: '1', uploadId: 'u' }],
    ['DELETE', { constructor: '' }],
  ]
  for (const [method, parameters] of OTHERS) {
    assert.throws(() => lent.take(method, { path: PATH, parameters }, {}), REFUSED, JSON.stringify(parameters))
  }
  assert.throws(() => lent.write(asked('PUT', `${FILE}?uploadId=a&uploadId=b&partNumber=1`)), REFUSED)
})

test('how a body is written is said by headers that are known', () => {
  const place = { path: PATH, parameters: {} }
  assert.equal(lent.take('PUT', place, { 'content-length': '12' }).sizeBytes, 12)
  assert.equal(lent.take('PUT', place, {}).sizeBytes, null)
  assert.equal(lent.take('PUT', place, { 'content-length': '1e3' }).sizeBytes, null)
  const chunked = {
    'content-length': '50',
    'content-encoding': 'aws-chunked',
    'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    'x-amz-decoded-content-length': '12',
    'x-amz-trailer': 'x-amz-checksum-crc32',
  }
  assert.equal(lent.take('PUT', place, chunked).sizeBytes, 50)
  for (const changed of [{ 'x-amz-content-sha256': 'STREAMING' }, { 'x-amz-decoded-content-length': '' }]) {
    assert.throws(() => lent.take('PUT', place, { ...chunked, ...changed }), REFUSED)
  }
})

test('what the runtime refuses reads as the store’s own refusal', () => {
  const { status, contentType, body } = lent.refusal('exists', 'a <b> & c')
  assert.deepEqual([status, contentType], [412, 'application/xml'])
  assert.match(body.toString(), /<Code>PreconditionFailed<\/Code><Message>a &lt;b> &amp; c<\/Message>/)
})
