import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import type { BodyBytes, BodyStream } from '../flow.ts'
import { type BodyFormat, defineRoute, type Route } from './route.ts'
import { sendRaw, startTestServer, type TestServer } from './test-server.ts'

const FORMATS: readonly BodyFormat[] = ['json', 'exact-json', 'ignored', 'bytes', 'stream']
const METHODS = ['POST', 'PUT', 'PATCH'] as const

/** How a client may say that its request has no body, with what then follows. */
const ANNOUNCED: Readonly<Record<string, readonly [string, string]>> = {
  'by nothing': ['', ''],
  'by its length': ['Content-Length: 0\r\n', ''],
  'by an empty chunk': ['Transfer-Encoding: chunked\r\n', '0\r\n\r\n'],
}

/** Hears the stream out, as whatever passes it on does. */
async function lengthOf(body: unknown): Promise<number> {
  const { bytes } = body as BodyBytes | BodyStream
  if (bytes instanceof Uint8Array) return bytes.byteLength
  let length = 0
  bytes.on('data', (chunk: Buffer) => {
    length += chunk.byteLength
  })
  await new Promise((resolve) => bytes.once('end', resolve))
  return length
}

const routeOf = (method: (typeof METHODS)[number], bodyFormat: BodyFormat): Route =>
  defineRoute({
    method,
    path: `/api/v1/${bodyFormat}`,
    name: `${method}${bodyFormat}`,
    summary: 'Takes a body',
    tags: ['Test'],
    auth: 'tenant',
    body: bodyFormat.endsWith('json') ? Type.Object({ name: Type.String() }) : Type.Any(),
    bodyFormat,
    responses: { 200: { description: 'Its length.' } },
    handler: async ({ body }) => ({
      body: bodyFormat === 'bytes' || bodyFormat === 'stream' ? await lengthOf(body) : body,
    }),
  })

describe('a request without a body', () => {
  let server: TestServer
  before(async () => {
    server = await startTestServer(METHODS.flatMap((method) => FORMATS.map((format) => routeOf(method, format))))
  })
  after(() => server[Symbol.asyncDispose]())

  for (const method of METHODS) {
    for (const format of FORMATS) {
      it(`is answered alike however it says so: ${method}, ${format}`, async () => {
        const token = await server.token()
        const answers = Object.values(ANNOUNCED).map(async ([header, rest]) => {
          const head = `${method} /api/v1/${format} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`
          const type = 'Content-Type: application/json\r\nX-Request-Id: one\r\nConnection: close\r\n'
          const answer = await sendRaw(server.port, `${head}${type}${header}\r\n${rest}`)
          return answer.replace(/^(?:Date|RateLimit): .*\r\n/gm, '')
        })
        const [first, ...others] = await Promise.all(answers)
        assert.match(first ?? '', format.endsWith('json') ? /^HTTP\/1.1 400 / : /^HTTP\/1.1 200 /)
        for (const other of others) assert.equal(other, first)
      })
    }
  }
})
