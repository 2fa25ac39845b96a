/**
 * The issuers whose tokens are taken, and what each of them may claim. Trust is given per issuer: a token that claims
 * a tenant or a role outside its issuer's binding is refused, not trimmed.
 */
import { SluiceError } from '@sluice/sdk'
import type { JWTVerifyGetKey } from 'jose'
import { POLICY_KEY } from '../config/servers-beside.ts'
import type { NamingIssuer } from '../policy/identity.ts'

/** Where the claims stand; a dot goes one level down: `realm_access.roles`. */
export interface ClaimNames {
  readonly tenant: string
  readonly groups: string
  readonly roles: string
  readonly clearance: string
  readonly email: string
}

export const DEFAULT_CLAIMS: ClaimNames = {
  tenant: 'tenant_id',
  groups: 'groups',
  roles: 'roles',
  clearance: 'clearance',
  email: 'email',
}

/** Asymmetric only, and never what a token's header alone asks for. */
export const SIGNATURE_ALGORITHMS = ['RS256', 'ES256', 'EdDSA'] as const

export type SignatureAlgorithm = (typeof SIGNATURE_ALGORITHMS)[number]

/**
 * Finds the public key of a token. Throws TRANSIENT `issuer_unavailable` when the issuer's keys cannot be read, so
 * that a broken issuer is a 503 and never a refusal of a good token.
 */
export interface KeySource {
  getKey: JWTVerifyGetKey
  /** Reads the keys now; for readiness. Repeatable. */
  check(signal: AbortSignal): Promise<void>
}

export interface TrustedIssuer extends NamingIssuer {
  readonly audience: string
  readonly algorithms: readonly SignatureAlgorithm[]
  readonly mayClaimAdmin: boolean
  readonly claims: ClaimNames
  readonly keys: KeySource
}

/**
 * Whose tokens an engine outside accepts. Its questions do not say who signed a token, so of several issuers the one has to be named:
 * a guess would give people what only another issuer may claim. Throws CONFIG `invalid_config`.
 */
export function issuerOfEngine(issuers: readonly TrustedIssuer[], named: string | undefined): TrustedIssuer {
  const remedy = `Set ${POLICY_KEY}.issuer to the address of one of auth.issuers: the one whose tokens the engine is told to take.`
  return theIssuer(issuers, named, 'signs the tokens that the engine accepts', remedy)
}

/**
 * Whose people log in to the dashboard server, which knows them by their subject only. Throws CONFIG `invalid_config`
 * where several could be meant.
 */
export function issuerOfDashboards(issuers: readonly TrustedIssuer[], named: string | undefined): TrustedIssuer {
  const remedy =
    'Set dashboards.issuer to the address of one of auth.issuers: the one that people log in through there.'
  return theIssuer(issuers, named, 'names the people of the dashboard server', remedy)
}

function theIssuer(
  issuers: readonly TrustedIssuer[],
  named: string | undefined,
  what: string,
  remedy: string,
): TrustedIssuer {
  const candidates = named === undefined ? issuers : issuers.filter(({ issuer }) => issuer === named)
  const [only] = candidates
  if (only !== undefined && candidates.length === 1) return only
  throw new SluiceError('CONFIG', `it is not told which of the issuers ${what}`, { code: 'invalid_config', remedy })
}
