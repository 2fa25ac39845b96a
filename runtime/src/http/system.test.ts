import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose'
import { Registry } from 'prom-client'
import { Type } from 'typebox'
import { ERROR_CODES } from './codes.ts'
import { httpMetrics } from './metrics.ts'
import { buildOpenApi, type OpenApiDocument } from './openapi.ts'
import { ReadinessChecks } from './readiness.ts'
import { defineRoute, type Route } from './route.ts'
import { oidcRoutes } from './routes/oidc.ts'
import { pluginRoutes } from './routes/plugins.ts'
import { documentRoutes, probeRoutes } from './routes/system.ts'
import { ROOT, startTestServer } from './test-server.ts'

const info = { title: 'Sluice <b>', version: '1.2.3' }

const upload = defineRoute({
  method: 'POST',
  path: '/api/v1/uploads/{id}',
  name: 'upload',
  summary: 'Upload <script>',
  tags: ['Test'],
  auth: 'tenant',
  params: Type.Object({ id: Type.String({ description: 'Which one.' }) }),
  query: Type.Object({ limit: Type.Integer({ minimum: 1, default: 10 }) }),
  multipart: { parts: ['a', 'b'], required: ['a'], maxPartBytes: 100 },
  idempotent: true,
  errors: ['not_found'],
  responses: { 200: { description: 'Done.', schema: Type.Object({ $id: Type.Optional(Type.String()) }) } },
  authorize: () => {},
  handler: () => ({ empty: true }),
})

function everything(readiness: ReadinessChecks, registry: Registry): readonly Route[] {
  const routes = [...pluginRoutes(() => []), upload, ...probeRoutes(readiness, registry)]
  return [...routes, ...documentRoutes(routes, info)]
}

describe('probes', () => {
  it('name each dependency, and hide why one fails unless it is meant for clients', async () => {
    let isUp = true
    const readiness = new ReadinessChecks([
      { name: 'registry', check: async () => ({ role: 'primary' }) },
      {
        name: 'lake',
        check: async () => {
          if (!isUp) throw new Error('EACCES /secret/path')
          return undefined
        },
      },
      {
        name: 'realtime',
        check: async () => {
          if (!isUp) throw new SluiceError('TRANSIENT', 'the store is down', { code: 'store_down' })
          return undefined
        },
      },
    ])
    await using server = await startTestServer(everything(readiness, new Registry()))
    assert.deepEqual(await (await fetch(`${server.url}/healthz`)).json(), { status: 'ok' })
    const ready = await fetch(`${server.url}/readyz`)
    assert.equal(ready.status, 200)
    const body = (await ready.json()) as { status: string; checks: { name: string; role?: string }[] }
    assert.deepEqual(
      body.checks.map(({ name }) => name),
      ['registry', 'lake', 'realtime'],
    )
    assert.equal(body.checks[0]?.role, 'primary')
    isUp = false
    await new Promise((resolve) => setTimeout(resolve, 1_050))
    const down = await fetch(`${server.url}/readyz`)
    assert.equal(down.status, 503)
    const text = await down.text()
    assert.match(text, /"name":"lake","ok":false,"latency_ms":\d+,"message":"it failed"/)
    assert.match(text, /the store is down/)
    assert.doesNotMatch(text, /secret/)
  })

  it('ask the dependencies once for many requests', async () => {
    let asked = 0
    const readiness = new ReadinessChecks([
      {
        name: 'registry',
        check: async () => {
          asked += 1
          return undefined
        },
      },
    ])
    await Promise.all(Array.from({ length: 20 }, () => readiness.check()))
    assert.equal(asked, 1)
  })

  it('give up on a dependency that hangs', async () => {
    const readiness = new ReadinessChecks([{ name: 'lake', check: () => new Promise(() => {}) }])
    const result = await readiness.check()
    assert.equal(result.status, 'not_ready')
    assert.equal(result.checks[0]?.message, 'it did not answer in time')
  })
})

describe('/metrics', () => {
  it('is for administrators and the token for metrics, which opens nothing else', async () => {
    const registry = new Registry()
    const routes = everything(new ReadinessChecks([]), registry)
    await using server = await startTestServer(routes, { metricsToken: 'scrape-me', onFinished: httpMetrics(registry) })
    const ask = (path: string, token: string): Promise<Response> =>
      server.ask(path, { headers: { authorization: `Bearer ${token}` } })
    assert.equal((await fetch(`${server.url}/metrics`)).status, 401)
    assert.equal((await server.ask('/metrics')).status, 403)
    assert.equal((await ask('/metrics', 'scrape-mf')).status, 401)
    assert.equal((await ask('/api/v1/plugins', 'scrape-me')).status, 401)
    assert.equal((await ask('/metrics', await server.token(ROOT))).status, 200)
    await server.ask('/api/v1/nothing/of/this?secret=1')
    const text = await (await ask('/metrics', 'scrape-me')).text()
    assert.match(text, /sluice_http_requests_total\{method="GET",route="\/metrics",status="401"\} 2/)
    assert.match(text, /sluice_http_requests_total\{method="OTHER",route="",status="404"\} 1/)
    assert.match(text, /sluice_http_request_duration_seconds_bucket/)
    assert.doesNotMatch(text, /secret/)
  })
})

describe('/openapi.json', () => {
  it('describes every route by its own schemas', async () => {
    await using server = await startTestServer(everything(new ReadinessChecks([]), new Registry()))
    const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApiDocument
    assert.equal(document.openapi, '3.1.0')
    assert.deepEqual(Object.keys(document.paths).toSorted(), [
      '/',
      '/api/v1/plugins',
      '/api/v1/uploads/{id}',
      '/docs',
      '/healthz',
      '/metrics',
      '/openapi.json',
      '/readyz',
    ])
    const operation = document.paths['/api/v1/uploads/{id}']?.post
    assert.deepEqual(
      operation?.parameters.map(({ name, in: place, required }) => [name, place, required]),
      [
        ['id', 'path', true],
        ['limit', 'query', false],
        ['X-Tenant-Id', 'header', false],
        ['Idempotency-Key', 'header', false],
      ],
    )
    assert.deepEqual(
      Object.keys(operation?.responses ?? {}),
      ['200', '400', '401', '404', '406', '409', '422', '429', 'default'].toSorted(),
    )
    assert.deepEqual(document.paths['/healthz']?.get?.security, [])
    const plugins = JSON.stringify(document.paths['/api/v1/plugins']?.get?.responses['200'])
    assert.match(plugins, /#\/components\/schemas\/Plugin/)
    assert.ok('Plugin' in document.components.schemas)
    const list = await server.ask('/api/v1/plugins?limit=1')
    assert.deepEqual([list.status, await list.json()], [200, { data: [], next_cursor: null }])
    assert.match(JSON.stringify(operation?.responses['200']), /"properties":{"\$id":{"type":"string"}}/)
  })

  it('refers to nothing that is not in it', () => {
    const document = buildOpenApi(everything(new ReadinessChecks([]), new Registry()), info)
    for (const [, name] of JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g)) {
      assert.ok(Object.hasOwn(document.components.schemas, name as string), name)
    }
    const names = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map((one) => one.operationId),
    )
    assert.equal(new Set(names).size, names.length)
  })
})

describe('/docs', () => {
  it('shows every operation and every code, with no outside asset and under a nonce of its own', async () => {
    await using server = await startTestServer(everything(new ReadinessChecks([]), new Registry()))
    const first = await fetch(`${server.url}/docs`)
    const page = await first.text()
    const nonce = /'nonce-(\w+)'/.exec(first.headers.get('content-security-policy') ?? '')?.[1]
    assert.ok(nonce)
    assert.equal(
      [...page.matchAll(/<(?:style|script)([^>]*)>/g)].every(([, attributes]) => attributes === ` nonce="${nonce}"`),
      true,
    )
    const second = await fetch(`${server.url}/docs`)
    assert.ok(!second.headers.get('content-security-policy')?.includes(nonce))
    assert.doesNotMatch(page, /(?:src|href)="(?!#|data:,|\/openapi\.json)/)
    assert.doesNotMatch(page, /<script>|<b>/)
    for (const name of ['listPlugins', 'upload', 'getReadiness']) assert.match(page, new RegExp(`id="${name}"`))
    for (const code of Object.keys(ERROR_CODES)) assert.match(page, new RegExp(`id="error-${code}"`))
  })
})

describe('the embedded issuer over HTTP', () => {
  it('publishes what others need to verify its tokens', async () => {
    await using server = await startTestServer([])
    await using served = await startTestServer(oidcRoutes(server.issuer))
    const discovery = (await (await fetch(`${served.url}/oidc/.well-known/openid-configuration`)).json()) as Record<
      string,
      string
    >
    assert.equal(discovery.issuer, 'http://localhost/oidc')
    assert.equal(discovery.jwks_uri, 'http://localhost/oidc/jwks')
    const jwks = (await (await fetch(`${served.url}/oidc/jwks`)).json()) as JSONWebKeySet
    assert.ok(
      jwks.keys.every((key) => !('d' in key)),
      'no private key leaves',
    )
    const token = await server.token()
    const { payload } = await jwtVerify(token, createLocalJWKSet(jwks), {
      issuer: discovery.issuer as string,
      audience: 'sluice',
    })
    assert.equal(payload.tenant_id, 'acme')
    assert.equal(decodeProtectedHeader(token).kid, jwks.keys[0]?.kid)
  })
})

it('readiness ends before everything else, and says why', async () => {
  const readiness = new ReadinessChecks([{ name: 'registry', check: async () => undefined }])
  assert.equal((await readiness.check()).status, 'ready')
  readiness.stop()
  const { status, checks } = await readiness.check()
  assert.equal(status, 'not_ready')
  assert.deepEqual(
    checks.map(({ name, ok }) => [name, ok]),
    [
      ['runtime', false],
      ['registry', true],
    ],
  )
})
