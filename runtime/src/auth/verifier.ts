import { hash } from 'node:crypto'
import { isSluiceError, type SluiceError } from '@sluice/sdk'
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Principal } from '../flow.ts'
import { principalOf } from './claims.ts'
import { tokenRefused } from './errors.ts'
import type { TrustedIssuer } from './issuers.ts'

/** A verified token is believed this long without being verified again, and never past its own expiry. */
const MAX_CACHE_AGE_MS = 60_000
const MAX_CACHED_TOKENS = 10_000
const MAX_TOKEN_LENGTH = 8 * 1024
const CLOCK_TOLERANCE_S = 5
/** RFC 9068 and what common issuers send; anything else is a JWT made for another purpose. */
const TOKEN_TYPES: readonly string[] = ['jwt', 'at+jwt', 'application/at+jwt', 'application/jwt']
const JWT_SHAPE = /^[\w-]+\.[\w-]+\.[\w-]+$/

export interface VerifierOptions {
  readonly issuers: readonly TrustedIssuer[]
  readonly nowMs?: () => number
}

interface Verified {
  readonly principal: Principal
  readonly fromMs: number
  readonly untilMs: number
}

/** Verifies bearer tokens of the configured issuers. */
export class TokenVerifier {
  readonly #issuers: ReadonlyMap<string, TrustedIssuer>
  readonly #nowMs: () => number
  readonly #verified = new LRUCache<string, Verified>({ max: MAX_CACHED_TOKENS })
  /** Ends with the connection, which holds the same token in its request's headers meanwhile. */
  readonly #latest = new WeakMap<object, { readonly token: string; readonly verified: Verified }>()
  readonly #pending = new Map<string, Promise<Principal>>()

  constructor(options: VerifierOptions) {
    this.#issuers = new Map(options.issuers.map((issuer) => [issuer.issuer, issuer]))
    this.#nowMs = options.nowMs ?? Date.now
  }

  /**
   * The principal of a token that was verified within the last minute, without I/O; null for any other. A connection
   * that sends the same token again is spared the token's hash, which costs more than everything else here.
   */
  cached(token: string, connection: object): Principal | null {
    const latest = this.#latest.get(connection)
    if (latest?.token === token && this.#isGood(latest.verified)) return latest.verified.principal
    const verified = this.#verified.get(fingerprint(token))
    if (verified === undefined || !this.#isGood(verified)) return null
    this.#latest.set(connection, { token, verified })
    return verified.principal
  }

  /**
   * Throws PERMISSION with a `token_…` code for a token that is refused, and TRANSIENT `issuer_unavailable` when its
   * issuer's keys cannot be read. The same token asked for at the same time is verified once.
   */
  verify(token: string): Promise<Principal> {
    const key = fingerprint(token)
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    const attempt = this.#verifyNew(token, key).finally(() => this.#pending.delete(key))
    this.#pending.set(key, attempt)
    return attempt
  }

  /** Where the machine's clock was set back, it cannot say any more how old this is. */
  #isGood({ fromMs, untilMs }: Verified): boolean {
    const nowMs = this.#nowMs()
    return nowMs >= fromMs && nowMs < untilMs
  }

  async #verifyNew(token: string, key: string): Promise<Principal> {
    const nowMs = this.#nowMs()
    const issuer = this.#issuerOf(token)
    const payload = await verifySignature(token, issuer, nowMs)
    const principal = principalOf(payload, issuer)
    const untilMs = Math.min(nowMs + MAX_CACHE_AGE_MS, principal.tokenExpiresAtMs)
    this.#verified.set(key, { principal, fromMs: nowMs, untilMs })
    return principal
  }

  /** Chosen by the unverified `iss`, which decides only whose keys and rules the token is then held against. */
  #issuerOf(token: string): TrustedIssuer {
    const claimed = unverifiedIssuer(token)
    const issuer = this.#issuers.get(claimed)
    if (issuer === undefined)
      throw tokenRefused('token_invalid', 'the issuer of this token is not one of those configured')
    return issuer
  }
}

function fingerprint(token: string): string {
  return hash('sha256', token, 'base64')
}

function unverifiedIssuer(token: string): string {
  if (token.length > MAX_TOKEN_LENGTH) throw tokenRefused('token_malformed', 'the token is longer than 8 KiB')
  if (!JWT_SHAPE.test(token)) throw tokenRefused('token_malformed', 'the token is not a signed JWT')
  try {
    const { typ } = decodeProtectedHeader(token)
    if (typ !== undefined && !TOKEN_TYPES.includes(String(typ).toLowerCase())) {
      throw tokenRefused('token_invalid', 'the token says that it is not an access token')
    }
    return String(decodeJwt(token).iss)
  } catch (cause) {
    if (isSluiceError(cause)) throw cause
    throw tokenRefused('token_malformed', 'the token is not a signed JWT', cause)
  }
}

async function verifySignature(token: string, issuer: TrustedIssuer, nowMs: number): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, issuer.keys.getKey, {
      issuer: issuer.issuer,
      audience: issuer.audience,
      algorithms: [...issuer.algorithms],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(nowMs),
      requiredClaims: ['exp', 'sub'],
    })
    return payload
  } catch (cause) {
    throw isSluiceError(cause) ? cause : refusalOf(cause)
  }
}

function refusalOf(cause: unknown): SluiceError {
  if (cause instanceof errors.JWTExpired) return tokenRefused('token_expired', 'the token has expired', cause)
  if (cause instanceof errors.JWTClaimValidationFailed) {
    return cause.claim === 'nbf' && cause.reason === 'check_failed'
      ? tokenRefused('token_not_yet_valid', 'the token is not valid yet', cause)
      : tokenRefused(
          'token_invalid',
          `the claim ${claimName(cause.claim)} of this token is missing or not accepted`,
          cause,
        )
  }
  if (cause instanceof errors.JOSEAlgNotAllowed) {
    return tokenRefused('token_invalid', 'the signature algorithm of this token is not accepted from its issuer', cause)
  }
  return tokenRefused('token_invalid', 'the signature of this token could not be verified', cause)
}

/** Only registered names are repeated: a claim's name is text of whoever made the token. */
function claimName(claim: string): string {
  return ['iss', 'aud', 'exp', 'nbf', 'iat', 'sub'].includes(claim) ? claim : '(unnamed)'
}
