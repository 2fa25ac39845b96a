import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import type { AdminUse, Standing } from './guard.ts'
import { defineRoute, type Route } from './route.ts'
import { pluginRoutes } from './routes/plugins.ts'
import { codeOf, ROOT, sendRaw, startTestServer, type TestServer } from './test-server.ts'

const responses = { 200: { description: 'Done.' } }

const routes: readonly Route[] = [
  ...pluginRoutes(() => []),
  defineRoute({
    method: 'GET',
    path: '/api/v1/things',
    name: 'listThings',
    summary: 'Things of a tenant',
    tags: ['Test'],
    auth: 'tenant',
    responses,
    handler: ({ tenant }) => ({ body: { tenant } }),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/platform',
    name: 'platform',
    summary: 'For administrators',
    tags: ['Test'],
    auth: 'admin',
    responses,
    handler: ({ tenant }) => ({ body: { tenant } }),
  }),
]

describe('access', () => {
  let server: TestServer
  const uses: AdminUse[] = []

  before(async () => {
    server = await startTestServer(routes, { onAdminUse: async (use) => void uses.push(use) })
  })
  after(() => server[Symbol.asyncDispose]())

  it('asks for a token, and says why one is refused', async () => {
    const ask = (authorization?: string): Promise<Response> =>
      fetch(`${server.url}/api/v1/plugins`, authorization === undefined ? {} : { headers: { authorization } })
    const missing = await ask()
    assert.equal(missing.status, 401)
    assert.equal(missing.headers.get('www-authenticate'), 'Bearer realm="sluice"')
    assert.equal(await codeOf(missing), 'token_missing')
    for (const header of ['Basic abc', 'Bearer', 'Bearer a b', 'Bearer x.y', `Bearer ${'a'.repeat(9000)}`]) {
      const response = await ask(header)
      assert.equal(response.status, 401, header.slice(0, 20))
      assert.equal(await codeOf(response), 'token_malformed', header.slice(0, 20))
      assert.match(response.headers.get('www-authenticate') ?? '', /error="invalid_token"/)
    }
  })

  it('refuses two tokens in one request', async () => {
    const token = await server.token()
    const answer = await sendRaw(
      server.port,
      `GET /api/v1/plugins HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    )
    assert.match(answer, /"code":"token_malformed"/)
  })

  it('lets only administrators name a tenant, and audits that before it answers', async () => {
    const forbidden = await server.ask('/api/v1/things', { headers: { 'x-tenant-id': 'acme' } })
    assert.equal(forbidden.status, 403)
    assert.equal(await codeOf(forbidden), 'tenant_header_forbidden')
    assert.equal(uses.length, 0)

    const headers = { authorization: `Bearer ${await server.token(ROOT)}` }
    assert.equal(await codeOf(await server.ask('/api/v1/things', { headers })), 'tenant_required')
    const bad = await server.ask('/api/v1/things', { headers: { ...headers, 'x-tenant-id': 'a--b' } })
    assert.equal(await codeOf(bad), 'malformed_header')

    const acting = await server.ask('/api/v1/things', { headers: { ...headers, 'x-tenant-id': 'globex' } })
    assert.equal(((await acting.json()) as { tenant: string }).tenant, 'globex')
    assert.deepEqual(
      uses.map(({ tenant, method, path }) => ({ tenant, method, path })),
      [{ tenant: 'globex', method: 'GET', path: '/api/v1/things' }],
    )
  })

  it('keeps operations of the platform for administrators', async () => {
    assert.equal(await codeOf(await server.ask('/api/v1/platform')), 'admin_required')
    const headers = { authorization: `Bearer ${await server.token(ROOT)}` }
    assert.equal((await server.ask('/api/v1/platform', { headers })).status, 200)
  })

  it('refuses an audit that fails', async () => {
    await using other = await startTestServer(routes, {
      onAdminUse: () => Promise.reject(new SluiceError('TRANSIENT', 'no audit', { code: 'audit_down' })),
    })
    const headers = { authorization: `Bearer ${await other.token(ROOT)}`, 'x-tenant-id': 'acme' }
    assert.equal((await other.ask('/api/v1/things', { headers })).status, 503)
  })

  it('refuses a token without a tenant where a route is inside one', async () => {
    const nobody = { cached: () => ({ ...PRINCIPAL, tenant: null }), verify: () => Promise.reject(new Error('unused')) }
    await using other = await startTestServer(routes, { authenticator: nobody })
    const response = await other.ask('/api/v1/things')
    assert.equal(response.status, 403)
    assert.equal(await codeOf(response), 'tenant_missing')
    assert.equal((await other.ask('/api/v1/plugins')).status, 200)
  })
})

describe('tenants', () => {
  const standings: Record<string, 'active' | 'inactive'> = { acme: 'inactive' }
  const standingOf = async (tenant: string): Promise<Standing> => ({
    tier: 'standard',
    status: standings[tenant] ?? 'unknown',
  })
  const of = (principal: Partial<typeof PRINCIPAL>) => ({
    standingOf,
    authenticator: {
      cached: () => ({ ...PRINCIPAL, ...principal }),
      verify: () => Promise.reject(new Error('unused')),
    },
  })
  const told = async (server: TestServer, path: string, headers = {}) => {
    const response = await server.ask(path, { headers })
    const { code, detail } = (await response.json()) as { readonly code?: string; readonly detail?: string }
    return [response.status, code, detail?.replaceAll(/acme|none-such/g, 'T')]
  }

  it('that are not active are refused as those that are none, until they are', async () => {
    await using own = await startTestServer(routes, of({}))
    await using other = await startTestServer(routes, of({ tenant: 'none-such' }))
    const refused = [403, 'tenant_not_served', 'there is no active tenant T, which the token names']
    for (const path of ['/api/v1/things', '/api/v1/plugins']) {
      assert.deepEqual(await told(own, path), refused)
      assert.deepEqual(await told(other, path), refused)
    }
    standings['acme'] = 'active'
    assert.equal((await own.ask('/api/v1/things')).status, 200)
    standings['acme'] = 'inactive'
    assert.deepEqual(await told(own, '/api/v1/things'), refused)
  })

  it('keep no administrator from what is done outside of them, and nobody acts in one that is none', async () => {
    await using server = await startTestServer(routes, of({ isAdmin: true, tenant: 'none-such' }))
    assert.equal((await server.ask('/api/v1/platform')).status, 200)
    assert.equal((await server.ask('/api/v1/plugins')).status, 200)
    assert.deepEqual((await told(server, '/api/v1/things')).slice(0, 2), [403, 'tenant_not_served'])
    const named = (tenant: string) => told(server, '/api/v1/things', { 'x-tenant-id': tenant })
    assert.deepEqual((await named('none-such')).slice(0, 2), [404, 'tenant_not_found'])
    assert.equal((await named('acme'))[0], 200, 'somebody has to see to one whose making failed')
  })
})

const PRINCIPAL = {
  issuer: 'https://id.example',
  subject: 'ann',
  tenant: 'acme',
  groups: [],
  isAdmin: false,
  isDeveloper: false,
  isViewer: false,
  claimedClearance: null,
  email: null,
  tokenExpiresAtMs: Number.POSITIVE_INFINITY,
  tokenIssuedAtMs: 0,
}
