import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { Type } from 'typebox'
import type { TenantCall } from '../flow.ts'
import { buildOpenApi } from './openapi.ts'
import { defineRoute, type Route } from './route.ts'
import { pluginRoutes } from './routes/plugins.ts'
import { codeOf, sendRaw, startTestServer, type TestServer } from './test-server.ts'

const SECRET = 'password=hunter2'
const MANY = Array.from({ length: 201 }, (_, index) => `p${index}`).join('&')
const responses = { 200: { description: 'Done.' } }

const thrown: { current: unknown } = { current: null }

const routes: readonly Route[] = [
  ...pluginRoutes(() => []),
  defineRoute({
    method: 'GET',
    path: '/api/v1/things/{id}',
    name: 'getThing',
    summary: 'A thing',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ id: Type.String({ maxLength: 40 }) }),
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
      filter: Type.Optional(Type.Array(Type.String())),
      order: Type.Optional(Type.Union([Type.Literal('asc'), Type.Literal('desc')])),
      exact: Type.Optional(Type.Boolean()),
    }),
    responses,
    handler: ({ tenant, params, query, requestId, traceparent }) => ({
      body: { tenant, params, query, requestId, traceparent },
      etag: 'v1',
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/things/kinds',
    name: 'listKinds',
    summary: 'Kinds',
    tags: ['Test'],
    auth: 'tenant',
    responses,
    handler: () => ({ body: 'kinds' }),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/things',
    name: 'createThing',
    summary: 'Make a thing',
    tags: ['Test'],
    auth: 'tenant',
    body: Type.Object({
      name: Type.String({ minLength: 1 }),
      size: Type.Optional(Type.Integer()),
      parts: Type.Optional(Type.Array(Type.Object({ kind: Type.String() }))),
      labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    }),
    responses,
    handler: ({ body }) => ({ status: 201, body, headers: { Location: '/api/v1/things/1' } }),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/things/{id}/sort',
    name: 'sortThing',
    summary: 'Sort',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ id: Type.String() }),
    body: Type.Object(
      { by: Type.Optional(Type.String()), order: Type.String({ default: 'asc' }) },
      { additionalProperties: false },
    ),
    responses,
    handler: ({ body }) => ({ body }),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/things/{id}/start',
    name: 'startThing',
    summary: 'Start',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ id: Type.String() }),
    responses,
    handler: () => ({ empty: true }),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/failing',
    name: 'fail',
    summary: 'Fail',
    tags: ['Test'],
    auth: 'none',
    responses,
    handler: () => {
      throw thrown.current
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/slow',
    name: 'slow',
    summary: 'Waits for its signal',
    tags: ['Test'],
    auth: 'none',
    timeoutMs: 150,
    responses,
    handler: ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error(SECRET)), { once: true })),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/deaf',
    name: 'deaf',
    summary: 'Never settles',
    tags: ['Test'],
    auth: 'none',
    timeoutMs: 100,
    responses,
    handler: () => new Promise(() => {}),
  }),
]

describe('the edge', () => {
  let server: TestServer
  const faults: unknown[] = []
  const faulty: (string | null)[][] = []

  before(async () => {
    server = await startTestServer(routes, {
      onFault: (error, { requestId, traceparent }) => {
        faults.push(error)
        faulty.push([requestId, traceparent])
      },
    })
  })
  after(() => server[Symbol.asyncDispose]())

  const things = (query: string): Promise<Response> => server.ask(`/api/v1/things/a${query}`)
  const create = (body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Response> =>
    server.ask('/api/v1/things', {
      method: 'POST',
      body: typeof body === 'string' ? body : new Uint8Array(body),
      headers: { 'content-type': 'application/json', ...headers },
    })

  it('answers a route with its inputs, its tenant and its headers', async () => {
    const response = await things('?limit=5&filter=a:1&filter=b:2&exact=true')
    assert.equal(response.status, 200)
    const body = (await response.json()) as Record<string, unknown>
    assert.equal(body.tenant, 'acme')
    assert.deepEqual(body.query, { limit: 5, filter: ['a:1', 'b:2'], exact: true })
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff')
    assert.match(response.headers.get('cache-control') ?? '', /private/)
    for (const name of ['server', 'x-powered-by', 'access-control-allow-origin']) {
      assert.equal(response.headers.get(name), null)
    }
  })

  it('fills defaults and prefers fixed segments to parameters', async () => {
    assert.deepEqual(((await (await things('')).json()) as { query: unknown }).query, { limit: 100 })
    assert.equal(await (await server.ask('/api/v1/things/kinds')).json(), 'kinds')
  })

  it('names every fault of a query at once, with what was probably meant', async () => {
    const response = await things('?limt=5&limit=0&order=up&exact=maybe')
    assert.equal(response.status, 400)
    assert.equal(response.headers.get('content-type'), 'application/problem+json; charset=utf-8')
    const problem = (await response.json()) as { code: string; errors: { pointer: string; hint?: string }[] }
    assert.equal(problem.code, 'validation_failed')
    assert.deepEqual(problem.errors.map(({ pointer }) => pointer).toSorted(), ['/exact', '/limit', '/limt', '/order'])
    assert.match(problem.errors.find(({ pointer }) => pointer === '/limt')?.hint ?? '', /limit/)
  })

  it('refuses a parameter that stands twice, and broken encodings', async () => {
    for (const query of ['?limit=1&limit=2', `?${MANY}`, '?order=%ff', '?order=%', '?filter=a%00b', '?__proto__=1']) {
      const response = await things(query)
      assert.equal(response.status, 400, query)
      assert.equal(await codeOf(response), 'malformed_query', query)
    }
  })

  it('refuses paths that two readers could understand differently', async () => {
    const paths = [
      '/api/v1/things/..',
      '/api/v1/things/%2e%2e',
      '/api/v1/things/%00',
      '/api/v1/things/a%2fb',
      '/api/v1/things/%zz',
      '/api/v1/things/%ff',
      '/api/../healthz',
      '/a%5cb',
    ]
    for (const path of paths) {
      const answer = await sendRaw(server.port, `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
      assert.match(answer, /^HTTP\/1\.1 400 /, path)
      assert.match(answer, /"code":"malformed_path"/, path)
    }
  })

  it('decodes parameters once', async () => {
    const body = (await (await server.ask('/api/v1/things/a%20%2541')).json()) as { params: { id: string } }
    assert.equal(body.params.id, 'a %41')
  })

  it('answers 404 and 405 as problems, the latter with Allow', async () => {
    assert.equal((await server.ask('/nothing')).status, 404)
    assert.equal((await server.ask('/api/v1/things/a/')).status, 404)
    assert.equal((await server.ask('/API/v1/things/a')).status, 404)
    const response = await server.ask('/api/v1/things', { method: 'PUT', body: '{}' })
    assert.equal(response.status, 405)
    assert.equal(response.headers.get('allow'), 'POST, OPTIONS')
    assert.equal(await codeOf(response), 'method_not_allowed')
  })

  it('answers OPTIONS without a token and without allowing other origins', async () => {
    const response = await fetch(`${server.url}/api/v1/things/a`, {
      method: 'OPTIONS',
      headers: { origin: 'http://evil.example' },
    })
    assert.equal(response.status, 204)
    assert.match(response.headers.get('allow') ?? '', /GET/)
    assert.equal(response.headers.get('access-control-allow-origin'), null)
  })

  it('answers HEAD with the head of GET', async () => {
    const get = await things('')
    const head = await server.ask('/api/v1/things/a', { method: 'HEAD' })
    assert.equal(head.status, 200)
    assert.equal((await head.text()).length, 0)
    assert.equal(head.headers.get('etag'), get.headers.get('etag'))
    assert.ok(Number(head.headers.get('content-length')) > 0)
  })

  it('answers 304 where the client has the answer', async () => {
    for (const header of ['"v1"', 'W/"v1"', '"x", "v1"', '*']) {
      const response = await server.ask('/api/v1/things/a', { headers: { 'if-none-match': header } })
      assert.equal(response.status, 304, header)
      assert.equal(response.headers.get('etag'), header.startsWith('W/') ? header : '"v1"')
      assert.equal(await response.text(), '')
    }
    const changed = await server.ask('/api/v1/things/a', { headers: { 'if-none-match': '"v0"' } })
    assert.equal(changed.status, 200)
    assert.equal(changed.headers.get('cache-control'), 'private, no-cache')
  })

  it('gives back a sound request id and replaces others', async () => {
    const kept = await server.ask('/api/v1/things/a', { headers: { 'x-request-id': 'abc-123' } })
    assert.equal(kept.headers.get('x-request-id'), 'abc-123')
    for (const bad of ['a b', 'x'.repeat(200), '<script>']) {
      const response = await server.ask('/api/v1/things/a', { headers: { 'x-request-id': bad } })
      assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/)
    }
  })

  it('knows the trace of a caller that sends a sound one', async () => {
    const ids = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'
    const traceOf = async (traceparent: string): Promise<string | null> => {
      const response = await server.ask('/api/v1/things/a', { headers: { traceparent } })
      return ((await response.json()) as { traceparent: string | null }).traceparent
    }
    assert.equal(await traceOf(`00-${ids}-01`), `00-${ids}-01`)
    assert.equal(await traceOf(`00-${ids}-fe`), `00-${ids}-00`)
    // Later versions may add to what version 00 knows.
    for (const later of [`01-${ids}-01`, `cc-${ids}-01-what-else`]) assert.equal(await traceOf(later), `00-${ids}-01`)
    for (const unsound of [
      '',
      `00-${ids}`,
      `00-${ids}-01-what-else`,
      `01-${ids}-01what-else`,
      `ff-${ids}-01`,
      `00-${ids.toUpperCase()}-01`,
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
      `00-${ids}-01, 00-${ids}-01`,
    ]) {
      assert.equal(await traceOf(unsound), null, unsound)
    }
  })

  it('takes a body that fits and answers what the handler says', async () => {
    const response = await create('{"name":"n","size":3}')
    assert.equal(response.status, 201)
    assert.equal(response.headers.get('location'), '/api/v1/things/1')
    assert.deepEqual(await response.json(), { name: 'n', size: 3 })
  })

  it('refuses bodies that are not what the schema asks for', async () => {
    const response = await create('{"nam":"n","size":"3"}')
    const problem = (await response.json()) as { errors: { in: string; pointer: string; message: string }[] }
    assert.equal(response.status, 400)
    assert.deepEqual(problem.errors.map(({ pointer }) => pointer).toSorted(), ['/nam', '/name', '/size'])
    assert.ok(problem.errors.every((fault) => fault.in === 'body'))
  })

  it('refuses unknown keys at every depth, but for free maps', async () => {
    const response = await create('{"name":"n","parts":[{"kind":"a","knd":"b"}],"labels":{"any":"thing"}}')
    const problem = (await response.json()) as { errors: { pointer: string; hint?: string }[] }
    assert.deepEqual(
      problem.errors.map(({ pointer }) => pointer),
      ['/parts/0/knd'],
    )
    assert.match(problem.errors[0]?.hint ?? '', /kind/)
  })

  it('refuses bodies that two readers could understand differently', async () => {
    const bodies: (string | Uint8Array)[] = [
      '',
      'nonsense',
      '{"name":"a","name":"b"}',
      '{"name":"a","\\u006eame":"b"}',
      '{"__proto__":{},"name":"a"}',
      '{"name":"a\\u0000b"}',
      '{"name":"\\ud800"}',
      '['.repeat(100) + ']'.repeat(100),
      Buffer.from([123, 34, 110, 97, 109, 101, 34, 58, 34, 0xff, 34, 125]),
    ]
    for (const body of bodies) {
      const response = await create(body)
      assert.equal(response.status, 400, String(body))
      const problem = (await response.json()) as { code: string; detail: string }
      assert.equal(problem.code, 'malformed_body', String(body))
    }
  })

  it('refuses other media types, charsets and compressed bodies', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', '']) {
      assert.equal((await create('{"name":"a"}', { 'content-type': type })).status, 415, type)
    }
    assert.equal((await create('{"name":"a"}', { 'content-encoding': 'gzip' })).status, 415)
    assert.equal((await create('{"name":"a"}', { 'content-type': 'application/merge-patch+json' })).status, 201)
  })

  it('takes no body, or an empty object, where a route has none', async () => {
    const start = (init: RequestInit): Promise<Response> =>
      server.ask('/api/v1/things/a/start', { method: 'POST', ...init })
    const headers = { 'content-type': 'application/json' }
    assert.equal((await start({})).status, 204)
    assert.equal((await start({ body: '{}', headers })).status, 204)
    assert.equal((await start({ body: '{"force":true}', headers })).status, 400)
  })

  it('takes no body for an empty object where every member may be left out, and nowhere else', async () => {
    const sorted = (init: RequestInit) => server.ask('/api/v1/things/a/sort', { method: 'POST', ...init })
    const json = { 'content-type': 'application/json' }
    for (const init of [{}, { headers: json }, { headers: json, body: '' }, { headers: json, body: '{}' }]) {
      const response = await sorted(init)
      assert.deepEqual([response.status, await response.json()], [200, { order: 'asc' }], JSON.stringify(init))
    }
    assert.equal((await sorted({ headers: json, body: '{"by":"name","more":1}' })).status, 400)
    assert.equal((await sorted({ headers: { 'content-type': 'text/plain' }, body: '{}' })).status, 415)
    assert.equal((await server.ask('/api/v1/things', { method: 'POST' })).status, 415)
    const documented = routes.filter(({ name }) => name === 'createThing' || name === 'sortThing')
    const { paths } = buildOpenApi(
      documented.map((route) => ({ ...route, example: {} })),
      { title: 't', version: '1' },
    )
    assert.deepEqual(
      Object.values(paths).map(
        ({ post }) => (post?.requestBody as { readonly required?: boolean } | undefined)?.required,
      ),
      [true, false],
    )
  })

  it('refuses a body on GET', async () => {
    const token = await server.token()
    const answer = await sendRaw(
      server.port,
      `GET /api/v1/things/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    )
    assert.match(answer, /"code":"body_not_expected"/)
  })

  it('says nothing of errors that are not meant for clients', async () => {
    const internal = [
      new Error(SECRET),
      SECRET,
      null,
      { status: 400, expose: true, message: SECRET },
      new SluiceError('INTERNAL', SECRET, { code: 'anything', details: { SECRET } }),
      new SluiceError('INTERNAL', SECRET, { code: 'not_found' }),
      new SluiceError('PERMISSION', SECRET, { code: 'tenant_scope_missing' }),
    ]
    for (const error of internal) {
      thrown.current = error
      faults.length = 0
      const response = await server.ask('/api/v1/failing')
      const body = await response.text()
      assert.equal(response.status, 500)
      assert.match(body, /"code":"internal_error"/)
      assert.doesNotMatch(body, /hunter2/)
      assert.deepEqual(faults, [error])
    }
  })

  it('tells of an internal error which request and trace it befell', async () => {
    thrown.current = new Error(SECRET)
    faulty.length = 0
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await server.ask('/api/v1/failing', { headers: { 'x-request-id': 'traced', traceparent } })
    await server.ask('/api/v1/failing', { headers: { 'x-request-id': 'untraced' } })
    assert.deepEqual(faulty, [
      ['traced', traceparent],
      ['untraced', null],
    ])
  })

  it('answers errors of the layers below by code, else by kind, and never their cause', async () => {
    thrown.current = new SluiceError('TRANSIENT', 'the store is down', {
      code: 'some_store_down',
      retryAfterMs: 2_500,
      details: { store: 'lookup', status: 200 },
      cause: new Error(SECRET),
    })
    const response = await server.ask('/api/v1/failing')
    const body = (await response.json()) as Record<string, unknown>
    assert.equal(response.status, 503)
    assert.equal(response.headers.get('retry-after'), '3')
    assert.equal(body.status, 503)
    assert.equal(body.store, 'lookup')
    assert.equal(body.detail, 'the store is down')
    assert.equal(body.instance, '/api/v1/failing')
    assert.equal(body.request_id, response.headers.get('x-request-id'))
    assert.doesNotMatch(JSON.stringify(body), /hunter2/)
    thrown.current = new SluiceError('INVALID_DATA', 'no', { code: 'not_found' })
    assert.equal((await server.ask('/api/v1/failing')).status, 404)
  })

  it('ends handlers that take too long, whether or not they heed their signal', async () => {
    for (const path of ['/api/v1/slow', '/api/v1/deaf']) {
      const response = await server.ask(path)
      const body = await response.text()
      assert.equal(response.status, 504, path)
      assert.match(body, /deadline_exceeded/)
      assert.doesNotMatch(body, /hunter2/)
    }
  })

  it('refuses route tables that contradict themselves', async () => {
    const route = routes[0] as Route
    const idempotent = { ...route, method: 'POST', idempotent: true } as Route
    const unnamed = { ...route, path: '/api/v1/plugins/{id}' } as Route
    for (const table of [[route, route], [idempotent], [unnamed]])
      await assert.rejects(startTestServer(table), /is wrong/)
  })

  it('keeps the types of a call to those of its route', () => {
    defineRoute({
      method: 'GET',
      path: '/x',
      name: 'x',
      summary: 'x',
      tags: [],
      auth: 'none',
      responses,
      // @ts-expect-error a route without a token has no principal to rely on
      handler: ({ principal }) => ({ body: principal.subject }),
    })
    const inTenant: (call: TenantCall) => string = ({ tenant }) => tenant
    assert.ok(inTenant)
  })
})
