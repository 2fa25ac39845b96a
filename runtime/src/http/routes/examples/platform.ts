import type { OperationExamples } from '../../example.ts'
import { ISSUER, page } from './world.ts'

export const PLATFORM_EXAMPLES: OperationExamples = {
  listPlugins: {
    answers: {
      200: page(
        {
          name: 'lmdb',
          version: '1.0.0',
          type: 'realtime',
          kind: 'serving',
          package: '@sluice/realtime',
          package_version: '0.1.0',
          sdk: '^1.0.0',
          capabilities: { commit: 'atomic', operations: ['key'], ttl: { granularityMs: 1 } },
          proof: {
            status: 'bundled',
            levels: [],
            certificates: [],
            off: [],
            message: 'proved by the tests of this release',
          },
          health: { status: 'ok' },
        },
        {
          name: 'streams',
          version: '2.1.0',
          type: 'event-bus',
          kind: 'event-bus',
          package: 'event-bus-on-streams',
          package_version: '2.1.0',
          sdk: '^1.1.0',
          capabilities: {},
          proof: {
            status: 'allowed',
            levels: [],
            certificates: [],
            off: [],
            message: 'proved by nobody but you: no suite proves plugins of this kind',
          },
          health: { status: 'ok', since: '2026-07-01T08:00:00.000Z' },
        },
      ),
    },
  },
  getOpenIdConfiguration: {
    answers: {
      200: {
        issuer: ISSUER,
        jwks_uri: `${ISSUER}/jwks`,
        response_types_supported: [],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
        claims_supported: ['iss', 'sub', 'aud', 'exp', 'iat', 'tenant_id', 'groups', 'roles', 'clearance', 'email'],
      },
    },
  },
  getJwks: {
    answers: {
      200: {
        keys: [
          {
            kty: 'EC',
            crv: 'P-256',
            alg: 'ES256',
            use: 'sig',
            kid: '5Zq0r2',
            x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
            y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
          },
        ],
      },
    },
  },
  getHealth: { answers: { 200: { status: 'ok' } } },
  getReadiness: {
    answers: {
      200: {
        status: 'ready',
        checks: [
          { name: 'registry', ok: true, latency_ms: 2 },
          { name: 'store:lookup', ok: true, latency_ms: 0 },
          {
            ...{
              name: 'service:event-bus:streams',
              ok: true,
              latency_ms: 0,
              state: 'down',
              since: '2026-07-01T08:00:00.000Z',
            },
            message: 'the event bus could not do it',
            remedy: 'Check that the bus runs, and its address and login under events.streams.',
          },
        ],
      },
      503: {
        status: 'not_ready',
        checks: [
          { name: 'registry', ok: true, latency_ms: 2 },
          { name: 'store:lookup', ok: false, latency_ms: 2000, message: 'it did not answer in time' },
        ],
      },
    },
  },
  getMetrics: {
    also: {
      'text/plain':
        '# HELP sluice_http_requests_total Requests answered, by route and status.\n# TYPE sluice_http_requests_total counter\nsluice_http_requests_total{method="POST",route="/api/v1/query",status="200"} 1\n',
    },
  },
  getRoot: {
    answers: { 200: { service: 'sluice', documentation: '/docs', openapi: '/openapi.json', health: '/healthz' } },
  },
  getManifestSchema: {
    params: { manifest: 'product' },
    answers: {
      200: { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'product.yaml', type: 'object' },
    },
  },
  getOpenApi: { answers: { 200: { openapi: '3.1.0', info: { title: 'Sluice', version: '1' }, paths: {} } } },
  getDocs: { also: { 'text/html': '<!doctype html><html lang="en"><title>Sluice</title></html>' } },
}
