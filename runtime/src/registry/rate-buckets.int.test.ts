import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { pruneRateBuckets, RateBuckets } from './rate-buckets.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

/** So slow that no test gains a token by waiting. */
const SLOW = { ratePerS: 0.0001, burst: 20 }

async function age(seconds: number): Promise<void> {
  await pool.query(`update rate_buckets set refilled_at = refilled_at - make_interval(secs => $1)`, [seconds])
}

describe('shared buckets', () => {
  it('give what they hold once, however many ask at once', async () => {
    const nodes = [new RateBuckets(pool), new RateBuckets(pool)]
    const leases = await Promise.all(
      Array.from({ length: 30 }, (_, index) => (nodes[index % 2] as RateBuckets).lease('acme', 3, SLOW)),
    )
    assert.equal(
      leases.reduce((sum, { granted }) => sum + granted, 0),
      20,
    )
    assert.equal((await (nodes[0] as RateBuckets).lease('other', 5, SLOW)).granted, 5)
  })

  it('fill up with time, and not beyond the burst', async () => {
    const buckets = new RateBuckets(pool)
    const policy = { ratePerS: 2, burst: 10 }
    assert.equal((await buckets.lease('filling', 10, policy)).granted, 10)
    await age(3)
    const { granted, remaining } = await buckets.lease('filling', 4, policy)
    assert.equal(granted, 4)
    assert.ok(remaining >= 2 && remaining < 10, String(remaining))
    await age(3600)
    assert.equal((await buckets.lease('filling', 100, policy)).granted, 10)
  })

  it('are forgotten when nobody asks for them', async () => {
    const buckets = new RateBuckets(pool)
    await age(2 * 3600)
    await buckets.lease('in use', 1, SLOW)
    assert.ok((await pruneRateBuckets(pool, 1000)) >= 2)
    assert.equal(await pruneRateBuckets(pool, 1000), 0)
    assert.equal((await buckets.lease('in use', 100, SLOW)).granted, 19)
  })
})
