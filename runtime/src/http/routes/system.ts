import type { Registry } from 'prom-client'
import { Type } from 'typebox'
import { docsPage } from '../docs-page.ts'
import { buildOpenApi, type OpenApiInfo } from '../openapi.ts'
import type { ReadinessChecks } from '../readiness.ts'
import { defineRoute, type Route } from '../route.ts'
import { EXAMPLES } from './examples.ts'

const Check = Type.Object({
  name: Type.String(),
  ok: Type.Boolean(),
  latency_ms: Type.Integer(),
  message: Type.Optional(Type.String()),
  state: Type.Optional(
    Type.String({ description: 'ok, degraded, down or unknown; what is down may be ok to do without.' }),
  ),
  since: Type.Optional(
    Type.String({ format: 'date-time', description: 'Of a server beside the runtime: since when it is so.' }),
  ),
  remedy: Type.Optional(Type.String({ description: 'Of one that is down: what to do.' })),
})

const Readiness = Type.Object(
  { status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]), checks: Type.Array(Check) },
  { $id: 'Readiness' },
)

/** Probes for whatever runs the process, and its metrics. */
export function probeRoutes(
  readiness: Pick<ReadinessChecks, 'check'>,
  registry: Pick<Registry, 'metrics' | 'contentType'>,
): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/healthz',
      name: 'getHealth',
      summary: 'Whether the process is alive',
      tags: ['Operation'],
      auth: 'none',
      unlimited: true,
      responses: { 200: { description: 'It is.', schema: Type.Object({ status: Type.Literal('ok') }) } },
      handler: () => ({ body: { status: 'ok' } }),
    }),
    defineRoute({
      method: 'GET',
      path: '/readyz',
      name: 'getReadiness',
      summary: 'Whether the runtime can do its work, and how each dependency is, by name',
      tags: ['Operation'],
      auth: 'none',
      unlimited: true,
      responses: {
        200: { description: 'What the runtime cannot do without works.', schema: Readiness },
        503: { description: 'Something of that does not.', schema: Readiness },
      },
      handler: async () => {
        const result = await readiness.check()
        return { status: result.status === 'ready' ? 200 : 503, body: result }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/metrics',
      name: 'getMetrics',
      summary: 'Metrics for Prometheus',
      description: 'For administrators, and for the bearer of the configured token for metrics.',
      tags: ['Operation'],
      auth: 'operator',
      responses: { 200: { description: 'Text in the Prometheus format.', also: { 'text/plain': 'Prometheus 0.0.4' } } },
      handler: async () => ({ bytes: await registry.metrics(), contentType: registry.contentType }),
    }),
  ]
}

/** The OpenAPI document of the given routes and of these themselves, and the page that shows it. */
export function documentRoutes(others: readonly Route[], info: OpenApiInfo): readonly Route[] {
  let made: Documents | undefined
  const documents = (): Documents => {
    made ??= documentsOf([...others, ...own], info)
    return made
  }
  const own = [rootRoute(), openApiRoute(() => documents().json), docsRoute((nonce) => documents().page(nonce))]
  return own
}

interface Documents {
  readonly json: string
  readonly page: (nonce: string) => string
}

function documentsOf(routes: readonly Route[], info: OpenApiInfo): Documents {
  const document = buildOpenApi(routes, info, EXAMPLES)
  return { json: JSON.stringify(document), page: docsPage(document) }
}

const Index = Type.Object({
  service: Type.Literal('sluice'),
  documentation: Type.String(),
  openapi: Type.String(),
  health: Type.String(),
})

function rootRoute(): Route {
  return defineRoute({
    method: 'GET',
    path: '/',
    name: 'getRoot',
    summary: 'Where to read on',
    tags: ['Operation'],
    auth: 'none',
    responses: { 200: { description: 'Paths on this server.', schema: Index } },
    handler: () => ({
      body: { service: 'sluice', documentation: '/docs', openapi: '/openapi.json', health: '/healthz' },
    }),
  })
}

function openApiRoute(json: () => string): Route {
  return defineRoute({
    method: 'GET',
    path: '/openapi.json',
    name: 'getOpenApi',
    summary: 'This interface as an OpenAPI 3.1 document',
    tags: ['Operation'],
    auth: 'none',
    responses: { 200: { description: 'The document.' } },
    handler: () => ({ json: json(), headers: { 'Cache-Control': 'public, max-age=60' } }),
  })
}

function docsRoute(page: (nonce: string) => string): Route {
  return defineRoute({
    method: 'GET',
    path: '/docs',
    name: 'getDocs',
    summary: 'This interface as a page to read',
    tags: ['Operation'],
    auth: 'none',
    responses: { 200: { description: 'A page without outside assets.', also: { 'text/html': 'the page' } } },
    handler: () => {
      const nonce = crypto.randomUUID().replaceAll('-', '')
      const policy = `default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
      return {
        bytes: page(nonce),
        contentType: 'text/html; charset=utf-8',
        headers: { 'Content-Security-Policy': policy, 'Referrer-Policy': 'no-referrer' },
      }
    },
  })
}
