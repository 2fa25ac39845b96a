import assert from 'node:assert/strict'
import { type IncomingHttpHeaders, request } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { SluiceError } from '@sluice/sdk'
import { Type } from 'typebox'
import { until } from '../../../test/until.ts'
import { eventStream } from './event-stream.ts'
import { ICEBERG_PREFIX } from './iceberg-problem.ts'
import { defineRoute, type Method, type Reply, type ReplyStream, type Route } from './route.ts'
import { sendRaw, startTestServer, type TestServer } from './test-server.ts'

const TEXT = 'a line of rows that says much the same as all others do\n'.repeat(200)
const LINE = 'x'.repeat(1000)

const source = { pulled: 0, closed: 0 }

/** Lines that gzip makes no smaller, unless they are to be alike. */
function lines(count: number, { failsAt = -1, isNoise = false } = {}): ReplyStream {
  async function* chunks() {
    try {
      for (let at = 0; at < count; at++) {
        if (at === failsAt) throw new SluiceError('TRANSIENT', 'the store went away', { code: 'store_lost' })
        source.pulled += 1
        yield isNoise ? crypto.getRandomValues(Buffer.alloc(65_536)) : `${LINE}\n`
      }
    } finally {
      source.closed += 1
    }
  }
  return { contentType: 'text/csv; charset=utf-8', chunks: chunks() }
}

const ANSWERS: Readonly<Record<string, (signal: AbortSignal) => Reply>> = {
  value: () => ({ body: { text: TEXT } }),
  marked: () => ({ body: { text: TEXT }, etag: 'v1' }),
  page: () => ({ bytes: TEXT, contentType: 'text/html; charset=utf-8' }),
  binary: () => ({ bytes: TEXT, contentType: 'application/vnd.apache.parquet' }),
  small: () => ({ body: { text: 'small' } }),
  rows: () => ({ stream: lines(500) }),
  few: () => ({ stream: lines(20) }),
  none: () => ({ stream: lines(0) }),
  breaking: () => ({ stream: lines(100_000, { failsAt: 50_000 }) }),
  noise: () => ({ stream: lines(Number.POSITIVE_INFINITY, { isNoise: true }) }),
  events: (signal) => ({ stream: eventStream(eventsOf(), { signal, tenant: 'acme' }) }),
}

async function* eventsOf() {
  yield { data: TEXT.replaceAll('\n', ' ') }
}

function answering(method: Method, path: string, isRead?: boolean): Route {
  return defineRoute({
    method,
    path: `${path}/{kind}`,
    name: 'answer',
    summary: 'Answers',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ kind: Type.String() }),
    responses: { 200: { description: 'Something.' } },
    ...(isRead === undefined ? {} : { isRead }),
    handler: ({ params, signal }) => (ANSWERS[params.kind] as (signal: AbortSignal) => Reply)(signal),
  })
}

const COMPRESSED = ['value', 'marked', 'page', 'rows', 'few']
const PLAIN = ['binary', 'small', 'none', 'events']

interface Raw {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** As it came over the wire. */
  readonly bytes: Buffer
  /** Whether the answer had its end. */
  readonly isWhole: boolean
}

describe('compressed answers', () => {
  let server: TestServer
  let token: string
  before(async () => {
    const iceberg = `${ICEBERG_PREFIX}x`
    server = await startTestServer([
      answering('GET', '/api/v1/read'),
      answering('POST', '/api/v1/asked', true),
      answering('POST', '/api/v1/made'),
      answering('GET', iceberg),
    ])
    token = await server.token()
  })
  after(() => server[Symbol.asyncDispose]())

  function raw(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Raw> {
    const asked = { authorization: `Bearer ${token}`, 'accept-encoding': 'gzip', ...headers }
    return new Promise((resolve, reject) => {
      const sent = request(server.url + path, { method, headers: asked }, (response) => {
        const chunks: Buffer[] = []
        const end = () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            bytes: Buffer.concat(chunks),
            isWhole: response.complete,
          })
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', end).on('error', end)
      })
      sent.on('error', reject).end()
    })
  }

  it('say the same as those that are not, in fewer bytes', async () => {
    for (const path of ['/api/v1/read', '/api/v1/asked']) {
      const method = path.endsWith('asked') ? 'POST' : 'GET'
      for (const kind of COMPRESSED) {
        const plain = await raw(`${path}/${kind}`, { 'accept-encoding': 'identity' }, method)
        const small = await raw(`${path}/${kind}`, {}, method)
        assert.deepEqual([plain.status, small.status, small.isWhole], [200, 200, true], kind)
        assert.deepEqual([plain.headers['content-encoding'], small.headers['content-encoding']], [undefined, 'gzip'])
        assert.deepEqual(gunzipSync(small.bytes), plain.bytes, kind)
        assert.ok(small.bytes.length * 2 < plain.bytes.length, kind)
        for (const { headers } of [plain, small]) assert.match(headers.vary ?? '', /Accept-Encoding/, kind)
      }
    }
  })

  it('are for clients that like gzip at least as much as plain bytes', async () => {
    const likes = ['gzip', 'GZIP', '*', 'br, gzip', 'gzip;q=0.1', 'gzip;q=0.5, identity;q=0.5', 'identity;q=0, *']
    const doesNot = ['', 'br', 'gzip;q=0', '*;q=0', 'identity, gzip;q=0.5', 'gzip;q=0, *', 'agzip']
    for (const [isLiked, headers] of [
      [true, likes],
      [false, doesNot],
    ] as const) {
      for (const header of headers) {
        const { headers: given } = await raw('/api/v1/read/value', { 'accept-encoding': header })
        assert.equal(given['content-encoding'], isLiked ? 'gzip' : undefined, header)
      }
    }
  })

  it('are not made of little, of what is compressed, of events, of changes, nor where keys are lent', async () => {
    const asked = [
      ...PLAIN.map((kind) => ['GET', `/api/v1/read/${kind}`] as const),
      ...[...COMPRESSED, ...PLAIN].map((kind) => ['POST', `/api/v1/made/${kind}`] as const),
      ...[...COMPRESSED, ...PLAIN].map((kind) => ['GET', `${ICEBERG_PREFIX}x/${kind}`] as const),
    ]
    for (const [method, path] of asked) {
      const { status, headers } = await raw(path, {}, method)
      assert.deepEqual([status, headers['content-encoding']], [200, undefined], path)
    }
    const missing = await raw(`/api/v1/read/${'x'.repeat(2000)}`)
    assert.equal(missing.headers['content-encoding'], undefined, 'problems repeat what was asked')
  })

  it('have a weak validator, and any form of it is known again', async () => {
    const plain = await raw('/api/v1/read/marked', { 'accept-encoding': 'identity' })
    const small = await raw('/api/v1/read/marked')
    assert.deepEqual([plain.headers.etag, small.headers.etag], ['"v1"', 'W/"v1"'])
    for (const encoding of ['gzip', 'identity']) {
      for (const known of ['"v1"', 'W/"v1"', '"other", W/"v1"']) {
        const again = await raw('/api/v1/read/marked', { 'accept-encoding': encoding, 'if-none-match': known })
        assert.deepEqual([again.status, again.bytes.length], [304, 0], known)
        assert.equal(again.headers.etag, known.replace('"other", ', ''))
        assert.match(again.headers.vary ?? '', /Accept-Encoding/)
      }
      assert.equal((await raw('/api/v1/read/marked', { 'if-none-match': '"v1-gzip"' })).status, 200)
    }
  })

  it('have the head of what GET would get, and no body, for HEAD', async () => {
    for (const kind of ['value', 'page', 'rows']) {
      const got = await raw(`/api/v1/read/${kind}`)
      const head = await raw(`/api/v1/read/${kind}`, {}, 'HEAD')
      assert.deepEqual([head.status, head.bytes.length], [200, 0])
      const names = ['content-encoding', 'content-type', 'etag', 'vary', 'content-length']
      for (const name of names) assert.equal(head.headers[name], got.headers[name], `${kind} ${name}`)
    }
  })

  it('that fail half-way are cut, and do not unpack', async () => {
    const broken = await raw('/api/v1/read/breaking')
    assert.deepEqual([broken.status, broken.headers['content-encoding'], broken.isWhole], [200, 'gzip', false])
    assert.throws(() => gunzipSync(broken.bytes))
    const line = `GET /api/v1/read/breaking HTTP/1.0\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer ${token}\r\n\r\n`
    const old = Buffer.from(await sendRaw(server.port, line).catch(() => ''), 'latin1')
    const body = old.subarray(old.indexOf('\r\n\r\n') + 4)
    assert.throws(() => gunzipSync(body), 'also where the end of the connection is the end of the body')
  })

  it('end their source when the client goes, and wait for one that does not read', async () => {
    source.closed = 0
    source.pulled = 0
    const headers = { authorization: `Bearer ${token}`, 'accept-encoding': 'gzip' }
    const sent = request(`${server.url}/api/v1/read/noise`, { headers }, (response) => response.pause())
    sent.on('error', () => {}).end()
    await until('rows are made', () => source.pulled > 2)
    let before = -1
    while (before !== source.pulled) {
      before = source.pulled
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    assert.ok(source.pulled < 1000, `made ${source.pulled} chunks of 64 KiB for nobody`)
    sent.destroy()
    await until('the source is closed', () => source.closed === 1)
    await until('no request is under way', () => server.app.inFlight === 0)
  })
})
