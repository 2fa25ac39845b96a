import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { inTransaction } from '../../database/pools.ts'
import { eventMigrations } from '../../events/migrations.ts'
import { provisionTopics } from '../../events/outbox.ts'
import { raiseFence } from '../../registry/fences.ts'
import { recordEpoch, reserveEpoch } from '../../registry/materializations.ts'
import { freshnessLoad, setObjective } from '../../registry/product-freshness.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import { tellFreshness } from './freshness-watch.ts'

const registry = await startTestRegistry([eventMigrations])
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const HOUR_MS = 3_600_000
const SIGNAL = new AbortController().signal

it('rows that are older than they may be are told once, and once that they are not any more', async () => {
  const tenant = await registry.tenant()
  const product = await registry.product(tenant)
  const { id, domain: namespace, name } = product
  await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
  const commit = (readAt: Date) =>
    inTransaction(pool, async (tx) => {
      const about = { tenant, productId: id, kind: 'materialize', runId: null, version: '1.0.0', digest: '' } as const
      const none = { maskedColumns: {}, counts: {}, quality: null, qualityScore: null, snapshots: { clear: '1' } }
      const { token } = await raiseFence(tx, id)
      const inputs = { source: { read_at: readAt.toISOString() } }
      await recordEpoch(tx, await reserveEpoch(tx, id, token), { ...about, ...none, inputs })
    })
  /** As if the newest epoch had not been noted, but one that is so much older. */
  const forget = (hours: number) =>
    pool.query(
      'update product_freshness set read_at = read_at - make_interval(hours => $1), due_at = due_at - make_interval(hours => $1)',
      [hours],
    )
  const told = async (): Promise<readonly unknown[]> => {
    await Promise.all([tellFreshness(pool, SIGNAL), tellFreshness(pool, SIGNAL)])
    const { rows } = await pool.query('select type, subject, data from events where tenant = $1 order by position', [
      tenant,
    ])
    return rows
  }
  const objective = (ms: number | null) => inTransaction(pool, (tx) => setObjective(tx, product, ms))

  await objective(2 * HOUR_MS)
  assert.deepEqual([await told(), (await freshnessLoad(pool)).missed], [[], 0])
  await commit(new Date())
  const readAt = new Date(Date.now() - 3 * HOUR_MS)
  await commit(readAt)
  const about = { product: name, namespace, read_at: readAt.toISOString(), objective_s: 7200 }
  const missed = { type: 'sluice.quality.freshness_missed', subject: id, data: about }
  assert.deepEqual(await told(), [missed])
  const { missed: count, oldestS, worst } = await freshnessLoad(pool)
  assert.deepEqual([count, oldestS > 10_000, worst.map((one) => one.product)], [1, true, [`${namespace}.${name}`]])
  await commit(readAt)
  assert.equal((await told()).length, 1, 'the same miss goes on')

  await commit(new Date())
  const [, met] = (await told()) as { readonly type: string; readonly data: Record<string, unknown> }[]
  assert.equal(met?.type, 'sluice.quality.freshness_met')
  assert.ok(Date.parse(String(met?.data['missed_since'])) > readAt.getTime())
  assert.equal((await told()).length, 2)

  await forget(3)
  assert.equal((await told()).length, 2, 'the newest epoch is looked at before it is told')
  await commit(readAt)
  assert.equal((await told()).length, 3)
  await objective(null)
  assert.equal((await told()).length, 4, 'what is not asked for is not missed')
  await objective(HOUR_MS)
  await pool.query(`update tenants set status = 'deprovisioning' where slug = $1`, [tenant])
  assert.equal((await told()).length, 4)
})
