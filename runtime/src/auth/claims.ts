import type { JWTPayload } from 'jose'
import type { Level, Principal } from '../flow.ts'
import { CLASSIFICATIONS } from '../policy/classification.ts'
import { DEVELOPERS, identityOf, VIEWERS } from '../policy/identity.ts'
import { tokenRefused } from './errors.ts'
import type { TrustedIssuer } from './issuers.ts'

const ADMIN_ROLE = 'admin'
const LEVELS: readonly string[] = CLASSIFICATIONS
const MAX_GROUPS = 200
const MAX_NAME_LENGTH = 255
/** Ids of tenants are their slugs, which are bucket names too. */
export const TENANT_ID = /^[a-z](?!.*--)[a-z0-9-]{1,37}[a-z0-9]$/

/**
 * The principal of a payload whose signature, issuer, audience and times are verified. Throws `token_claim_refused`
 * for claims of the wrong shape and for what the issuer may not claim: half-understood claims give nobody rights.
 */
export function principalOf(payload: JWTPayload, issuer: TrustedIssuer): Principal {
  refuseOtherTokenUse(payload)
  const tenant = tenantOf(payload, issuer)
  const groups = textList(payload, issuer.claims.groups).map((group) => group.replace(/^\//, ''))
  const isAdmin = rolesOf(payload, issuer).includes(ADMIN_ROLE)
  if (isAdmin && !issuer.mayClaimAdmin) {
    throw tokenRefused('token_claim_refused', 'the issuer of this token may not claim the admin role')
  }
  const client = payload['azp'] ?? payload['client_id']
  return {
    issuer: identityOf(issuer),
    subject: name(payload.sub, 'sub'),
    tenant,
    groups,
    isAdmin,
    isDeveloper: tenant !== null && groups.includes(DEVELOPERS),
    isViewer: tenant !== null && groups.includes(VIEWERS),
    claimedClearance: clearanceOf(payload, issuer),
    email: emailOf(payload, issuer),
    tokenExpiresAtMs: (payload.exp as number) * 1000,
    tokenIssuedAtMs: issuedAtMs(payload),
    ...(client === undefined || client === null ? {} : { client: name(client, 'azp') }),
  }
}

function issuedAtMs({ iat }: JWTPayload): number {
  return typeof iat === 'number' && iat > 0 ? iat * 1000 : 0
}

/** Some issuers sign identity and refresh tokens with the same keys; they say in `typ` that those grant no access. */
function refuseOtherTokenUse(payload: JWTPayload): void {
  const use = payload.typ
  if (use === 'ID' || use === 'Refresh' || use === 'Offline' || use === 'Logout') {
    throw tokenRefused('token_invalid', 'this is not an access token')
  }
}

function tenantOf(payload: JWTPayload, issuer: TrustedIssuer): string | null {
  const value = claim(payload, issuer.claims.tenant)
  if (value === undefined || value === null) return null
  if (typeof value !== 'string' || !TENANT_ID.test(value)) {
    throw tokenRefused('token_claim_refused', `the claim ${issuer.claims.tenant} must be the id of one tenant`)
  }
  if (issuer.tenants !== 'all' && !issuer.tenants.has(value)) {
    throw tokenRefused('token_claim_refused', 'the issuer of this token may not claim this tenant')
  }
  return value
}

function rolesOf(payload: JWTPayload, issuer: TrustedIssuer): readonly string[] {
  const own = textList(payload, issuer.claims.roles)
  return issuer.claims.roles === 'roles' ? [...own, ...textList(payload, 'realm_access.roles')] : own
}

function clearanceOf(payload: JWTPayload, issuer: TrustedIssuer): Level | null {
  const value = claim(payload, issuer.claims.clearance)
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && LEVELS.includes(value)) return value as Level
  throw tokenRefused('token_claim_refused', `the claim ${issuer.claims.clearance} must be one of ${LEVELS.join(', ')}`)
}

function emailOf(payload: JWTPayload, issuer: TrustedIssuer): string | null {
  const value = claim(payload, issuer.claims.email)
  return value === undefined || value === null ? null : name(value, issuer.claims.email)
}

function textList(payload: JWTPayload, path: string): readonly string[] {
  const value = claim(payload, path)
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || value.length > MAX_GROUPS) {
    throw tokenRefused('token_claim_refused', `the claim ${path} must be a list of at most ${MAX_GROUPS} names`)
  }
  return value.map((entry) => name(entry, path))
}

function name(value: unknown, path: string): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME_LENGTH && !/\p{Cc}/u.test(value)) {
    return value
  }
  throw tokenRefused('token_claim_refused', `the claim ${path} must hold printable text`)
}

/** A claim of exactly that name wins over a path: some issuers use names with dots, such as URLs. */
function claim(payload: JWTPayload, path: string): unknown {
  if (Object.hasOwn(payload, path)) return payload[path]
  let node: unknown = payload
  for (const key of path.split('.')) {
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) return undefined
    node = (node as Record<string, unknown>)[key]
  }
  return node
}
