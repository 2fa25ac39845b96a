/** Runs that products are left to: one waits for each product, and they leave a place to whoever does not wait for them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { addHolds, holdsOf, settleHolds } from './follows.ts'
import { leaveToRun, leftBy, leftRunOf } from './left-runs.ts'
import { makingTimes, noteMaking } from './makings.ts'
import { type ClaimedRun, claimRun, finishRun } from './run-claims.ts'
import { cancelRun, enqueueRun, queuedRunOf } from './runs.ts'
import type { Transaction } from './sql.ts'
import { ANN, startTestRegistry, type TestRegistry } from './testing.ts'
import type { Tier } from './tiers.ts'

let registry: TestRegistry
before(async () => {
  registry = await startTestRegistry()
})
after(() => registry[Symbol.asyncDispose]())

const claim = (more: object = {}) => claimRun(registry.pool, { workerId: 'w', leaseMs: 3_600_000, ...more })

/** An ingestion that is under way. */
async function wave(tier: Tier = 'standard') {
  const tenant = await registry.tenant(tier)
  const { id: connectionId } = await registry.connection(tenant)
  await enqueueRun(registry.pool, { tenant, kind: 'ingestion', connectionId, trigger: 'schedule', createdBy: ANN })
  const { lease } = (await claim()) as ClaimedRun
  const leave = (productId: string, tried = {}) =>
    inTransaction(registry.pool, (tx) => leaveToRun(tx, lease, { productId, connectionId, tried }))
  const product = async () => (await registry.product(tenant)).id
  return {
    tenant,
    connectionId,
    lease,
    leave,
    product,
    end: () => finishRun(registry.pool, lease, { state: 'succeeded' }),
  }
}

describe('a product that is left', () => {
  it('has one run that waits, whoever leaves it how often at once, and one more when that has begun', async () => {
    const { leave, product, lease, connectionId, end } = await wave()
    const id = await product()
    const ids = await Promise.all(Array.from({ length: 8 }, () => leave(id)))
    assert.equal(new Set(ids).size, 1)
    const claimed = (await claim()) as ClaimedRun
    assert.equal(claimed.run.id, ids[0])
    assert.deepEqual(leftBy(claimed.run), { connectionId, runId: lease.runId })
    assert.deepEqual(await leftRunOf(registry.pool, id), { id: ids[0], isQueued: false })
    const next = await leave(id)
    assert.notEqual(next, ids[0])
    assert.deepEqual(await leftRunOf(registry.pool, id), { id: next, isQueued: true })
    assert.equal(await claim(), null, 'it is not made twice at once')
    await finishRun(registry.pool, claimed.lease, { state: 'succeeded' })
    assert.equal((await claim())?.run.id, next)
    await end()
  })

  it('is not what somebody asks for, and its claim fences off nobody who makes it now', async () => {
    const { leave, product, tenant } = await wave()
    const id = await product()
    const left = await leave(id)
    assert.equal(await inTransaction(registry.pool, (tx) => queuedRunOf(tx, { productId: id })), null)
    const token = async () =>
      (await registry.pool.query('select token from product_fences where product_id = $1', [id])).rows[0]?.token
    const before = await token()
    const claimed = (await claim()) as ClaimedRun
    assert.deepEqual([claimed.run.id, claimed.lease.productToken, await token()], [left, null, before])
    await finishRun(registry.pool, claimed.lease, { state: 'succeeded' })
    const asked = await enqueueRun(registry.pool, {
      tenant,
      kind: 'materialization',
      productId: id,
      trigger: 'manual',
      createdBy: ANN,
    })
    assert.deepEqual(((await claim()) as ClaimedRun).run.id, asked.id)
    assert.notEqual(await token(), before)
  })

  it('is tried again with whatever has failed before, of all waves that leave it', async () => {
    const { leave, product, connectionId, lease } = await wave()
    const id = await product()
    const first = await leave(id)
    assert.equal(await leave(id, { prd_a: 1 }), first)
    assert.equal(await leave(id, { prd_a: 2, prd_b: 1 }), first)
    const claimed = (await claim()) as ClaimedRun
    assert.deepEqual(leftBy(claimed.run), { connectionId, runId: lease.runId, tried: { prd_a: 2, prd_b: 1 } })
    const next = await leave(id, { prd_a: 3 })
    assert.notEqual(next, first)
    await finishRun(registry.pool, claimed.lease, { state: 'succeeded' })
    const later = (await claim()) as ClaimedRun
    assert.deepEqual([later.run.id, leftBy(later.run)?.tried], [next, { prd_a: 3 }])
  })

  it('waits, where it has failed by itself while a wave settles what it has tried', async () => {
    const { connectionId } = await wave()
    const of = (part: string) => ({ kind: 'product', part, errorCode: 'quality_blocked', againMs: 60_000 }) as const
    const settle = (work: (tx: Transaction) => Promise<void>) => inTransaction(registry.pool, work)
    await settle((tx) => addHolds(tx, connectionId, ['mended', 'again'].map(of)))
    const known = await holdsOf(registry.pool, connectionId)
    // Runs that products are left to tell of one that was known, and of one that was not.
    await settle((tx) => addHolds(tx, connectionId, ['again', 'new'].map(of)))
    await settle((tx) => settleHolds(tx, connectionId, [], known))
    const left = (await holdsOf(registry.pool, connectionId)).map(({ part, failures }) => [part, failures])
    assert.deepEqual(left, [
      ['again', 2],
      ['new', 1],
    ])
  })

  it('is left anew where somebody has ended the run', async () => {
    const { leave, product, tenant } = await wave()
    const id = await product()
    const first = await leave(id)
    await cancelRun(registry.pool, tenant, first)
    assert.notEqual(await leave(id), first)
    assert.notEqual(await claim(), null)
  })
})

describe('runs that products are left to', () => {
  it('are one less at once than the tier has, so that the next wave comes to its transforms', async () => {
    const { leave, product, tenant } = await wave('free')
    const ids = [await product(), await product()]
    for (const id of ids) await leave(id)
    const first = (await claim()) as ClaimedRun
    assert.equal(await claim(), null)
    // Whoever asks for a product has the other place.
    const productId = await product()
    const asked = await enqueueRun(registry.pool, {
      tenant,
      kind: 'materialization',
      productId,
      trigger: 'manual',
      createdBy: ANN,
    })
    const other = (await claim()) as ClaimedRun
    assert.equal(other.run.id, asked.id)
    for (const { lease } of [first, other]) await finishRun(registry.pool, lease, { state: 'succeeded' })
    assert.notEqual(await claim(), null)
  })

  it('are not claimed for tenants that have enough of them here', async () => {
    const { leave, product, tenant } = await wave()
    await leave(await product())
    assert.equal(await claim({ exceptLeft: [tenant] }), null)
    assert.notEqual(await claim({ exceptLeft: ['another'] }), null)
  })
})

it('what a product takes is the last, and half as much the ones before', async () => {
  const { product } = await wave()
  const [id, other] = [await product(), await product()]
  for (const tookMs of [8_000, 400.4]) await noteMaking(registry.pool, id, tookMs)
  await noteMaking(registry.pool, 'prd_gone', 5)
  assert.deepEqual([...(await makingTimes(registry.pool, [id, other, 'prd_gone']))], [[id, 4_200]])
})
