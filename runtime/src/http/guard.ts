/** Who calls, on whose behalf, and how often: what is decided before anything of the request is read. */
import { hash, timingSafeEqual } from 'node:crypto'
import { TENANT_ID } from '../auth/claims.ts'
import type { KeyScope, Principal } from '../flow.ts'
import { networkOf } from './address.ts'
import { markKnown } from './doors.ts'
import type { Exchange } from './exchange.ts'
import { refuse } from './problem.ts'
import { LocalRateLimiter, type RateLimiter, type RatePolicy, rateHeaders } from './rate-limit.ts'
import type { Route } from './route.ts'

/** Verifies bearer tokens; `cached` does no I/O. */
export interface Authenticator {
  cached(token: string, connection: object): Principal | null
  verify(token: string): Promise<Principal>
}

export type Tier = 'free' | 'standard' | 'enterprise'

export interface Standing {
  /** `free` for tenants that do not exist. */
  readonly tier: Tier
  /** `inactive`: it is being made or removed, or its making has failed. */
  readonly status: 'active' | 'inactive' | 'unknown'
}

/** Of a tenant's turns where several wait. */
const WEIGHTS: Readonly<Record<Tier, number>> = { free: 1, standard: 2, enterprise: 4 }

export interface RateLimits {
  readonly tiers: Readonly<Record<Tier, RatePolicy>>
  /** For requests without a verified token, by address. */
  readonly address: RatePolicy
}

export const DEFAULT_RATE_LIMITS: RateLimits = {
  tiers: {
    free: { ratePerS: 10, burst: 20 },
    standard: { ratePerS: 50, burst: 100 },
    enterprise: { ratePerS: 500, burst: 1000 },
  },
  address: { ratePerS: 10, burst: 40 },
}

/** An administrator's request in a tenant that it names. */
export interface AdminUse {
  readonly principal: Principal
  readonly tenant: string
  readonly method: string
  readonly path: string
  readonly requestId: string
}

export interface GuardDeps {
  readonly authenticator: Authenticator
  /** Asked for every request: of active tenants it must be cached. */
  standingOf(tenant: string): Standing | Promise<Standing>
  /** Writes the audit record; the request goes on only after it. */
  onAdminUse(use: AdminUse): Promise<void> | void
  readonly rateLimits: RateLimits
  /** Buckets of tenants, shared by all processes where there are several. */
  readonly rateLimiter?: RateLimiter
  /** Opens the routes for operators, and nothing else. */
  readonly metricsToken?: string
  /** How many proxies in front of this server append to X-Forwarded-For; 0 ignores the header. */
  readonly trustedProxies: number
}

const SCHEME = 'bearer '

export class Guard {
  readonly #deps: GuardDeps
  readonly #tenants: RateLimiter
  readonly #addresses = new LocalRateLimiter()

  constructor(deps: GuardDeps) {
    this.#deps = deps
    this.#tenants = deps.rateLimiter ?? new LocalRateLimiter()
  }

  /**
   * Sets the principal and the tenant of the exchange, and takes a token of its bucket. Waits for nothing, and so gives
   * no promise, for a known token.
   */
  admit(exchange: Exchange, route: Route): Promise<void> | undefined {
    if (route.auth === 'none') {
      if (route.unlimited !== true) this.admitAddress(exchange)
      return undefined
    }
    const token = bearerOf(exchange)
    if (route.auth === 'operator' && this.#isMetricsToken(token)) return undefined
    const known = token === null ? null : this.#deps.authenticator.cached(token, exchange.request.socket)
    if (known !== null) return this.#admitAs(known, exchange, route)
    return this.#authenticate(exchange, token).then((principal) => this.#admitAs(principal, exchange, route))
  }

  #admitAs(principal: Principal, exchange: Exchange, route: Route): Promise<void> | undefined {
    exchange.principal = principal
    markKnown(exchange.request.socket)
    const limited = this.#limit(exchange, principal)
    if (limited === undefined) return this.#settleTenant(exchange, route, principal)
    return limited.then(() => this.#settleTenant(exchange, route, principal))
  }

  /** What a request takes of the rate limit besides the token that let it in. */
  async takeMore({ tokens }: Route, exchange: Exchange): Promise<void> {
    const { principal } = exchange
    if (tokens === undefined || principal === null) return
    for (let more = tokens(exchange.body) - 1; more > 0; more -= 1) await this.#limit(exchange, principal)
  }

  #isMetricsToken(token: string | null): boolean {
    const { metricsToken } = this.#deps
    if (metricsToken === undefined || token === null) return false
    return timingSafeEqual(digest(metricsToken), digest(token))
  }

  /** For requests that have no route, or need no token. */
  admitAddress(exchange: Exchange): void {
    const policy = this.#deps.rateLimits.address
    const decision = this.#addresses.take(addressOf(exchange, this.#deps.trustedProxies), policy)
    if (!decision.allowed) throw limited('this address', decision.retryAfterMs)
  }

  /** A flood of bad tokens is refused before their signatures are computed. */
  async #authenticate(exchange: Exchange, token: string | null): Promise<Principal> {
    const policy = this.#deps.rateLimits.address
    const address = addressOf(exchange, this.#deps.trustedProxies)
    if (!this.#addresses.hasToken(address, policy)) this.admitAddress(exchange)
    try {
      if (token === null) throw refuse('token_missing', 'this request needs a bearer token')
      return await this.#deps.authenticator.verify(token)
    } catch (error) {
      this.admitAddress(exchange)
      throw error
    }
  }

  #limit(exchange: Exchange, principal: Principal): Promise<void> | undefined {
    if (principal.tenant === null) return this.#take(exchange, principal, 'enterprise')
    return this.#withStanding(principal.tenant, ({ tier }) => this.#take(exchange, principal, tier))
  }

  /** At once where it is known. */
  #withStanding(tenant: string, use: (standing: Standing) => Promise<void> | undefined): Promise<void> | undefined {
    const standing = this.#deps.standingOf(tenant)
    return standing instanceof Promise ? standing.then(use) : use(standing)
  }

  #take(exchange: Exchange, principal: Principal, tier: Tier): Promise<void> | undefined {
    exchange.weight = WEIGHTS[tier]
    const policy = this.#deps.rateLimits.tiers[tier]
    const decision = this.#tenants.take(limitKeyOf(principal), policy)
    const apply = (made: Awaited<typeof decision>): undefined => {
      exchange.rateHeaders = rateHeaders(tier, policy, made)
      if (!made.allowed) throw limited(principal.tenant === null ? 'this subject' : 'this tenant', made.retryAfterMs)
    }
    return decision instanceof Promise ? decision.then(apply) : apply(decision)
  }

  #settleTenant(exchange: Exchange, route: Route, principal: Principal): Promise<void> | undefined {
    const named = exchange.request.headers['x-tenant-id']
    if (principal.key !== undefined) refuseOtherUse(principal.key, route)
    if ((route.auth === 'admin' || route.auth === 'operator') && !principal.isAdmin) {
      throw refuse('admin_required', 'this operation is for administrators of the platform')
    }
    if (named !== undefined) return this.#actIn(exchange, principal, String(named))
    if (principal.tenant !== null) return this.#enter(exchange, route, principal, principal.tenant)
    if (route.auth === 'tenant' && principal.isAdmin) {
      throw refuse('tenant_required', 'an administrator has to say in which tenant to act')
    }
    if (route.auth === 'tenant') throw refuse('tenant_missing', 'the token names no tenant')
    return undefined
  }

  /**
   * A token is good for a tenant that is there: else lists would be empty, as if nothing had been made yet. Whether there is
   * none or it is not active is not told. What administrators do outside of tenants needs none.
   */
  #enter(exchange: Exchange, route: Route, principal: Principal, tenant: string): Promise<void> | undefined {
    return this.#withStanding(tenant, ({ status }) => {
      if (status === 'active') exchange.tenant = tenant
      else if (!principal.isAdmin || route.auth === 'tenant') {
        throw refuse('tenant_not_served', `there is no active tenant ${tenant}, which the token names`)
      }
      return undefined
    })
  }

  #actIn(exchange: Exchange, principal: Principal, tenant: string): Promise<void> | undefined {
    if (!principal.isAdmin) throw refuse('tenant_header_forbidden', 'only administrators may name a tenant')
    if (!TENANT_ID.test(tenant)) throw refuse('malformed_header', 'X-Tenant-Id is not the id of a tenant')
    return this.#withStanding(tenant, ({ status }) => {
      if (status === 'unknown')
        throw refuse('tenant_not_found', `there is no tenant ${tenant}, which X-Tenant-Id names`)
      return this.#act(exchange, principal, tenant)
    })
  }

  #act(exchange: Exchange, principal: Principal, tenant: string): Promise<void> | undefined {
    exchange.tenant = tenant
    exchange.namedTenant = tenant
    const { path, requestId } = exchange
    const audited = this.#deps.onAdminUse({
      principal,
      tenant,
      method: exchange.request.method ?? '',
      path,
      requestId,
    })
    return audited instanceof Promise ? audited : undefined
  }
}

/** A key is good for nothing but what it was made for. */
export function isForKey({ operations }: KeyScope, { forKeys }: Pick<Route, 'forKeys'>): boolean {
  return forKeys === 'any' || (forKeys !== undefined && operations.includes(forKeys))
}

function refuseOtherUse(key: KeyScope, route: Route): void {
  if (isForKey(key, route)) return
  const { forKeys } = route
  if (forKeys === undefined) throw refuse('key_not_allowed', 'this operation is not for application keys')
  throw refuse('key_not_allowed', `the application key was not made for the operation ${forKeys}`)
}

/** Who shares a limit: all of a tenant, or one administrator. */
export function limitKeyOf(principal: Principal): string {
  return principal.tenant ?? `${principal.issuer} ${principal.subject}`
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

/** What a token is made of is looked at when it is verified; here it is only one word. */
function bearerOf(exchange: Exchange): string | null {
  const header = exchange.request.headers.authorization
  if (header === undefined) return null
  const token = header.slice(SCHEME.length)
  const isBearer = header.slice(0, SCHEME.length).toLowerCase() === SCHEME
  if (isBearer && token !== '' && !token.includes(' ') && !token.includes(',')) return token
  throw refuse('token_malformed', 'the header Authorization does not hold one bearer token')
}

function addressOf(exchange: Exchange, trustedProxies: number): string {
  const address = forwardedAddress(exchange, trustedProxies) ?? exchange.request.socket.remoteAddress ?? ''
  return networkOf(address)
}

function forwardedAddress(exchange: Exchange, trustedProxies: number): string | undefined {
  const header = exchange.request.headers['x-forwarded-for']
  if (trustedProxies === 0 || typeof header !== 'string') return undefined
  return header.split(',').at(-trustedProxies)?.trim().slice(0, 64)
}

function limited(who: string, retryAfterMs: number): Error {
  return refuse('rate_limited', `${who} has sent too many requests`, { retryAfterMs })
}
