/** Who is let in, and how often: the same at every door. */
import { KeyAuthenticator, keyStoreIn } from '../auth/application-keys.ts'
import type { TrustedIssuer } from '../auth/issuers.ts'
import { TokenVerifier } from '../auth/verifier.ts'
import type { Config } from '../config.ts'
import type { Authenticator, RateLimits, Standing } from '../http/guard.ts'
import { LocalRateLimiter, type RateLimiter } from '../http/rate-limit.ts'
import { SharedRateLimiter } from '../http/shared-rate-limit.ts'
import { RateBuckets } from '../registry/rate-buckets.ts'
import { findTenant } from '../registry/tenants.ts'
import type { Platform } from './platform.ts'
import { Standings } from './standings.ts'
import type { Databases } from './storage.ts'

export interface Admission {
  readonly authenticator: Authenticator
  standingOf(tenant: string): Standing | Promise<Standing>
  readonly rateLimits: RateLimits
  readonly rateLimiter: RateLimiter
}

export function admissionOf(databases: Databases, platform: Platform, issuers: readonly TrustedIssuer[]): Admission {
  const standings = new Standings((tenant) => standingOf(platform, tenant))
  return {
    authenticator: new KeyAuthenticator(new TokenVerifier({ issuers }), keyStoreIn(platform.pool)),
    standingOf: (tenant) => standings.get(tenant),
    rateLimits: rateLimits(platform.config),
    // Of one process the limits are its own; several that share a registry share the buckets in it.
    rateLimiter:
      databases.embedded && platform.config.http.processes === 1
        ? new LocalRateLimiter()
        : new SharedRateLimiter(new RateBuckets(platform.pool)),
  }
}

/** Seconds of its rate that an address may ask for at once. */
const ADDRESS_BURST = 4

function rateLimits(config: Config): RateLimits {
  const { free, standard, enterprise, address, burst } = config.limits.rate
  const policy = (ratePerS: number) => ({ ratePerS, burst: Math.ceil(ratePerS * burst) })
  return {
    address: { ratePerS: address, burst: address * ADDRESS_BURST },
    tiers: { free: policy(free), standard: policy(standard), enterprise: policy(enterprise) },
  }
}

async function standingOf({ pool }: Platform, tenant: string): Promise<Standing> {
  const found = await findTenant(pool, tenant)
  if (found === null) return { tier: 'free', status: 'unknown' }
  return { tier: found.tier, status: found.status === 'active' ? 'active' : 'inactive' }
}
