import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { checkFence, lockFence, raiseFence } from './fences.ts'
import { reserveEpoch } from './materializations.ts'
import {
  type ClaimedRun,
  type ClaimRequest,
  checkRun,
  claimRun,
  enterTransforms,
  finishRun,
  leavePlace,
  releaseRun,
  renewLease,
  retryRunLater,
} from './run-claims.ts'
import { appendRunLog, runLog, saveTableProgress, tableProgress, tableProgresses } from './run-progress.ts'
import { cancelRun, enqueueRun, findRun, queuedRunOf, type Run, type RunKind } from './runs.ts'
import { ANN, startTestRegistry, type TestRegistry } from './testing.ts'

const FENCED = { kind: 'FENCED', code: 'fenced' }
const ERROR = { code: 'test', message: 'it was a test' }
const worker = (name = 'w', leaseMs = 3_600_000): ClaimRequest => ({ workerId: name, leaseMs })

/** Each with a database of its own, since a claim looks at every tenant. */
async function fixture(): Promise<TestRegistry> {
  const registry = await startTestRegistry()
  after(() => registry[Symbol.asyncDispose]())
  return registry
}

async function ingestion(registry: TestRegistry, tenant: string, maxAttempts?: number): Promise<Run> {
  const connection = await registry.connection(tenant)
  return enqueueRun(registry.pool, {
    tenant,
    kind: 'ingestion',
    connectionId: connection.id,
    trigger: 'manual',
    createdBy: ANN,
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
  })
}

async function materialization(registry: TestRegistry, tenant: string, productId?: string): Promise<Run> {
  return enqueueRun(registry.pool, {
    tenant,
    kind: 'materialization',
    productId: productId ?? (await registry.product(tenant)).id,
    trigger: 'manual',
    createdBy: ANN,
  })
}

/** Takes whatever there is, with several workers at once, until none finds any more. */
async function drain(registry: TestRegistry, workers: number): Promise<ClaimedRun[]> {
  const claimed: ClaimedRun[] = []
  const work = async (name: string): Promise<void> => {
    let misses = 0
    // A miss may only mean that another worker was just claiming in that tenant.
    while (misses < 5) {
      const claim = await claimRun(registry.pool, worker(name))
      if (claim) claimed.push(claim)
      misses = claim ? 0 : misses + 1
    }
  }
  await Promise.all(Array.from({ length: workers }, (_, index) => work(`w${index}`)))
  return claimed
}

async function taken(registry: TestRegistry, request = worker()): Promise<ClaimedRun> {
  const claim = await claimRun(registry.pool, request)
  assert.ok(claim, 'there should be a run to claim')
  return claim
}

async function expire(registry: TestRegistry, runId: string): Promise<void> {
  await registry.pool.query(`update runs set lease_until = clock_timestamp() - interval '1 second' where id = $1`, [
    runId,
  ])
}

describe('claiming', () => {
  it('is one statement, and no transaction, where there is nothing to take', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    const run = await ingestion(registry, tenant)
    const seen: string[] = []
    const pool = new Proxy(registry.pool, {
      get(target, name) {
        if (name === 'query' || name === 'connect') seen.push(name)
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    assert.equal((await claimRun(pool, worker()))?.run.id, run.id)
    assert.deepEqual(seen, ['query', 'connect'])
    seen.length = 0
    assert.equal(await claimRun(pool, worker()), null)
    assert.deepEqual(seen, ['query'])
    await assert.rejects(claimRun(pool, worker(), AbortSignal.abort(new Error('stop'))), { message: 'stop' })
  })

  it('gives every run to exactly one of many workers', async () => {
    const registry = await fixture()
    const tenants = await Promise.all(Array.from({ length: 4 }, () => registry.tenant('enterprise')))
    const queued: string[] = []
    for (const tenant of tenants) for (let n = 0; n < 8; n++) queued.push((await ingestion(registry, tenant)).id)
    const claimed = await drain(registry, 6)
    assert.deepEqual(claimed.map(({ run }) => run.id).sort(), queued.sort())
    for (const { run } of claimed) assert.deepEqual([run.state, run.attempt], ['running', 1])
  })

  for (const [tier, limit] of [
    ['free', 2],
    ['standard', 5],
  ] as const) {
    it(`runs at most ${limit} of a kind at once in a tenant of tier ${tier}, whoever claims at the same time`, async () => {
      const registry = await fixture()
      const [busy, other] = [await registry.tenant(tier), await registry.tenant(tier)]
      for (let n = 0; n < limit + 2; n++) await materialization(registry, busy)
      for (let n = 0; n < 3; n++) await ingestion(registry, busy)
      await ingestion(registry, other)
      const claimed = await drain(registry, 8)
      const of = (kind: RunKind) => claimed.filter(({ run }) => run.tenant === busy && run.kind === kind)
      const ingestions = Math.min(3, limit)
      assert.deepEqual(
        [of('ingestion').length, of('materialization').length, claimed.length],
        [ingestions, limit, ingestions + limit + 1],
      )
      // An ingestion that has come to its transforms waits for one of these, and leaves its place to the next.
      const moving = of('ingestion')[0] as ClaimedRun
      assert.equal(await enterTransforms(registry.pool, moving.lease), false)
      await leavePlace(registry.pool, moving.lease)
      assert.equal((await drain(registry, 3)).length, 3 - ingestions)
      await finishRun(registry.pool, (of('materialization')[0] as ClaimedRun).lease, { state: 'succeeded' })
      assert.equal(await enterTransforms(registry.pool, moving.lease), true)
      assert.equal((await drain(registry, 3)).length, 0)
      await finishRun(registry.pool, moving.lease, { state: 'succeeded' })
      assert.equal((await drain(registry, 3)).length, 1)
    })
  }

  it('goes to the tenant that has the fewest running, then to the one that has waited longest', async () => {
    const registry = await fixture()
    const [many, few] = [await registry.tenant('enterprise'), await registry.tenant('enterprise')]
    for (let n = 0; n < 6; n++) await ingestion(registry, many)
    for (let n = 0; n < 2; n++) await ingestion(registry, few)
    const order: string[] = []
    for (let n = 0; n < 6; n++) order.push((await taken(registry)).run.tenant)
    assert.deepEqual(order.slice(0, 4).sort(), [many, many, few, few].sort())
    assert.equal(order[0], many)
    assert.notEqual(order[1], many)
    assert.deepEqual(order.slice(4), [many, many])
  })

  it('passes over tenants that are to get no more of a kind', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    await ingestion(registry, tenant)
    await materialization(registry, tenant)
    const except = { ingestion: [tenant], materialization: ['another'] }
    assert.equal((await taken(registry, { ...worker(), except })).run.kind, 'materialization')
    assert.equal(await claimRun(registry.pool, { ...worker(), except }), null)
    assert.equal((await taken(registry)).run.kind, 'ingestion')
  })

  it('runs one at a time of a connection and of a product, in the order they were queued', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant('enterprise')
    const product = await registry.product(tenant)
    const first = await materialization(registry, tenant, product.id)
    const second = await materialization(registry, tenant, product.id)
    const claimed = await drain(registry, 4)
    assert.deepEqual(
      claimed.map(({ run }) => run.id),
      [first.id],
    )
    await finishRun(registry.pool, (claimed[0] as ClaimedRun).lease, { state: 'succeeded' })
    assert.equal((await taken(registry)).run.id, second.id)
  })

  it('leaves a run of one kind to workers of that kind, and nothing of an inactive tenant to any', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    const run = await ingestion(registry, tenant)
    assert.equal(await claimRun(registry.pool, { ...worker(), kinds: ['materialization'] }), null)
    await registry.pool.query(`update tenants set status = 'deprovisioning' where slug = $1`, [tenant])
    assert.equal(await claimRun(registry.pool, worker()), null)
    await registry.pool.query(`update tenants set status = 'active' where slug = $1`, [tenant])
    assert.equal((await taken(registry, { ...worker(), kinds: ['ingestion'] })).run.id, run.id)
  })

  it('does not wait for a product whose commit is under way', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    const [busy, free] = [await registry.product(tenant), await registry.product(tenant)]
    await materialization(registry, tenant, busy.id)
    const other = await materialization(registry, tenant, free.id)
    await inTransaction(registry.pool, async (tx) => {
      await lockFence(tx, busy.id)
      assert.equal((await taken(registry)).run.id, other.id)
    })
    assert.equal((await taken(registry)).run.productId, busy.id)
  })
})

describe('a lease', () => {
  it('that has ended gives the run to the next worker, and fences the former in everything', async () => {
    const registry = await fixture()
    const { pool } = registry
    const tenant = await registry.tenant()
    const product = await registry.product(tenant)
    await materialization(registry, tenant, product.id)
    const slow = await taken(registry, worker('slow'))
    assert.equal(await claimRun(pool, worker('early')), null)
    await renewLease(pool, slow.lease, 30)
    let next = slow
    await until('the lease ends by itself', async () => {
      const claim = await claimRun(pool, worker('next'))
      if (claim) next = claim
      return claim !== null
    })
    assert.equal(next.run.id, slow.run.id)
    assert.equal(next.run.attempt, 2)
    assert.ok(next.lease.token > slow.lease.token)
    assert.ok((next.lease.productToken ?? 0n) > (slow.lease.productToken ?? 0n))

    const progress = {
      name: 't',
      mode: 'full',
      modeReason: null,
      deletes: 'implied',
      deletesReason: null,
      rowsRemoved: null,
      rowsSuperseded: null,
      state: 'running',
      rowsRead: 5,
      rowsWritten: 1,
      rowsRejected: 2,
      bytes: 1,
      cursor: null,
      error: null,
    } as const
    for (const attempt of [
      () => renewLease(pool, slow.lease, 3_600_000),
      () => finishRun(pool, slow.lease, { state: 'succeeded' }),
      () => retryRunLater(pool, slow.lease, ERROR, 0),
      () => releaseRun(pool, slow.lease),
      () => saveTableProgress(pool, slow.lease, progress),
      () => appendRunLog(pool, slow.lease, 'info', 'still here'),
      () => inTransaction(pool, (tx) => checkRun(tx, slow.lease)),
      () => inTransaction(pool, (tx) => checkFence(tx, product.id, slow.lease.productToken ?? 0n)),
      () => inTransaction(pool, (tx) => reserveEpoch(tx, product.id, slow.lease.productToken ?? 0n)),
    ]) {
      await assert.rejects(attempt, FENCED)
    }
    await saveTableProgress(pool, next.lease, progress)
    await appendRunLog(pool, next.lease, 'info', 'mine')
    await inTransaction(pool, (tx) => checkRun(tx, next.lease))
    assert.equal((await finishRun(pool, next.lease, { state: 'succeeded', result: { a: 1 } })).state, 'succeeded')
    assert.deepEqual(
      (await runLog(pool, next.run.id)).map(({ message }) => message),
      ['mine'],
    )
    assert.deepEqual(await tableProgress(pool, next.run.id), [progress])
    // As a release leaves it that does not keep the number: a changed row of a log may be told of several times.
    for (const [mode, rejected] of [
      ['full', 4],
      ['cdc', 0],
    ] as const) {
      await pool.query("update run_tables set rows_rejected = null, state = 'succeeded', mode = $1", [mode])
      const [older] = await tableProgress(pool, next.run.id)
      assert.equal(older?.rowsRejected, rejected, mode)
    }
    const ofBoth = await tableProgresses(pool, [next.run.id, 'run_none'])
    assert.deepEqual([...ofBoth.keys(), ofBoth.get(next.run.id)?.[0]?.name], [next.run.id, progress.name])
    await assert.rejects(finishRun(pool, next.lease, { state: 'failed', error: ERROR }), FENCED)
  })

  it('lasts while it is renewed', async () => {
    const registry = await fixture()
    await ingestion(registry, await registry.tenant())
    const mine = await taken(registry, worker('mine', 1))
    await until('the lease has ended', async () => {
      const { rowCount } = await registry.pool.query('select from runs where lease_until < clock_timestamp()')
      return rowCount === 1
    })
    await renewLease(registry.pool, mine.lease, 3_600_000)
    assert.equal(await claimRun(registry.pool, worker('other')), null)
  })

  it('is decided once where its end, its renewal and its commit come together', async () => {
    const registry = await fixture()
    const { pool } = registry
    const tenant = await registry.tenant()
    const product = await registry.product(tenant)
    for (let round = 0; round < 15; round++) {
      await materialization(registry, tenant, product.id)
      const old = await taken(registry, worker('old'))
      await expire(registry, old.run.id)
      const commit = inTransaction(pool, async (tx) => {
        const { epoch } = await reserveEpoch(tx, product.id, old.lease.productToken ?? 0n)
        await finishRun(tx, old.lease, { state: 'succeeded' })
        return epoch
      })
      const [committed, ...claims] = await Promise.allSettled([
        commit,
        claimRun(pool, worker('a')),
        claimRun(pool, worker('b')),
      ])
      const winners = claims.flatMap((claim) => (claim.status === 'fulfilled' && claim.value ? [claim.value] : []))
      for (const claim of claims) assert.equal(claim.status, 'fulfilled')
      if (committed.status === 'fulfilled') assert.equal(winners.length, 0)
      else {
        assert.equal(committed.reason.code, 'fenced')
        assert.equal(winners.length, 1)
        await finishRun(pool, (winners[0] as ClaimedRun).lease, { state: 'cancelled' })
      }
    }
  })

  it('is given up after the last attempt, and by whoever is told to stop', async () => {
    const registry = await fixture()
    const { pool } = registry
    const tenant = await registry.tenant()
    const run = await ingestion(registry, tenant, 2)
    const stopped = await taken(registry)
    await releaseRun(pool, stopped.lease)
    for (const attempt of [1, 2]) {
      assert.equal((await taken(registry)).run.attempt, attempt)
      await expire(registry, run.id)
    }
    assert.equal(await claimRun(pool, worker()), null)
    const ended = await findRun(pool, tenant, run.id)
    assert.deepEqual([ended?.state, ended?.error?.code], ['failed', 'run_attempts_exhausted'])
  })
})

describe('a run', () => {
  it('that failed for now is tried again later, as often as allowed', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    await ingestion(registry, tenant, 2)
    const first = await taken(registry)
    assert.equal((await retryRunLater(registry.pool, first.lease, ERROR, 3_600_000)).state, 'queued')
    assert.equal(await claimRun(registry.pool, worker()), null)
    await registry.pool.query('update runs set available_at = now()')
    const second = await taken(registry)
    const ended = await retryRunLater(registry.pool, second.lease, ERROR, 0)
    assert.deepEqual([ended.state, ended.error], ['failed', ERROR])
    assert.notEqual(ended.finishedAt, null)
  })

  it('is cancelled at once while it waits, and by its worker while it runs', async () => {
    const registry = await fixture()
    const { pool } = registry
    const tenant = await registry.tenant()
    const waiting = await ingestion(registry, tenant)
    assert.equal((await cancelRun(pool, tenant, waiting.id))?.state, 'cancelled')
    await ingestion(registry, tenant)
    const { run, lease } = await taken(registry)
    assert.equal((await renewLease(pool, lease, 60_000)).cancelRequested, false)
    assert.equal((await cancelRun(pool, tenant, run.id))?.state, 'running')
    assert.equal((await renewLease(pool, lease, 60_000)).cancelRequested, true)
    assert.equal((await finishRun(pool, lease, { state: 'cancelled' })).state, 'cancelled')
    assert.equal((await cancelRun(pool, tenant, run.id))?.state, 'cancelled')
    assert.equal(await cancelRun(pool, 'another', run.id), null)
  })

  it('whose worker died after a cancellation is not taken up again', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    const run = await ingestion(registry, tenant)
    await taken(registry)
    await cancelRun(registry.pool, tenant, run.id)
    await expire(registry, run.id)
    assert.equal(await claimRun(registry.pool, worker()), null)
    assert.equal((await findRun(registry.pool, tenant, run.id))?.state, 'cancelled')
  })

  it('keeps a bounded log', async () => {
    const registry = await fixture()
    const run = await ingestion(registry, await registry.tenant())
    const { lease } = await taken(registry)
    await registry.pool.query(
      `insert into run_log (run_id, level, message) select $1, 'info', n::text from generate_series(1, 1000) n`,
      [run.id],
    )
    await appendRunLog(registry.pool, lease, 'warn', 'x'.repeat(5000))
    const lines = await runLog(registry.pool, run.id)
    assert.equal(lines.length, 1000)
    assert.equal(lines[0]?.message, '2')
    assert.equal(lines.at(-1)?.message.length, 2000)
  })
})

describe('a product’s fence', () => {
  it('gives each commit the next epoch, later than the one before, and none to a former writer', async () => {
    const registry = await fixture()
    const { pool } = registry
    const product = await registry.product(await registry.tenant())
    const { token } = await inTransaction(pool, (tx) => raiseFence(tx, product.id))
    const epochs = await Promise.all(
      Array.from({ length: 8 }, () => inTransaction(pool, (tx) => reserveEpoch(tx, product.id, token))),
    )
    epochs.sort((left, right) => left.epoch - right.epoch)
    assert.deepEqual(
      epochs.map(({ epoch }) => epoch),
      [1, 2, 3, 4, 5, 6, 7, 8],
    )
    for (const [index, { committedAt }] of epochs.entries()) {
      if (index > 0) assert.ok(committedAt > (epochs[index - 1]?.committedAt ?? committedAt))
    }
    const failing = inTransaction(pool, async (tx) => {
      await reserveEpoch(tx, product.id, token)
      throw new Error('the lake said no')
    })
    await assert.rejects(failing, /the lake said no/)
    await inTransaction(pool, (tx) => raiseFence(tx, product.id))
    await assert.rejects(
      inTransaction(pool, (tx) => reserveEpoch(tx, product.id, token)),
      FENCED,
    )
    assert.equal((await inTransaction(pool, (tx) => lockFence(tx, product.id))).epoch, 8)
  })

  it('is later than the epoch before though the clock went back', async () => {
    const registry = await fixture()
    const { pool } = registry
    const product = await registry.product(await registry.tenant())
    await pool.query(`update product_fences set epoch = 3, epoch_committed_at = now() + interval '1 hour'`)
    const { committedAt, epoch } = await inTransaction(pool, (tx) => reserveEpoch(tx, product.id, 0n))
    assert.equal(epoch, 4)
    assert.ok(committedAt.getTime() > Date.now() + 3_500_000)
  })
})

describe('a run of what waits already', () => {
  it('is queued once, however many ask at the same time', async () => {
    const registry = await fixture()
    const tenant = await registry.tenant()
    const targets = [
      { kind: 'ingestion', connectionId: (await registry.connection(tenant)).id },
      { kind: 'materialization', productId: (await registry.product(tenant)).id },
    ] as const
    for (const target of targets) {
      const asked = Array.from({ length: 30 }, () =>
        inTransaction(registry.pool, async (tx) => {
          const waiting = await queuedRunOf(tx, target)
          return (waiting ?? (await enqueueRun(tx, { ...target, tenant, trigger: 'manual', createdBy: ANN }))).id
        }),
      )
      assert.equal(new Set(await Promise.all(asked)).size, 1, target.kind)
    }
  })
})
