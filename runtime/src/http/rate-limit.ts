import { LRUCache } from 'lru-cache'

export interface RatePolicy {
  readonly ratePerS: number
  /** Most requests at once after a pause. */
  readonly burst: number
}

export interface RateDecision {
  readonly allowed: boolean
  /** Whole requests that may follow at once. */
  readonly remaining: number
  /** Until the burst is whole again. */
  readonly resetMs: number
  /** Until one request may follow; 0 where one may now. */
  readonly retryAfterMs: number
}

/** Takes one token of a key's bucket. A bucket shared by several processes may have to ask, hence the promise. */
export interface RateLimiter {
  take(key: string, policy: RatePolicy): RateDecision | Promise<RateDecision>
}

interface Bucket {
  tokens: number
  atMs: number
}

const MAX_BUCKETS = 50_000

/**
 * Token buckets of one process, for the most recently used keys. A key that was forgotten begins with a full bucket.
 */
export class LocalRateLimiter implements RateLimiter {
  readonly #buckets = new LRUCache<string, Bucket>({ max: MAX_BUCKETS })
  readonly #nowMs: () => number

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  take(key: string, policy: RatePolicy): RateDecision {
    const nowMs = this.#nowMs()
    const bucket = this.#buckets.get(key) ?? this.#begin(key, policy, nowMs)
    refill(bucket, policy, nowMs)
    const allowed = bucket.tokens >= 1
    if (allowed) bucket.tokens -= 1
    return {
      allowed,
      remaining: Math.floor(bucket.tokens),
      resetMs: ((policy.burst - bucket.tokens) / policy.ratePerS) * 1000,
      retryAfterMs: bucket.tokens >= 1 ? 0 : ((1 - bucket.tokens) / policy.ratePerS) * 1000,
    }
  }

  /** Whether a token is there, without taking it. */
  hasToken(key: string, policy: RatePolicy): boolean {
    const bucket = this.#buckets.get(key)
    if (bucket === undefined) return true
    refill(bucket, policy, this.#nowMs())
    return bucket.tokens >= 1
  }

  #begin(key: string, policy: RatePolicy, nowMs: number): Bucket {
    const bucket = { tokens: policy.burst, atMs: nowMs }
    this.#buckets.set(key, bucket)
    return bucket
  }
}

function refill(bucket: Bucket, policy: RatePolicy, nowMs: number): void {
  const elapsedMs = Math.max(0, nowMs - bucket.atMs)
  bucket.tokens = Math.min(policy.burst, bucket.tokens + (elapsedMs * policy.ratePerS) / 1000)
  bucket.atMs = nowMs
}

/** `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers: quota q per window w, r left, t to reset. */
export function rateHeaders(name: string, policy: RatePolicy, decision: RateDecision): readonly string[] {
  const resetS = Math.ceil(decision.resetMs / 1000)
  return ['RateLimit-Policy', policyHeader(name, policy), 'RateLimit', `"${name}";r=${decision.remaining};t=${resetS}`]
}

const policyHeaders = new WeakMap<RatePolicy, string>()

/** Policies are few and fixed: each is written once. */
function policyHeader(name: string, policy: RatePolicy): string {
  const known = policyHeaders.get(policy)
  if (known !== undefined) return known
  const windowS = Math.max(1, Math.ceil(policy.burst / policy.ratePerS))
  const header = `"${name}";q=${policy.burst};w=${windowS}`
  policyHeaders.set(policy, header)
  return header
}
