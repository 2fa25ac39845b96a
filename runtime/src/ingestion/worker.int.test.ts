/** Who gets a worker's places. Runs here end when they are told to. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { until } from '../../../test/until.ts'
import { enqueueRun, RUN_KINDS, type RunKind } from '../registry/runs.ts'
import { ANN, startTestRegistry, type TestRegistry } from '../registry/testing.ts'
import { Worker } from './worker.ts'

async function queue(
  registry: TestRegistry,
  kind: RunKind,
  tenant: string,
  count: number,
  input: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    const common = { tenant, trigger: 'manual', createdBy: ANN, input } as const
    if (kind === 'ingestion') {
      const { id: connectionId } = await registry.connection(tenant)
      await enqueueRun(registry.pool, { ...common, kind, connectionId })
    } else {
      const { id: productId } = await registry.product(tenant)
      await enqueueRun(registry.pool, { ...common, kind, productId })
    }
  }
}

/**
 * A worker whose runs never end by themselves, and what it has begun: `ingestion acme`; `transforms acme` where an
 * ingestion has come to them, which each does at once if told so.
 */
async function startWorker(registry: TestRegistry, slots: number, goesOn = false) {
  const begun: string[] = []
  const endings: { readonly name: string; readonly end: () => void }[] = []
  const worker = new Worker({
    pool: registry.pool,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    slots,
    leaseMs: 60_000,
    async execute({ run }, signal, place) {
      let name = `${run.kind} ${run.tenant}`
      begun.push(name)
      if (goesOn && run.kind === 'ingestion') {
        await place.toTransforms()
        name = `transforms ${run.tenant}`
        begun.push(name)
      }
      return new Promise((resolve, reject) => {
        endings.push({ name, end: () => resolve({}) })
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    },
  })
  await worker.start()
  const count = (name: string) => begun.filter((other) => other === name).length
  return {
    begun,
    count,
    endOne: (name: string) =>
      endings
        .splice(
          endings.findIndex((ending) => ending.name === name),
          1,
        )[0]
        ?.end(),
    endOldest: () => endings.shift()?.end(),
    stop: () => worker.stop(0),
  }
}

describe('a worker', () => {
  it('listens again when it has lost its connection, and keeps none of the pool', async () => {
    const registry = await startTestRegistry()
    after(() => registry[Symbol.asyncDispose]())
    const worker = await startWorker(registry, 2)
    const listeners = async () => {
      const { rows } = await registry.pool.query<{ pid: number }>(
        `select pid from pg_stat_activity where datname = current_database() and query like 'listen %'`,
      )
      return rows.map(({ pid }) => pid)
    }
    const [first] = await listeners()
    assert.ok(first !== undefined)
    await registry.pool.query('select pg_terminate_backend($1)', [first])
    await until('it listens again', async () => (await listeners()).some((pid) => pid !== first))
    await worker.stop()
    assert.equal(registry.pool.totalCount, registry.pool.idleCount)
  })

  for (const kind of RUN_KINDS) {
    for (const slots of [2, 3]) {
      it(`keeps one of ${slots} places for others than a tenant whose ${kind}s never end`, async () => {
        const registry = await startTestRegistry()
        after(() => registry[Symbol.asyncDispose]())
        const [greedy, other] = [await registry.tenant('enterprise'), await registry.tenant('free')]
        await queue(registry, kind, greedy, slots + 2)
        const worker = await startWorker(registry, slots)
        try {
          await until('the tenant has its places', () => worker.count(`${kind} ${greedy}`) === slots - 1)
          await queue(registry, kind, other, 1)
          await until('the other has its place', () => worker.count(`${kind} ${other}`) === 1)
          assert.equal(worker.count(`${kind} ${greedy}`), slots - 1)
          // What has ended makes room for the next of the same tenant.
          worker.endOne(`${kind} ${greedy}`)
          await until('the tenant goes on', () => worker.count(`${kind} ${greedy}`) === slots)
        } finally {
          await worker.stop()
        }
      })
    }
  }

  it('has places of each kind, so that endless transforms of all tenants hold up no ingestion', async () => {
    const registry = await startTestRegistry()
    after(() => registry[Symbol.asyncDispose]())
    const tenants = [await registry.tenant(), await registry.tenant(), await registry.tenant()]
    for (const tenant of tenants) await queue(registry, 'materialization', tenant, 2)
    const worker = await startWorker(registry, 2)
    try {
      await until('all places for transforms are taken', () => worker.begun.length === 2)
      await queue(registry, 'ingestion', tenants[0] as string, 1)
      await until('the ingestion has begun', () => worker.count(`ingestion ${tenants[0]}`) === 1)
      assert.equal(worker.begun.length, 3)
    } finally {
      await worker.stop()
    }
  })

  for (const slots of [1, 3]) {
    it(`of ${slots} places lets ingestions read while those before them wait for transforms, which take turns`, async () => {
      const registry = await startTestRegistry()
      after(() => registry[Symbol.asyncDispose]())
      const [greedy, other] = [await registry.tenant(), await registry.tenant()]
      const most = Math.max(1, slots - 1)
      await queue(registry, 'materialization', greedy, most)
      const worker = await startWorker(registry, slots, true)
      const transforms = () => worker.begun.filter((name) => !name.startsWith('ingestion')).length
      try {
        await until('it has what it may have', () => transforms() === most)
        // More than there are places for ingestions, of the same tenant and of another.
        await queue(registry, 'ingestion', greedy, slots + 2)
        await until('its own are read', () => worker.count(`ingestion ${greedy}`) === slots + 2)
        await queue(registry, 'ingestion', other, 3)
        await until('those of the other are read', () => worker.count(`ingestion ${other}`) === 3)
        assert.equal(worker.count(`transforms ${greedy}`), 0, 'no place is kept for an ingestion')
        if (slots > 1) await until('one of the other has come to its', () => worker.count(`transforms ${other}`) === 1)
        assert.equal(transforms(), slots)
        // Each that ends lets one in, and a queued run has its turn among those that wait.
        await queue(registry, 'materialization', other, 1)
        for (let ended = 1; ended <= 6; ended += 1) {
          worker.endOldest()
          await until('the next is let in', () => transforms() === slots + ended)
          if (ended === 2) assert.equal(worker.count(`materialization ${other}`), 1)
        }
        assert.ok(worker.count(`transforms ${other}`) > 0)
        assert.ok(worker.count(`transforms ${greedy}`) > 0)
      } finally {
        await worker.stop()
      }
      const left = await registry.pool.query(`select from runs where state = 'running'`)
      assert.equal(left.rowCount, 0, 'what waited is given back when the worker stops')
    })
  }

  it('leaves waves a place beside what they have left to others', async () => {
    const registry = await startTestRegistry()
    after(() => registry[Symbol.asyncDispose]())
    const tenant = await registry.tenant('enterprise')
    await queue(registry, 'materialization', tenant, 3, { left: {} })
    const worker = await startWorker(registry, 3, true)
    try {
      await until('one has begun', () => worker.count(`materialization ${tenant}`) === 1)
      for (const waves of [1, 2]) {
        await queue(registry, 'ingestion', tenant, 1)
        await until('a wave has come to its transforms', () => worker.count(`transforms ${tenant}`) === waves)
        worker.endOne(`transforms ${tenant}`)
      }
      assert.equal(worker.count(`materialization ${tenant}`), 1)
      worker.endOne(`materialization ${tenant}`)
      await until('the next has begun', () => worker.count(`materialization ${tenant}`) === 2)
    } finally {
      await worker.stop()
    }
  })

  it('of one place gives it to any', async () => {
    const registry = await startTestRegistry()
    after(() => registry[Symbol.asyncDispose]())
    const tenant = await registry.tenant()
    await queue(registry, 'ingestion', tenant, 1)
    const worker = await startWorker(registry, 1)
    await until('it has begun', () => worker.begun.length === 1)
    await worker.stop()
  })
})
