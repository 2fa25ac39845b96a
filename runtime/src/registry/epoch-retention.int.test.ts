import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pruneAllEpochs } from './epoch-retention.ts'
import { epochAsOf, epochOfSnapshot, lastEpochOfVersion } from './materializations.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const SIGNAL = new AbortController().signal

/** One a minute, the last an hour ago at least; the snapshot of each has its number. Every thousandth is a version's first. */
async function productWith(epochs: number, from = 1): Promise<{ readonly id: string; readonly tenant: string }> {
  const product = await registry.product(await registry.tenant())
  await more(product, from, epochs)
  return product
}

async function more(product: { readonly id: string; readonly tenant: string }, from: number, to: number) {
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, run_id, version, digest, snapshots, committed_at)
     select 'mat_' || $1 || n, $2, $1, n, 'materialize', 'committed', 'run' || n, (n / 1000 + 1) || '.0.0', 'd',
       jsonb_build_object('clear', n::text, 'masked', 'm' || n), now() - interval '10 days' + n * interval '1 minute'
     from generate_series($3::int, $4::int) n`,
    [product.id, product.tenant, from, to],
  )
  await pool.query(
    `insert into product_fences (product_id, epoch) values ($1, $2)
     on conflict (product_id) do update set epoch = excluded.epoch`,
    [product.id, to],
  )
}

async function left(productId: string): Promise<readonly number[]> {
  const { rows } = await pool.query(
    'select epoch::int as epoch from materializations where product_id = $1 order by epoch',
    [productId],
  )
  return rows.map(({ epoch }) => epoch)
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at)
const prune = (productId: string, alive: readonly (number | string)[], most = 500, epochs: readonly number[] = []) =>
  pruneAllEpochs(pool, productId, { snapshots: alive.map(String), epochs, days: 30, most }, SIGNAL)

test('epochs are bounded by what the lake has of them, however many there were', async () => {
  const product = await productWith(4_000)
  // A tag of the first version, and the newest hundred.
  const alive = [999, ...numbers(3_901, 4_000)]
  assert.equal(await prune(product.id, alive, 200), 4_000 - 203)
  assert.deepEqual(await left(product.id), [1, 999, 1_000, ...numbers(3_801, 4_000)])
  assert.equal(await prune(product.id, alive, 200), 0)
  await more(product, 4_001, 8_000)
  const later = [999, ...numbers(7_901, 8_000)]
  await prune(product.id, later, 200)
  assert.equal((await left(product.id)).length, 203, 'no more of them than before')
})

test('a moment, a snapshot and a version are answered as before', async () => {
  const product = await productWith(3_000)
  const alive = [...numbers(998, 999), 'm1500', ...numbers(2_951, 3_000)]
  const moments = [1, 500, 998, 999, 1_000, 1_001, 1_400, 1_500, 1_501, 1_800, 2_950, 2_951, 3_000]
  const { rows } = await pool.query('select epoch::int, committed_at from materializations where product_id = $1', [
    product.id,
  ])
  const instants = new Map(rows.map((row) => [row.epoch, row.committed_at]))
  const isAlive = (epoch: number | null | undefined) => alive.includes(epoch as number) || alive.includes(`m${epoch}`)
  const asked = () =>
    Promise.all(
      moments.map(async (epoch) => {
        const found = Number((await epochAsOf(pool, product.id, instants.get(epoch)))?.epoch)
        return isAlive(found) ? found : 'not in the lake any more'
      }),
    )
  const before = await asked()
  assert.ok((await prune(product.id, alive, 60)) > 2_900)
  assert.deepEqual(await asked(), before)
  for (const snapshot of ['998', 'm1500', '2951']) assert.ok(await epochOfSnapshot(pool, product.id, snapshot))
  assert.equal(Number((await lastEpochOfVersion(pool, product.id, '1.0.0'))?.epoch), 999)
  assert.equal(await epochAsOf(pool, product.id, new Date(0)), null)
})

test('what stores and topics of changes have, what is young, and what somebody is shown stays', async () => {
  const product = await productWith(100)
  await pool.query(
    `insert into endpoint_states (product_id, endpoint, variant, applied_epoch, state) values ($1, 'lookup', 'clear', 40, 'failed')`,
    [product.id],
  )
  await pool.query(
    `insert into change_topics (product_id, variant, tenant, topic, sent_epoch) values ($1, 'masked', $2, 't', 30)`,
    [product.id, product.tenant],
  )
  await pool.query(`insert into violating_rows values ($1, 'clear', 'mat_' || $1 || 5, '')`, [product.id])
  await pool.query(
    `insert into runs (id, tenant, kind, product_id, trigger, state, created_by) values ('run7', $2, 'materialization', $1, 'manual', 'queued', '{}')`,
    [product.id, product.tenant],
  )
  await prune(product.id, [100], 1, [20])
  assert.deepEqual(await left(product.id), [1, 5, 7, 20, 21, ...numbers(30, 100)])
  await pool.query('delete from endpoint_states')
  await pool.query('delete from change_topics')
  await pool.query(`update materializations set committed_at = now() where epoch = 60`)
  await prune(product.id, [100], 1)
  assert.deepEqual(await left(product.id), [1, 5, 7, 60, 100])
})
