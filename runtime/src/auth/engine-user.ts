/**
 * What an engine outside knows of a person is one text: the claim that it is told to take for the user. The embedded issuer
 * writes the whole principal into it, so that the engine's questions can be answered as of the token and by nothing else. The
 * text is true because the token is signed and the engine has checked it: it must come from a verified identity only.
 */
import { SluiceError } from '@sluice/sdk'
import type { Level, Principal } from '../flow.ts'
import { CLASSIFICATIONS } from '../policy/classification.ts'
import { DEVELOPERS, identityOf, VIEWERS } from '../policy/identity.ts'
import { TENANT_ID } from './claims.ts'
import type { TrustedIssuer } from './issuers.ts'

/** For the engine's setting `http-server.authentication.jwt.principal-field`. */
export const ENGINE_USER_CLAIM = 'trino_user'

/**
 * As ENGINE_USER_CLAIM, with the second since 1970 at which the token ends, and a blank, in front. For the same
 * setting, together with ENGINE_USER_PATTERN: then the engine tells of each statement when its token ends.
 */
export const ENGINE_LOGIN_CLAIM = 'trino_login'

/** For `http-server.authentication.jwt.user-mapping.pattern`. */
export const ENGINE_USER_PATTERN = '[0-9]+ (.*)'

export const engineLogin = (user: string, expiresAtS: number): string => `${expiresAtS} ${user}`

/** When the token ended with which somebody logged in, in milliseconds; never, where the login does not say. */
export function tokenEndOf(login: string | null): number {
  const [, seconds] = /^([0-9]{1,12}) /.exec(login ?? '') ?? []
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1000
}

const MAX_LENGTH = 8_192
const MAX_NAME_LENGTH = 255
const MAX_GROUPS = 200

interface Written {
  readonly subject: string
  readonly tenant?: string
  readonly groups?: readonly string[]
  readonly clearance?: Level
  readonly admin?: true
}

/** The text, the same for the same person: engines tell users apart by it. */
export function engineUser(claims: Written): string {
  const { subject, tenant, groups, clearance, admin } = claims
  if (admin) return JSON.stringify({ subject, admin })
  return JSON.stringify({ subject, tenant, groups: [...(groups ?? [])].sort(), ...(clearance && { clearance }) })
}

/**
 * The principal behind an engine's user. Throws PERMISSION `trino_user_refused` for any text that is not of the issuer's
 * making, or claims what the issuer may not claim: the text is one of its claims and no more believed than the others.
 * @param issuer whose tokens the engine accepts
 */
export function principalOfEngineUser(user: string, issuer: TrustedIssuer): Principal {
  const written = parsed(user)
  const groups = written.groups ?? []
  const isAdmin = written.admin === true
  const tenant = isAdmin ? null : (written.tenant ?? null)
  refuseOutsideBinding(tenant, isAdmin, issuer)
  return {
    issuer: identityOf(issuer),
    subject: written.subject,
    tenant,
    groups,
    isAdmin,
    isDeveloper: tenant !== null && groups.includes(DEVELOPERS),
    isViewer: tenant !== null && groups.includes(VIEWERS),
    claimedClearance: written.clearance ?? null,
    email: null,
    // An engine checks the token's times when a statement begins; whoever watches over its statements ends them (`tokenEndOf`).
    tokenExpiresAtMs: Number.POSITIVE_INFINITY,
    tokenIssuedAtMs: 0,
  }
}

function refuseOutsideBinding(tenant: string | null, isAdmin: boolean, issuer: TrustedIssuer): void {
  if (isAdmin && !issuer.mayClaimAdmin)
    throw refused('the issuer of this user of an engine may not claim the admin role')
  if (tenant !== null && issuer.tenants !== 'all' && !issuer.tenants.has(tenant)) {
    throw refused('the issuer of this user of an engine may not claim this tenant')
  }
}

function parsed(user: string): Written {
  let value: unknown
  try {
    value = user.length <= MAX_LENGTH ? JSON.parse(user) : null
  } catch {
    value = null
  }
  if (isWritten(value)) return value
  throw refused('the user of the engine is none that the issuer has named')
}

function refused(message: string): SluiceError {
  return new SluiceError('PERMISSION', message, {
    code: 'trino_user_refused',
    remedy: `Let the engine take the claim ${ENGINE_USER_CLAIM} of verified tokens for the user.`,
  })
}

const KNOWN: readonly string[] = ['subject', 'tenant', 'groups', 'clearance', 'admin']

function isWritten(value: unknown): value is Written {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const { subject, tenant, groups, clearance, admin } = value as Record<string, unknown>
  const isPerson = typeof tenant === 'string' && TENANT_ID.test(tenant) && isNames(groups)
  const isOperator = admin === true && tenant === undefined && groups === undefined
  const isLevel = clearance === undefined || (CLASSIFICATIONS as readonly unknown[]).includes(clearance)
  const isKnown = Object.keys(value).every((key) => KNOWN.includes(key))
  return isName(subject) && isKnown && isLevel && (isOperator || (isPerson && admin === undefined))
}

function isNames(value: unknown): boolean {
  return Array.isArray(value) && value.length <= MAX_GROUPS && value.every(isName)
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME_LENGTH && !/\p{Cc}/u.test(value)
}
