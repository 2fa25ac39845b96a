/** What the system or an S3 server refuses is said in words of what happened and what to do, and nothing of ours is in it. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { S3Buckets } from '@sluice/object-store/s3/buckets'
import { SluiceError } from '@sluice/sdk'
import { asStoreError } from '../../../iceberg/src/store/folder-store.ts'
import { REFUSALS } from '../../../plugins/object-store/s3/requests.ts'
import { withLimits } from '../../../test/until.ts'
import { freePort } from '../database/free-port.ts'

const PATH = 'sluice-acme/acme/crm/people/data/secret.parquet'
/** Of the machine, of the driver and of other installations. */
const INTERNALS = /\/(?:tmp|var|home|work)\b|\.ts\b|minio|ECONN|errno|syscall|undefined|secret\.parquet|acme/i

function assertSays(error: unknown, said: RegExp, code: string): void {
  assert.ok(error instanceof SluiceError, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, said)
  assert.ok(error.remedy, error.message)
  assert.doesNotMatch(`${error.message} ${error.remedy}`, INTERNALS)
}

describe('a folder that fails', () => {
  const FAULTS = {
    ENOSPC: /disk .* full/,
    EDQUOT: /disk .* full/,
    EACCES: /account may not/,
    EPERM: /account may not/,
    EROFS: /only be read/,
    EMFILE: /too many files/,
    ENFILE: /too many files/,
    EIO: /disk .* fails/,
    EBADMSG: /could not be read or written/,
  }
  for (const [code, said] of Object.entries(FAULTS)) {
    it(`with ${code}`, () => {
      const error = Object.assign(new Error(`${code}: no, open '/tmp/data/lake/${PATH}'`), { code, syscall: 'open' })
      assertSays(asStoreError(error, PATH), said, 'object_store_unavailable')
    })
  }
})

describe('an S3 store', () => {
  let answer = ''
  const server = createServer((_, response) => {
    response.writeHead(403, { 'content-type': 'application/xml' })
    response.end(`<Error><Code>${answer}</Code><Message>no /var/lib/${PATH}</Message></Error>`)
  })
  before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  after(() => {
    server.closeAllConnections()
    server.close()
  })

  const storeAt = (endpoint: string, deadlineMs: number) =>
    new S3Buckets({
      endpoint,
      region: 'us-east-1',
      accessKeyId: 'key',
      secretAccessKey: 'word',
      pathStyle: true,
      deadlineMs,
      attemptMs: 60_000,
    })
  /** Long enough for one attempt; a machine that is slower has longer. */
  const assertFails = (endpoint: string, said: RegExp, code: string) =>
    withLimits([300, 10_000, 100_000], async (deadlineMs) => {
      const store = storeAt(endpoint, deadlineMs)
      try {
        const failed = await store.get(PATH, { maxBytes: 1 }).then(
          () => assert.fail('it answered'),
          (error: unknown) => error,
        )
        assertSays(failed, said, code)
      } finally {
        await store.close()
      }
    })
  const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const SAID = {
    AccessDenied: /may not do that/,
    InvalidAccessKeyId: /does not know the access key/,
    SignatureDoesNotMatch: /secret does not belong/,
    RequestTimeTooSkewed: /clocks/,
    AuthorizationHeaderMalformed: /another region/,
    PermanentRedirect: /another region/,
    IllegalLocationConstraintException: /another region/,
    ExpiredToken: /session token/,
    InvalidToken: /session token/,
  }
  it('has words for each of its refusals', () =>
    assert.deepEqual(Object.keys(SAID).sort(), Object.keys(REFUSALS).sort()))
  for (const [code, said] of Object.entries(SAID)) {
    it(`that refuses with ${code}`, async () => {
      answer = code
      await assertFails(address(), said, 'object_store_refused')
    })
  }

  it('that is not there', async () => {
    await assertFails(`http://127.0.0.1:${await freePort()}`, /nothing listens/, 'object_store_unavailable')
  })

  it('of a name that nobody knows', async () => {
    await assertFails('http://nobody.invalid:9000', /host .* not known|does not answer/, 'object_store_unavailable')
  })

  it('that speaks no TLS', async () => {
    const tls = address().replace('http:', 'https:')
    await assertFails(tls, /does not speak TLS/, 'object_store_unavailable')
  })
})
