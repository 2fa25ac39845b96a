/** What a store that means no good may answer: bounded in bytes, depth and time. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { BucketStore } from '@sluice/iceberg'
import { isSluiceError } from '@sluice/sdk'
import { MAX_DOCUMENT_BYTES } from './bounded-answers.ts'
import { S3Buckets } from './buckets.ts'

const MB = 1024 * 1024
/** What is being sent when a limit ends it, and what is in the sockets' buffers. */
const SLACK_BYTES = 12 * MB
const GIVEN_UP_BYTES = 64 * MB

type Answer = (request: IncomingMessage, response: ServerResponse) => void

let server: Server
let dir: string
let store: BucketStore
let answer: Answer
let sentBytes = 0

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-s3-answers-'))
  server = createServer((request, response) => {
    response.on('error', () => {})
    request.resume()
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  store = openStore()
})

afterEach(() => {
  sentBytes = 0
})

after(async () => {
  await store?.close()
  server?.closeAllConnections()
  server?.close()
  await rm(dir, { recursive: true, force: true })
})

function openBuckets(): S3Buckets {
  return new S3Buckets({
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    region: 'us-east-1',
    accessKeyId: 'key',
    secretAccessKey: 'secret',
    pathStyle: true,
    attemptMs: 600_000,
    deadlineMs: 600_000,
  })
}

function openStore(): BucketStore {
  return new BucketStore({ buckets: openBuckets(), cacheDir: join(dir, 'cache'), maxCacheBytes: MB })
}

/** Sends until it is hung up on, once; whatever comes after has no object. */
function flood(status: number): Answer {
  return (_request, response) => {
    answer = document('<Error><Code>NoSuchKey</Code></Error>', 404)
    response.writeHead(status)
    const piece = Buffer.alloc(256 * 1024, 'x')
    const more = () => {
      while (!response.destroyed) {
        sentBytes += piece.length
        if (sentBytes > GIVEN_UP_BYTES) response.destroy()
        else if (!response.write(piece)) return
      }
    }
    response.on('drain', more)
    more()
  }
}

function document(text: string, status = 200): Answer {
  return (_request, response) => void response.writeHead(status, { 'content-type': 'application/xml' }).end(text)
}

const ASKED: Readonly<Record<string, () => Promise<unknown>>> = {
  'a list': () => Array.fromAsync(store.list('sluice-x')),
  'an object': () => store.get('sluice-x/a'),
  'a copy for an engine': () => store.cache.hold([store.localPath('sluice-x/a')], AbortSignal.timeout(600_000)),
  'a write': () => store.put('sluice-x/a', Buffer.from('x')),
  'the names of buckets': () => store.buckets(),
  'a removal': () => store.remove('sluice-x/a'),
}

describe('an answer without end', () => {
  for (const [name, ask] of Object.entries(ASKED)) {
    for (const status of [200, 403, 500]) {
      it(`to ${name}, as ${status}, is hung up on`, async () => {
        answer = flood(status)
        await ask().catch((error: unknown) => assert.ok(isSluiceError(error), String(error)))
        assert.ok(sentBytes < MAX_DOCUMENT_BYTES + SLACK_BYTES, `${sentBytes / MB} MB were taken`)
      })
    }
  }

  it('is one whose pages name themselves as the next, too', async () => {
    const page = '<Contents><Key>a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>'
    const more = '<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>'
    answer = document(`<ListBucketResult>${page}${more}</ListBucketResult>`)
    const signal = AbortSignal.timeout(600_000)
    await assert.rejects(
      async () => {
        let count = 0
        for await (const _ of store.list('sluice-x', signal)) assert.ok(++count < 100, 'the list goes on')
      },
      { code: 'object_store_unavailable' },
    )
  })

  it('nests no deeper than its parser goes', async () => {
    const levels = 100_000
    answer = (request, response) => {
      answer = document('<Error><Code>NoSuchBucket</Code></Error>', 404)
      document(`<ListBucketResult>${'<a>'.repeat(levels)}${'</a>'.repeat(levels)}</ListBucketResult>`)(
        request,
        response,
      )
    }
    assert.deepEqual(await Array.fromAsync(store.list('sluice-x')), [])
  })
})

for (const [what, status, code, said] of [
  ['a bucket that is not there', 404, 'NoSuchBucket', null],
  ['a bucket that the login may not see', 403, 'AccessDenied', null],
  ['a bucket that is somebody’s in another region', 301, 'PermanentRedirect', null],
  ['a bucket that is somebody’s, and has just been made', 307, 'TemporaryRedirect', null],
  ['another region to sign for that bucket', 400, 'AuthorizationHeaderMalformed', null],
  ['a bucket in a region that does not speak for others', 400, 'IllegalLocationConstraintException', null],
  ['a bucket that was shut down', 403, 'AllAccessDisabled', null],
  ['a secret that is not the key’s', 403, 'SignatureDoesNotMatch', 'object_store_refused'],
  ['a key that it does not know', 403, 'InvalidAccessKeyId', 'object_store_refused'],
  ['its own trouble', 503, 'SlowDown', 'object_store_unavailable'],
] as const) {
  it(`a store that is asked whether it works and tells of ${what}: ${said ?? 'it works'}`, async () => {
    answer = (_, response) => {
      response.writeHead(status, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code></Error>`)
    }
    const asked = openBuckets().ping(AbortSignal.timeout(60_000))
    await (said === null ? asked : assert.rejects(asked, { code: said }))
  })
}
