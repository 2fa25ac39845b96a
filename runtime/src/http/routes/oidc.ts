import { EMBEDDED_ISSUER_PATH, type EmbeddedIssuer } from '../../auth/embedded-issuer.ts'
import { defineRoute, type Route } from '../route.ts'

const HEADERS = { 'Cache-Control': 'public, max-age=300' } as const

/** Documents by which others verify tokens of the embedded issuer. */
export function oidcRoutes(issuer: EmbeddedIssuer): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: `${EMBEDDED_ISSUER_PATH}/.well-known/openid-configuration`,
      name: 'getOpenIdConfiguration',
      summary: 'Discovery document of the embedded issuer',
      tags: ['Tokens'],
      auth: 'none',
      responses: { 200: { description: 'OpenID Connect discovery.' } },
      handler: () => ({ headers: HEADERS, body: issuer.discovery() }),
    }),
    defineRoute({
      method: 'GET',
      path: `${EMBEDDED_ISSUER_PATH}/jwks`,
      name: 'getJwks',
      summary: 'Public keys of the embedded issuer',
      tags: ['Tokens'],
      auth: 'none',
      responses: { 200: { description: 'A JSON Web Key Set.' } },
      handler: () => ({ headers: HEADERS, body: issuer.jwks() }),
    }),
  ]
}
