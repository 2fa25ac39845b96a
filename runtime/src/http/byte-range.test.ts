/** Parts of files, as clients ask for them: by RFC 9110, 14, whose examples these are where nothing else is said. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Type } from 'typebox'
import { rangeOf } from './byte-range.ts'
import { defineRoute } from './route.ts'
import { codeOf, startTestServer, type TestServer } from './test-server.ts'

const of = (range: string, bytes: number, condition?: string) =>
  rangeOf({ range, ...(condition === undefined ? {} : { 'if-range': condition }) }, 'v1', bytes)

describe('a Range', () => {
  it('names one part, from an end or the other', () => {
    assert.deepEqual(of('bytes=0-499', 10_000), { from: 0, to: 499 })
    assert.deepEqual(of('bytes=500-999', 10_000), { from: 500, to: 999 })
    assert.deepEqual(of('bytes=-500', 10_000), { from: 9500, to: 9999 })
    assert.deepEqual(of('bytes=9500-', 10_000), { from: 9500, to: 9999 })
    assert.deepEqual(of('bytes=0-0', 10_000), { from: 0, to: 0 })
    assert.deepEqual(of('bytes=9999-20000', 10_000), { from: 9999, to: 9999 })
    assert.deepEqual(of('bytes=-20000', 10_000), { from: 0, to: 9999 })
    assert.deepEqual(of('Bytes=1-2', 10_000), { from: 1, to: 2 })
  })

  it('of a part that is not there is refused, and told how many bytes there are', () => {
    for (const [range, bytes] of [
      ['bytes=10000-', 10_000],
      ['bytes=10000-10001', 10_000],
      ['bytes=-0', 10_000],
      ['bytes=0-', 0],
      ['bytes=-5', 0],
      ['bytes=999999999999999-', 10_000],
    ] as const) {
      assert.throws(() => of(range, bytes), { code: 'range_not_satisfiable', details: { bytes } }, range)
    }
  })

  it('that is of another form, of several parts, or of another file, is passed over', () => {
    const others = [
      'bytes=5-4',
      'bytes=0-1,4-5',
      'bytes=',
      'bytes=-',
      'bytes=a-b',
      'lines=1-2',
      'bytes=1',
      'bytes=1--2',
    ]
    for (const range of [...others, `bytes=${'9'.repeat(400)}-`, '']) assert.equal(of(range, 10), null, range)
    assert.deepEqual(of('bytes=1-2', 10, '"v1"'), { from: 1, to: 2 })
    for (const other of ['"v2"', 'W/"v1"', 'Sat, 29 Oct 1994 19:43:31 GMT', '*', 'v1']) {
      assert.equal(of('bytes=1-2', 10, other), null, other)
    }
  })
})

const FILE = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251))

const file = defineRoute({
  method: 'GET',
  path: '/api/v1/file',
  name: 'file',
  summary: 'File',
  tags: ['Test'],
  auth: 'tenant',
  responses: { 200: { description: 'Bytes.' } },
  query: Type.Object({}),
  handler: () => ({
    etag: 'v1',
    file: {
      contentType: 'text/csv',
      bytes: FILE.length,
      async *chunks(range) {
        const asked = FILE.subarray(range?.from ?? 0, (range?.to ?? FILE.length - 1) + 1)
        for (let at = 0; at < asked.length; at += 7_000) yield asked.subarray(at, at + 7_000)
      },
    },
  }),
})

describe('files', () => {
  let server: TestServer
  let folder: string
  before(async () => {
    server = await startTestServer([file])
    folder = await mkdtemp(join(tmpdir(), 'sluice-range-'))
  })
  after(async () => {
    await server[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })

  const ask = (headers: Record<string, string>, method = 'GET') => server.ask('/api/v1/file', { method, headers })
  const bytes = async (response: Response) => Buffer.from(await response.arrayBuffer())

  it('come whole with their length, and are never compressed', async () => {
    const response = await ask({ 'accept-encoding': 'gzip' })
    const { headers } = response
    assert.equal(response.status, 200)
    assert.deepEqual([headers.get('content-length'), headers.get('content-encoding')], ['200000', null])
    assert.deepEqual([headers.get('accept-ranges'), headers.get('etag')], ['bytes', '"v1"'])
    assert.ok((await bytes(response)).equals(FILE))
  })

  it('come in the part that is asked for, whichever it is', async () => {
    for (let tries = 0; tries < 40; tries += 1) {
      const from = Math.floor(Math.random() * FILE.length)
      const to = from + Math.floor(Math.random() * (FILE.length - from))
      const response = await ask({ range: `bytes=${from}-${to}`, 'accept-encoding': 'gzip' })
      assert.equal(response.status, 206)
      assert.equal(response.headers.get('content-range'), `bytes ${from}-${to}/200000`)
      assert.equal(response.headers.get('content-length'), String(to - from + 1))
      assert.ok((await bytes(response)).equals(FILE.subarray(from, to + 1)), `${from}-${to}`)
    }
  })

  it('tell their length to HEAD, and how long they are where the part is not there', async () => {
    const head = await ask({ range: 'bytes=5-6' }, 'HEAD')
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, '200000'])
    const refused = await ask({ range: 'bytes=200000-' })
    assert.equal(refused.headers.get('content-range'), 'bytes */200000')
    assert.deepEqual([refused.status, await codeOf(refused)], [416, 'range_not_satisfiable'])
    assert.equal((await ask({ 'if-none-match': '"v1"', range: 'bytes=1-2' })).status, 304)
  })

  it('are gone on with by curl where it was broken off', async () => {
    const out = join(folder, 'out')
    await writeFile(out, FILE.subarray(0, 77_777))
    const token = `Authorization: Bearer ${await server.token()}`
    const url = `http://127.0.0.1:${server.port}/api/v1/file`
    await promisify(execFile)('curl', ['-sS', '--fail', '-C', '-', '-H', token, '-o', out, url])
    assert.ok((await readFile(out)).equals(FILE))
  })
})
