/**
 * On whose behalf a session asks. What it was let in by is held, and verified for every statement as it is for every request:
 * a key or password that was revoked, a tenant that is no more and a token that has ended are noticed then, whatever the
 * session began with.
 */
import { randomUUID } from 'node:crypto'
import type { PasswordAuthenticator } from '../../auth/service-passwords.ts'
import type { Principal, TenantCall } from '../../flow.ts'
import { networkOf } from '../../http/address.ts'
import { type Authenticator, limitKeyOf, type RateLimits, type Standing } from '../../http/guard.ts'
import type { LocalRateLimiter, RateLimiter } from '../../http/rate-limit.ts'
import { WireError } from '../protocol/wire-error.ts'
import type { Good, Held } from './credential-watch.ts'

export interface Authorities {
  readonly authenticator: Authenticator
  readonly passwords: Pick<PasswordAuthenticator, 'verifierOf' | 'principalOf'>
  /** What sessions are held to while they are idle. */
  readonly good: Good
  standingOf(tenant: string): Standing | Promise<Standing>
  readonly rateLimits: RateLimits
  /** Of tenants: the one that requests take from, too. */
  readonly rateLimiter: RateLimiter
  /** Of addresses whose logins fail. */
  readonly addresses: LocalRateLimiter
}

interface Login {
  readonly database: string
  readonly address: string
}

export interface TokenLogin extends Login {
  readonly token: string
  /** The same for the whole session. */
  readonly connection: object
}

export interface PasswordLogin extends Login {
  readonly user: string
}

/** What a session was let in by. */
interface Credential {
  /** Whose it is, where that is known without asking. */
  cached(): Principal | null
  /** Rejects where it is good no more. */
  verify(): Promise<Principal>
}

/** All that anybody is told who is not let in. */
export function authenticationFailed(): WireError {
  return new WireError('28P01', 'authentication failed', {
    isFatal: true,
    hint: 'The password is an access token or an application key for queries, or that of a service password with its id as the user; the database is the tenant of it.',
  })
}

/** Logins that fail take of the bucket of their network. */
export class FailedLogins {
  readonly #authorities: Authorities
  readonly #network: string

  constructor(authorities: Authorities, address: string) {
    this.#authorities = authorities
    this.#network = networkOf(address)
  }

  /** Throws 28P01 to a network of which too many have failed. */
  refuseMany(): void {
    const { addresses, rateLimits } = this.#authorities
    if (!addresses.hasToken(this.#network, rateLimits.address)) throw authenticationFailed()
  }

  count(): void {
    const { addresses, rateLimits } = this.#authorities
    addresses.take(this.#network, rateLimits.address)
  }
}

export class Authority {
  readonly #authorities: Authorities
  readonly #credential: Credential
  readonly tenant: string
  /** What it ends with, besides its time. */
  readonly held: Held
  readonly expiresAtMs: number

  private constructor(authorities: Authorities, credential: Credential, tenant: string, begun: Begun) {
    this.#authorities = authorities
    this.#credential = credential
    this.tenant = tenant
    this.held = begun.held
    this.expiresAtMs = begun.expiresAtMs
  }

  /** Throws 28P01, and nothing else that says more. */
  static ofToken(authorities: Authorities, { token, connection, ...login }: TokenLogin): Promise<Authority> {
    const { authenticator } = authorities
    const credential = {
      cached: () => authenticator.cached(token, connection),
      verify: () => authenticator.verify(token),
    }
    return Authority.#of(authorities, credential, login, null)
  }

  /** For who has proved the password. Throws 28P01, and nothing else that says more. */
  static ofPassword(authorities: Authorities, { user, ...login }: PasswordLogin): Promise<Authority> {
    const credential = { cached: () => null, verify: () => authorities.passwords.principalOf(user) }
    return Authority.#of(authorities, credential, login, user)
  }

  static async #of(
    authorities: Authorities,
    credential: Credential,
    { database, address }: Login,
    passwordUser: string | null,
  ): Promise<Authority> {
    const failed = new FailedLogins(authorities, address)
    const known = credential.cached()
    // A flood of bad tokens is refused before their signatures are computed; who is known is not locked out by others.
    if (known === null) failed.refuseMany()
    try {
      const principal = known ?? (await credential.verify())
      if (!mayEnter(principal, database)) throw authenticationFailed()
      const { status } = await authorities.standingOf(database)
      if (status !== 'active') throw authenticationFailed()
      const held =
        passwordUser === null ? heldOf(principal, database) : ({ kind: 'password', id: passwordUser } as const)
      return new Authority(authorities, credential, database, { held, expiresAtMs: principal.tokenExpiresAtMs })
    } catch {
      failed.count()
      throw authenticationFailed()
    }
  }

  /** For one statement. Throws 28000 where it is good no more, which ends the session, and 53400 for too many. */
  async call(signal: AbortSignal): Promise<TenantCall> {
    const { rateLimits, rateLimiter } = this.#authorities
    const principal = this.#credential.cached() ?? (await this.#verified())
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
      return await this.#credential.verify()
    } catch {
      throw tokenEnded()
    }
  }
}

interface Begun {
  readonly held: Held
  readonly expiresAtMs: number
}

const heldOf = ({ key, subject }: Principal, tenant: string): Held =>
  key === undefined ? { kind: 'tenant', id: tenant } : { kind: 'key', id: subject }

export function tokenEnded(): WireError {
  return new WireError('28000', 'the token, key or service password of this session is good no more', {
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
