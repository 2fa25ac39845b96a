import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RatePolicy } from './rate-limit.ts'
import { SharedRateLimiter, type TokenBuckets } from './shared-rate-limit.ts'

const POLICY: RatePolicy = { ratePerS: 40, burst: 80 }

/** Shared buckets by their contract, with a count of how often they were asked. */
function bucketsAt(clock: { nowMs: number }): TokenBuckets & { asked: number; isDown: boolean } {
  const levels = new Map<string, { tokens: number; atMs: number }>()
  return {
    asked: 0,
    isDown: false,
    async lease(key, wanted, policy) {
      this.asked += 1
      if (this.isDown) throw new Error('unreachable')
      const level = levels.get(key) ?? { tokens: policy.burst, atMs: clock.nowMs }
      level.tokens = Math.min(policy.burst, level.tokens + ((clock.nowMs - level.atMs) * policy.ratePerS) / 1000)
      level.atMs = clock.nowMs
      const granted = Math.min(wanted, Math.floor(level.tokens))
      level.tokens -= granted
      levels.set(key, level)
      return { granted, remaining: Math.floor(level.tokens) }
    },
  }
}

async function allowedOf(limiters: readonly SharedRateLimiter[], requests: number, key = 'acme'): Promise<number> {
  let allowed = 0
  for (let i = 0; i < requests; i++) {
    const limiter = limiters[i % limiters.length] as SharedRateLimiter
    if ((await limiter.take(key, POLICY)).allowed) allowed += 1
  }
  return allowed
}

describe('limits shared by several processes', () => {
  it('allow all of them together what one may, and ask rarely', async () => {
    const clock = { nowMs: 0 }
    const buckets = bucketsAt(clock)
    const processes = [1, 2, 3].map(() => new SharedRateLimiter(buckets, () => clock.nowMs))
    assert.equal(await allowedOf(processes, 300), 80)
    assert.ok(buckets.asked <= 12, `asked ${buckets.asked} times`)
    clock.nowMs += 1_000
    assert.equal(await allowedOf(processes, 300), 40)
    assert.equal(await allowedOf(processes, 10, 'globex'), 10)
  })

  it('take a lot once for requests that come together', async () => {
    const clock = { nowMs: 0 }
    const buckets = bucketsAt(clock)
    const limiter = new SharedRateLimiter(buckets, () => clock.nowMs)
    const decisions = await Promise.all(Array.from({ length: 10 }, () => limiter.take('acme', POLICY)))
    assert.ok(decisions.every(({ allowed }) => allowed))
    assert.equal(buckets.asked, 1)
  })

  it('give up what they did not use', async () => {
    const clock = { nowMs: 0 }
    const buckets = bucketsAt(clock)
    const limiter = new SharedRateLimiter(buckets, () => clock.nowMs)
    await limiter.take('acme', POLICY)
    clock.nowMs += 1_000
    await limiter.take('acme', POLICY)
    assert.equal(buckets.asked, 2)
  })

  it('say what is left and when to come again', async () => {
    const clock = { nowMs: 0 }
    const limiter = new SharedRateLimiter(bucketsAt(clock), () => clock.nowMs)
    assert.deepEqual(await limiter.take('acme', POLICY), { allowed: true, remaining: 79, resetMs: 25, retryAfterMs: 0 })
    await allowedOf([limiter], 79)
    assert.deepEqual(await limiter.take('acme', POLICY), {
      allowed: false,
      remaining: 0,
      resetMs: 2000,
      retryAfterMs: 25,
    })
  })

  it('are kept by each process while the buckets cannot be reached', async () => {
    const clock = { nowMs: 0 }
    const buckets = bucketsAt(clock)
    buckets.isDown = true
    const limiter = new SharedRateLimiter(buckets, () => clock.nowMs)
    assert.equal(await allowedOf([limiter], 200), 80)
    assert.equal(buckets.asked, 1, 'and they are left alone for a while')
    buckets.isDown = false
    clock.nowMs += 1_000
    assert.equal(await allowedOf([limiter], 200), 80)
  })

  it('are kept by each process where the buckets say nothing', async () => {
    const silent: TokenBuckets = { lease: () => new Promise(() => undefined) }
    const limiter = new SharedRateLimiter(silent, () => 0)
    assert.equal(await allowedOf([limiter], 100), 80)
  })
})
