/** What a run says of its stores, in few statements. Time goes on where the test says so. */
import assert from 'node:assert/strict'
import { after, mock, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { claimRun } from '../registry/run-claims.ts'
import { enqueueRun, findRun } from '../registry/runs.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { productProgress } from './product-progress.ts'

const registry = await startTestRegistry()
after(() => registry[Symbol.asyncDispose]())

test('stores that take a change one after the other are told of together, and the last word is written', async () => {
  const tenant = await registry.tenant()
  const product = await registry.product(tenant)
  const wanted = { tenant, kind: 'materialization', productId: product.id, trigger: 'manual', createdBy: ANN } as const
  await inTransaction(registry.pool, (tx) => enqueueRun(tx, wanted))
  const claimed = await claimRun(registry.pool, { workerId: 'w', leaseMs: 600_000 })
  assert.ok(claimed)
  let statements = 0
  const pool = new Proxy(registry.pool, {
    get(target, name) {
      if (name === 'query') statements += 1
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const written = async () => {
    const { result } = (await findRun(registry.pool, tenant, claimed.run.id)) ?? {}
    return (result as { progress?: { epoch: number | null; stores: readonly unknown[] } } | null)?.progress
  }
  const stores = (count: number) =>
    Array.from({ length: count }, () => ({ endpoint: 'lookup', state: 'ok', epoch: 2, error: null }) as const)
  const { begun, report, settle } = productProgress(pool, claimed.lease, product, [])
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    begun()
    while ((await written())?.epoch !== null) await new Promise(setImmediate)
    for (const count of [1, 2, 3]) {
      report(2, stores(count))
      await written()
    }
    assert.equal(statements, 1)
    while ((await written())?.stores.length !== 3) {
      mock.timers.tick(250)
      await new Promise(setImmediate)
    }
    assert.equal(statements, 2)
    report(2, stores(4))
    await settle()
    assert.equal((await written())?.stores.length, 4)
    assert.equal(statements, 3)
  } finally {
    mock.timers.reset()
  }
})
