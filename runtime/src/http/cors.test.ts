import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { defineRoute } from './route.ts'
import { ANN, ROOT, startTestServer, type TestServer } from './test-server.ts'

const COMMON = 'https://app.example.com'
const OF_ACME = 'https://acme.example.com:8443'
const OF_BOLT = 'https://bolt.example.com'
const STRANGERS = [
  'https://evil.example.com',
  'null',
  'https://app.example.com.evil.com',
  'http://app.example.com',
  '*',
]
const cors = { origins: [COMMON], tenants: { acme: [OF_ACME], bolt: [OF_BOLT] } }

const done = { calls: 0 }

const routes = (['GET', 'POST'] as const).map((method) =>
  defineRoute({
    method,
    path: '/api/v1/things',
    name: `${method.toLowerCase()}Things`,
    summary: 'Things',
    tags: ['Test'],
    auth: method === 'GET' ? 'tenant' : 'any',
    ...(method === 'POST' ? { body: Type.Object({ name: Type.String() }) } : {}),
    responses: { 200: { description: 'Done.' } },
    handler: () => {
      done.calls += 1
      return { body: { calls: done.calls }, etag: 'v1', headers: { Location: '/api/v1/things/1' } }
    },
  }),
)

const SAFE_REQUEST = new Set(['accept', 'accept-language', 'content-language'])
const SAFE_ANSWER = new Set(['cache-control', 'content-language', 'content-length', 'content-type', 'expires'])

interface Seen {
  readonly status: number
  readonly body: string
  readonly header: (name: string) => string | null
}

/** What a page of the origin gets to see, by the rules of the Fetch standard. Throws TypeError where it sees nothing. */
async function fetchFrom(origin: string, url: string, init: RequestInit = {}): Promise<Seen> {
  const method = init.method ?? 'GET'
  const headers = new Headers(init.headers)
  const unsafe = [...headers.keys()].filter((name) => !SAFE_REQUEST.has(name)).toSorted()
  if (unsafe.length > 0 || !['GET', 'HEAD', 'POST'].includes(method)) {
    const asked = { Origin: origin, 'Access-Control-Request-Method': method }
    const names = unsafe.length === 0 ? {} : { 'Access-Control-Request-Headers': unsafe.join(',') }
    const preflight = await fetch(url, { method: 'OPTIONS', headers: { ...asked, ...names } })
    requireAllowed(preflight, origin)
    if (!preflight.ok) throw new TypeError(`the preflight is ${preflight.status}`)
    const allowedHeaders = listOf(preflight, 'access-control-allow-headers').map((name) => name.toLowerCase())
    const isAllowed = ['GET', 'HEAD', 'POST', ...listOf(preflight, 'access-control-allow-methods')].includes(method)
    if (!isAllowed || !unsafe.every((name) => allowedHeaders.includes(name))) throw new TypeError('not allowed')
  }
  headers.set('Origin', origin)
  const response = await fetch(url, { ...init, headers })
  requireAllowed(response, origin)
  const exposed = listOf(response, 'access-control-expose-headers').map((name) => name.toLowerCase())
  const isSeen = (name: string) => SAFE_ANSWER.has(name.toLowerCase()) || exposed.includes(name.toLowerCase())
  return {
    status: response.status,
    body: await response.text(),
    header: (name) => (isSeen(name) ? response.headers.get(name) : null),
  }
}

function requireAllowed(response: Response, origin: string): void {
  assert.equal(response.headers.get('access-control-allow-credentials'), null)
  const allowed = response.headers.get('access-control-allow-origin')
  if (allowed !== origin && allowed !== '*') throw new TypeError('the page may not see the answer')
}

const listOf = (response: Response, name: string): string[] =>
  (response.headers.get(name) ?? '').split(',').map((item) => item.trim())

describe('pages of other origins', () => {
  let server: TestServer
  let url: string
  const tokens = { acme: '', bolt: '', admin: '' }
  before(async () => {
    server = await startTestServer(routes, { cors })
    url = `${server.url}/api/v1/things`
    tokens.acme = await server.token()
    tokens.bolt = await server.token({ ...ANN, tenant: 'bolt' })
    tokens.admin = await server.token(ROOT)
  })
  after(() => server[Symbol.asyncDispose]())

  const as = (token: string, more = {}) => ({ headers: { authorization: `Bearer ${token}`, ...more } })
  const create = (token: string) => ({
    ...as(token, { 'content-type': 'application/json', 'idempotency-key': 'k1', 'x-request-id': 'r1' }),
    method: 'POST',
    body: '{"name":"a"}',
  })

  it('see what their tenant, or every tenant, lets them see', async () => {
    for (const [origin, token] of [
      [COMMON, tokens.acme],
      [COMMON, tokens.bolt],
      [COMMON, tokens.admin],
      [OF_ACME, tokens.acme],
      [OF_BOLT, tokens.bolt],
    ] as const) {
      for (const init of token === tokens.admin ? [create(token)] : [as(token), create(token)]) {
        const seen = await fetchFrom(origin, url, init)
        assert.equal(seen.status, 200, origin)
        for (const name of ['ETag', 'Location', 'RateLimit', 'X-Request-Id']) assert.ok(seen.header(name), name)
      }
    }
    const acting = await fetchFrom(OF_BOLT, url, as(tokens.admin, { 'x-tenant-id': 'bolt' }))
    assert.equal(acting.status, 200, 'an administrator acts in a tenant')
  })

  it('of one tenant do nothing for another, and see nothing of it', async () => {
    const before = done.calls
    const refused: readonly (readonly [string, RequestInit])[] = [
      [OF_BOLT, as(tokens.acme)],
      [OF_BOLT, create(tokens.acme)],
      [OF_ACME, create(tokens.bolt)],
      [OF_ACME, create(tokens.admin)],
      [OF_ACME, as(tokens.admin, { 'x-tenant-id': 'bolt' })],
    ]
    for (const [origin, init] of refused) await assert.rejects(fetchFrom(origin, url, init), TypeError)
    assert.equal(done.calls, before)
    const { status } = await fetch(url, as(tokens.acme, { origin: OF_BOLT }))
    assert.equal(status, 403)
  })

  it('that nobody has named see nothing, whatever they ask', async () => {
    for (const origin of STRANGERS) {
      for (const init of [as(tokens.acme), create(tokens.bolt), {}]) {
        await assert.rejects(fetchFrom(origin, url, init), TypeError, origin)
      }
      const { headers } = await fetch(url, as(tokens.acme, { origin }))
      assert.equal(headers.get('access-control-allow-origin'), null, origin)
    }
  })

  it('see errors, too', async () => {
    for (const origin of [COMMON, OF_ACME, OF_BOLT]) {
      assert.equal((await fetchFrom(origin, url, as('nonsense'))).status, 401, origin)
      assert.equal((await fetchFrom(origin, url)).status, 401, origin)
    }
    const invalid = await fetchFrom(OF_ACME, url, { ...create(tokens.acme), body: '{}' })
    assert.deepEqual([invalid.status, JSON.parse(invalid.body).code], [400, 'validation_failed'])
    const other = await fetchFrom(OF_ACME, url, as(tokens.acme, { accept: 'image/png' }))
    assert.equal(other.status, 406)
  })

  it('send methods and headers that the address takes, and no others', async () => {
    await assert.rejects(fetchFrom(COMMON, url, { method: 'DELETE', ...as(tokens.acme) }), TypeError)
    await assert.rejects(fetchFrom(COMMON, url, as(tokens.acme, { 'x-anything': '1' })), TypeError)
    await assert.rejects(fetchFrom(COMMON, `${server.url}/api/v1/nothing`, as(tokens.acme)), TypeError)
  })

  it('are told apart by caches', async () => {
    for (const headers of [{}, { origin: COMMON }, { origin: STRANGERS[0] as string }]) {
      for (const method of ['GET', 'OPTIONS']) {
        const response = await fetch(url, { method, ...as(tokens.acme, headers) })
        assert.match(response.headers.get('vary') ?? '', /\bOrigin\b/)
      }
    }
  })
})

describe('without configured pages', () => {
  it('nothing is said of any, and clients with an Origin of their own are answered', async () => {
    await using server = await startTestServer(routes)
    for (const origin of [COMMON, 'null']) {
      const response = await server.ask('/api/v1/things', { headers: { origin } })
      assert.deepEqual([response.status, response.headers.get('access-control-allow-origin')], [200, null])
      assert.doesNotMatch(response.headers.get('vary') ?? '', /Origin/)
    }
    await assert.rejects(fetchFrom(COMMON, `${server.url}/api/v1/things`), TypeError)
  })

  it('every page may call where all may', async () => {
    await using server = await startTestServer(routes, { cors: { origins: ['*'], tenants: { acme: [OF_ACME] } } })
    const headers = { authorization: `Bearer ${await server.token({ ...ANN, tenant: 'bolt' })}` }
    const ask = (origin: string) => fetchFrom(origin, `${server.url}/api/v1/things`, { headers })
    for (const origin of [COMMON, OF_ACME]) assert.equal((await ask(origin)).status, 200)
    await assert.rejects(ask('null'), TypeError)
  })
})
