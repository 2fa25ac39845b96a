import { LRUCache } from 'lru-cache'
import { LocalRateLimiter, type RateDecision, type RateLimiter, type RatePolicy } from './rate-limit.ts'

export interface TokenLease {
  /** Tokens given, at most those wanted; 0 where the bucket is empty. */
  readonly granted: number
  /** What is left in the bucket. */
  readonly remaining: number
}

/** Buckets that all processes share. */
export interface TokenBuckets {
  /** Atomic. Refills the key's bucket for the time since the last call, then takes up to `wanted` whole tokens. */
  lease(key: string, wanted: number, policy: RatePolicy): Promise<TokenLease>
}

interface Share {
  tokens: number
  /** In the bucket, as it was told last. */
  remaining: number
  /** Tokens not used by then are given up: an idle process must not keep what others could use. */
  untilMs: number
  /** The bucket was empty: nobody asks again before. */
  emptyUntilMs: number
  pending: Promise<void> | null
}

const MAX_KEYS = 50_000
const LEASE_MS = 1_000
/** Requests wait no longer for the buckets: a process that hears nothing of them keeps the limit by itself, too. */
const ANSWER_MS = 1_000
/** A process asks about four times a second for a tenant at its full rate, and not for every request. */
const LEASES_PER_S = 4

/**
 * One limit over several processes: each takes tokens in small lots from shared buckets and spends them without
 * asking. While the buckets cannot be reached, each process keeps the limit by itself.
 */
export class SharedRateLimiter implements RateLimiter {
  readonly #buckets: TokenBuckets
  readonly #fallback: LocalRateLimiter
  readonly #nowMs: () => number
  readonly #shares = new LRUCache<string, Share>({ max: MAX_KEYS })

  #unreachableUntilMs = 0

  constructor(buckets: TokenBuckets, nowMs: () => number = () => performance.now()) {
    this.#buckets = buckets
    this.#nowMs = nowMs
    this.#fallback = new LocalRateLimiter(nowMs)
  }

  take(key: string, policy: RatePolicy): RateDecision | Promise<RateDecision> {
    if (this.#nowMs() < this.#unreachableUntilMs) return this.#fallback.take(key, policy)
    const share = this.#shareOf(key)
    const spent = this.#spend(share, policy)
    return spent ?? this.#refillAndSpend(key, share, policy)
  }

  async #refillAndSpend(key: string, share: Share, policy: RatePolicy): Promise<RateDecision> {
    try {
      share.pending ??= this.#refill(key, share, policy).finally(() => {
        share.pending = null
      })
      await inTime(share.pending)
    } catch {
      this.#unreachableUntilMs = this.#nowMs() + LEASE_MS
      return this.#fallback.take(key, policy)
    }
    return this.#spend(share, policy) ?? this.#refillAndSpend(key, share, policy)
  }

  async #refill(key: string, share: Share, policy: RatePolicy): Promise<void> {
    const wanted = Math.max(1, Math.floor(Math.min(policy.ratePerS / LEASES_PER_S, policy.burst / LEASES_PER_S)))
    const { granted, remaining } = await this.#buckets.lease(key, wanted, policy)
    const nowMs = this.#nowMs()
    share.tokens = granted
    share.remaining = remaining
    share.untilMs = nowMs + LEASE_MS
    share.emptyUntilMs = granted === 0 ? nowMs + 1000 / policy.ratePerS : 0
  }

  /** Null where the bucket has to be asked. */
  #spend(share: Share, policy: RatePolicy): RateDecision | null {
    const nowMs = this.#nowMs()
    if (share.tokens >= 1 && nowMs < share.untilMs) {
      share.tokens -= 1
      return decision(true, share.tokens + share.remaining, policy, 0)
    }
    return nowMs < share.emptyUntilMs ? decision(false, 0, policy, share.emptyUntilMs - nowMs) : null
  }

  #shareOf(key: string): Share {
    let share = this.#shares.get(key)
    if (share === undefined) {
      share = { tokens: 0, remaining: 0, untilMs: 0, emptyUntilMs: 0, pending: null }
      this.#shares.set(key, share)
    }
    return share
  }
}

async function inTime(refill: Promise<void>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('the buckets do not answer')), ANSWER_MS)
  try {
    await Promise.race([refill, late])
  } finally {
    clearTimeout(timer)
  }
}

function decision(allowed: boolean, left: number, policy: RatePolicy, retryAfterMs: number): RateDecision {
  const remaining = Math.floor(left)
  return { allowed, remaining, resetMs: ((policy.burst - remaining) / policy.ratePerS) * 1000, retryAfterMs }
}
