/**
 * On whose behalf a session asks. The token is held, and verified for every statement as it is for every request: a key that
 * was revoked, a tenant that is no more and a token that has ended are noticed then, whatever the session began with.
 */
import { randomUUID } from 'node:crypto'
import type { Principal, TenantCall } from '../../flow.ts'
import { networkOf } from '../../http/address.ts'
import { type Authenticator, limitKeyOf, type RateLimits, type Standing } from '../../http/guard.ts'
import type { LocalRateLimiter, RateLimiter } from '../../http/rate-limit.ts'
import { WireError } from '../protocol/wire-error.ts'

export interface Authorities {
  readonly authenticator: Authenticator
  standingOf(tenant: string): Standing | Promise<Standing>
  readonly rateLimits: RateLimits
  /** Of tenants: the one that requests take from, too. */
  readonly rateLimiter: RateLimiter
  /** Of addresses whose logins fail. */
  readonly addresses: LocalRateLimiter
}

export interface Login {
  readonly token: string
  readonly database: string
  readonly address: string
  /** The same for the whole session. */
  readonly connection: object
}

/** All that anybody is told who is not let in. */
export function authenticationFailed(): WireError {
  return new WireError('28P01', 'authentication failed', {
    isFatal: true,
    hint: 'The password is an access token or an application key for queries; the database is the tenant of it.',
  })
}

export class Authority {
  readonly #authorities: Authorities
  readonly #login: Login
  readonly tenant: string
  readonly tokenExpiresAtMs: number

  private constructor(authorities: Authorities, login: Login, { tokenExpiresAtMs }: Principal) {
    this.#authorities = authorities
    this.#login = login
    this.tenant = login.database
    this.tokenExpiresAtMs = tokenExpiresAtMs
  }

  /** Throws 28P01, and nothing else that says more. */
  static async of(authorities: Authorities, login: Login): Promise<Authority> {
    const { addresses, rateLimits } = authorities
    const network = networkOf(login.address)
    const known = authorities.authenticator.cached(login.token, login.connection)
    // A flood of bad tokens is refused before their signatures are computed; who is known is not locked out by others.
    if (known === null && !addresses.hasToken(network, rateLimits.address)) throw authenticationFailed()
    try {
      const principal = known ?? (await authorities.authenticator.verify(login.token))
      if (!mayEnter(principal, login.database)) throw authenticationFailed()
      const { status } = await authorities.standingOf(login.database)
      if (status !== 'active') throw authenticationFailed()
      return new Authority(authorities, login, principal)
    } catch {
      addresses.take(network, rateLimits.address)
      throw authenticationFailed()
    }
  }

  /** For one statement. Throws 28000 where the token is good no more, which ends the session, and 53400 for too many. */
  async call(signal: AbortSignal): Promise<TenantCall> {
    const { authenticator, rateLimits, rateLimiter } = this.#authorities
    const { token, connection } = this.#login
    const principal = authenticator.cached(token, connection) ?? (await this.#verified())
    if (principal.tokenExpiresAtMs <= Date.now()) throw tokenEnded()
    if (!mayEnter(principal, this.tenant)) throw tokenEnded()
    const { status, tier } = await this.#authorities.standingOf(this.tenant)
    const { allowed, retryAfterMs } = await rateLimiter.take(limitKeyOf(principal), rateLimits.tiers[tier])
    if (!allowed) {
      throw new WireError('53400', 'this tenant has sent too many requests', {
        code: 'rate_limited',
        hint: `Try again in ${Math.ceil(retryAfterMs / 1000)} s.`,
      })
    }
    if (status !== 'active') throw tokenEnded()
    return callOf(principal, this.tenant, signal)
  }

  async #verified(): Promise<Principal> {
    try {
      return await this.#authorities.authenticator.verify(this.#login.token)
    } catch {
      throw tokenEnded()
    }
  }
}

export function tokenEnded(): WireError {
  return new WireError('28000', 'the token or key of this session is good no more', {
    isFatal: true,
    code: 'token_expired',
    hint: 'Connect again with a valid one.',
  })
}

/** A member of the tenant, by a token that names it; a key has to be for queries. Administrators name no tenant here. */
function mayEnter({ tenant, key }: Principal, database: string): boolean {
  return tenant === database && (key === undefined || key.operations.includes('query'))
}

function callOf(principal: Principal, tenant: string, signal: AbortSignal): TenantCall {
  return {
    requestId: randomUUID(),
    traceparent: null,
    principal,
    tenant,
    namedTenant: null,
    signal,
    params: {},
    query: {},
    body: undefined,
    idempotencyKey: null,
    idempotency: null,
    lastEventId: null,
    mediaType: null,
    authorization: null,
  }
}
