import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { inTransaction } from '../../database/pools.ts'
import { openIncident, STALE } from '../../registry/incidents.ts'
import type { RunOutcome } from '../../registry/run-claims.ts'
import { findRun, type Run } from '../../registry/runs.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import { noteIncidents } from './run-incidents.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

it('blames the part of a run that failed, and a run that succeeds ends what its parts failed by', async () => {
  const tenant = await registry.tenant()
  const connection = await registry.connection(tenant)
  const product = await registry.product(tenant)
  const end = async (outcome: RunOutcome, products: readonly object[] = []): Promise<void> => {
    const { rows } = await pool.query(
      `insert into runs (id, tenant, kind, connection_id, trigger, created_by, result)
       values (gen_random_uuid(), $1, 'ingestion', $2, 'manual', '{}', $3) returning id`,
      [tenant, connection.id, JSON.stringify({ products })],
    )
    const run = (await findRun(pool, tenant, rows[0].id)) as Run
    await inTransaction(pool, (tx) => noteIncidents(tx, run, outcome))
  }
  const open = async (): Promise<readonly string[]> => {
    const { rows } = await pool.query(
      `select case when product_id is null then 'connection ' else 'product ' end || cause || ' ' || times as text
       from incidents where tenant = $1 and closed_at is null order by 1`,
      [tenant],
    )
    return rows.map(({ text }) => text)
  }
  const failed = (code: string, message: string): RunOutcome => ({ state: 'failed', error: { code, message } })
  const made = (state: string, reason: object | null = null) => ({ id: product.id, state, reason })
  const skipped = made('skipped', { code: 'input_failed', message: 'its input could not be read' })
  const blocked = made('failed', { code: 'quality_failed', message: 'checks have failed' })

  await end(failed('source_unreachable', 'no answer'), [skipped])
  await end(failed('source_unreachable', 'no answer'), [skipped])
  await end({ state: 'cancelled' })
  assert.deepEqual(await open(), ['connection source_unreachable 2'])
  await end(failed('quality_failed', 'sales.n: checks have failed'), [blocked])
  assert.deepEqual(await open(), ['product quality_failed 1'], 'the connection was read')
  await inTransaction(pool, (tx) => openIncident(tx, tenant, { productId: product.id }, { cause: STALE }))
  await end({ state: 'succeeded' }, [made('succeeded')])
  assert.deepEqual(await open(), [`product ${STALE} 1`], 'how old rows are is told by the watch over that')
  await pool.query('delete from connections where id = $1', [connection.id])
  const gone = { connectionId: connection.id }
  assert.equal(await inTransaction(pool, (tx) => openIncident(tx, tenant, gone, { cause: 'x' })), false)
})

it('a run that has not made its product says nothing of what that failed by', async () => {
  const tenant = await registry.tenant()
  const product = await registry.product(tenant)
  await inTransaction(pool, (tx) => openIncident(tx, tenant, { productId: product.id }, { cause: 'quality_failed' }))
  const isOpen = async () =>
    (await pool.query('select from incidents where tenant = $1 and closed_at is null', [tenant])).rowCount === 1
  for (const [state, open] of [
    ['skipped', true],
    ['succeeded', false],
  ] as const) {
    const { rows } = await pool.query(
      `insert into runs (id, tenant, kind, product_id, trigger, created_by, result)
       values (gen_random_uuid(), $1, 'materialization', $2, 'ingestion', '{}', $3) returning id`,
      [tenant, product.id, JSON.stringify({ products: [{ id: product.id, state, reason: null }] })],
    )
    const run = (await findRun(pool, tenant, rows[0].id)) as Run
    await inTransaction(pool, (tx) => noteIncidents(tx, run, { state: 'succeeded' }))
    assert.equal(await isOpen(), open, state)
  }
})
