import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { defineRoute } from './route.ts'
import { codeOf, startTestServer, type TestServer } from './test-server.ts'

const PARTS = ['product', 'inputs', 'output'] as const
const MAX_PART_BYTES = 1024

const upload = defineRoute({
  method: 'POST',
  path: '/api/v1/uploads',
  name: 'upload',
  summary: 'Upload',
  tags: ['Test'],
  auth: 'tenant',
  multipart: { parts: PARTS, required: ['product'], maxPartBytes: MAX_PART_BYTES },
  responses: { 200: { description: 'The parts.' } },
  handler: ({ body }) => ({ body }),
})

const echo = defineRoute({
  method: 'PUT',
  path: '/api/v1/echo',
  name: 'echo',
  summary: 'Echo',
  tags: ['Test'],
  auth: 'tenant',
  body: Type.Object({ text: Type.String() }),
  responses: { 200: { description: 'The body.' } },
  handler: ({ body }) => ({ body: body.text.length }),
})

describe('forms', () => {
  let server: TestServer
  before(async () => {
    server = await startTestServer([upload, echo])
  })
  after(() => server[Symbol.asyncDispose]())

  const send = (parts: Readonly<Record<string, string | Uint8Array>>): Promise<Response> => {
    const form = new FormData()
    for (const [name, content] of Object.entries(parts)) {
      form.append(name, new Blob([new Uint8Array(Buffer.from(content))], { type: 'application/yaml' }), `${name}.yaml`)
    }
    return server.ask('/api/v1/uploads', { method: 'POST', body: form })
  }
  const raw = (body: string, type = 'multipart/form-data; boundary=XX'): Promise<Response> =>
    server.ask('/api/v1/uploads', { method: 'POST', body, headers: { 'content-type': type } })

  it('give the text of their parts, files or fields', async () => {
    const response = await send({ product: 'name: ü\n', output: '' })
    assert.equal(response.status, 200)
    assert.deepEqual(await response.json(), { product: 'name: ü\n', output: '' })
    const field = '--XX\r\nContent-Disposition: form-data; name="product"\r\n\r\nname: x\r\n--XX--\r\n'
    assert.deepEqual(await (await raw(field)).json(), { product: 'name: x' })
  })

  it('name parts that are missing or not known', async () => {
    const missing = (await (await send({ inputs: 'a' })).json()) as { errors: { pointer: string }[] }
    assert.deepEqual(
      missing.errors.map(({ pointer }) => pointer),
      ['/product'],
    )
    const unknown = (await (await send({ product: 'a', imputs: 'b' })).json()) as { errors: { hint: string }[] }
    assert.match(unknown.errors[0]?.hint ?? '', /inputs/)
    assert.equal((await send({ product: 'a', __proto__x: 'b' })).status, 400)
  })

  it('bound every part, their number and the whole', async () => {
    assert.equal((await send({ product: 'x'.repeat(MAX_PART_BYTES) })).status, 200)
    assert.equal(await codeOf(await send({ product: 'x'.repeat(MAX_PART_BYTES + 1) })), 'body_too_large')
    assert.equal((await send({ product: 'x'.repeat(100_000) })).status, 413)
    const part = '--XX\r\nContent-Disposition: form-data; name="product"\r\n\r\nx\r\n'
    assert.equal(await codeOf(await raw(`${part.repeat(2)}--XX--\r\n`)), 'malformed_body')
    const many = Array.from({ length: 50 }, (_, index) => part.replace('product', `p${index}`)).join('')
    assert.equal(await codeOf(await raw(`${many}--XX--\r\n`)), 'malformed_body')
  })

  it('refuse what is no form, and text that is not UTF-8', async () => {
    assert.equal((await raw('nonsense')).status, 400)
    assert.equal((await raw('x', 'multipart/form-data')).status, 400)
    assert.equal((await raw('{}', 'application/json')).status, 415)
    assert.equal((await raw('--XX\r\nContent-Disposition: form-data; name="product"\r\n\r\ncut')).status, 400)
    assert.equal(await codeOf(await send({ product: Uint8Array.of(0x61, 0xff) })), 'malformed_body')
  })

  it('leave JSON bodies of other routes their own limit', async () => {
    const put = (length: number): Promise<Response> =>
      server.ask('/api/v1/echo', {
        method: 'PUT',
        body: JSON.stringify({ text: 'ä'.repeat(length) }),
        headers: { 'content-type': 'application/json' },
      })
    assert.equal(await (await put(500_000)).json(), 500_000)
    assert.equal((await put(600_000)).status, 413)
  })
})
