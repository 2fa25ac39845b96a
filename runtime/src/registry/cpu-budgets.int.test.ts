import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { type CpuLimits, chargeCpu, spentBudgets } from './cpu-budgets.ts'
import { claimRun, finishRun } from './run-claims.ts'
import { enqueueRun, findRun, RUN_KINDS, type RunKind } from './runs.ts'
import { updateTenant } from './tenants.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

/** So little drains while a test runs that it does not count. */
const LIMITS: CpuLimits = { free: 100, standard: 1000, enterprise: 0 }

const charge = (tenant: string, seconds: number, limits = LIMITS) => chargeCpu(pool, [{ tenant, seconds }], limits)
const waitOf = async (tenant: string, limits = LIMITS) =>
  (await spentBudgets(pool, limits)).find((one) => one.tenant === tenant)?.waitMs ?? 0
const age = (tenant: string, seconds: number) =>
  pool.query('update cpu_budgets set counted_at = counted_at - make_interval(secs => $2) where tenant = $1', [
    tenant,
    seconds,
  ])

async function queue(tenant: string, kind: RunKind) {
  const common = { tenant, trigger: 'manual', createdBy: ANN } as const
  return kind === 'ingestion'
    ? enqueueRun(pool, { ...common, kind, connectionId: (await registry.connection(tenant)).id })
    : enqueueRun(pool, { ...common, kind, productId: (await registry.product(tenant)).id })
}

describe('CPU time of a tenant', () => {
  it('is what all runtimes have counted, at once or one after the other', async () => {
    const [some, other] = [await registry.tenant('free'), await registry.tenant('free')]
    const uses = [some, other].map((tenant) => ({ tenant, seconds: 5 }))
    const counts = Array.from({ length: 22 }, (_, at) => chargeCpu(pool, at % 2 ? uses : uses.toReversed(), LIMITS))
    await Promise.all(counts)
    // 110 of 100: ten too many drain in a tenth of an hour.
    for (const tenant of [some, other]) {
      const waitMs = await waitOf(tenant)
      assert.ok(waitMs > 300_000 && waitMs <= 360_000, `${waitMs}`)
    }
  })

  it('drains, is waited for an hour at most, and is as much as the tier of today has', async () => {
    const tenant = await registry.tenant('free')
    await charge(tenant, 99)
    assert.equal(await waitOf(tenant), 0)
    await charge(tenant, 100_000)
    const longest = await waitOf(tenant)
    assert.ok(longest > 3_500_000 && longest <= 3_600_000, `${longest}`)
    await age(tenant, 1800)
    const half = await waitOf(tenant)
    assert.ok(half > 1_700_000 && half <= 1_800_000, `${half}`)
    await updateTenant(pool, tenant, { tier: 'standard' })
    assert.equal(await waitOf(tenant), 0)
    await updateTenant(pool, tenant, { tier: 'free' })
    assert.notEqual(await waitOf(tenant), 0)
    assert.equal(await waitOf(tenant, { ...LIMITS, free: 0 }), 0, 'the operator took the limit away')
    await age(tenant, 3600)
    assert.equal(await waitOf(tenant), 0)
  })

  it('is not counted where the tier has no limit, nor of tenants that are gone', async () => {
    const tenant = await registry.tenant('enterprise')
    await charge(tenant, 1_000_000)
    await charge('gone', 1_000_000)
    await updateTenant(pool, tenant, { tier: 'free' })
    assert.equal(await waitOf(tenant), 0)
  })

  for (const kind of RUN_KINDS) {
    it(`keeps a queued ${kind} of the tenant, which says until when, and nobody else's`, async () => {
      const request = { workerId: 'w', leaseMs: 3_600_000 }
      const [spent, other] = [await registry.tenant('free'), await registry.tenant('free')]
      const begun = await queue(spent, kind)
      const claimed = await claimRun(pool, request)
      assert.equal(claimed?.run.id, begun.id)
      await charge(spent, 150)
      await spentBudgets(pool, LIMITS)
      const waiting = await queue(spent, kind)
      assert.ok((waiting.spentUntil?.getTime() ?? 0) > Date.now() + 1_000_000)
      const free = await queue(other, kind)
      assert.equal(free.spentUntil, null)
      assert.equal((await findRun(pool, spent, begun.id))?.spentUntil, null, 'what has begun goes on')
      const next = await claimRun(pool, request)
      assert.equal(next?.run.id, free.id)
      assert.equal(await claimRun(pool, request), null)
      for (const one of [claimed, next]) await finishRun(pool, one?.lease as never, { state: 'succeeded' })
      await age(spent, 3600)
      await spentBudgets(pool, LIMITS)
      assert.equal((await findRun(pool, spent, waiting.id))?.spentUntil, null)
      const last = await claimRun(pool, request)
      assert.equal(last?.run.id, waiting.id)
      await finishRun(pool, last?.lease as never, { state: 'succeeded' })
    })
  }
})
