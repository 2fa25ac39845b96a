/** Who has heard of an epoch that the registry lets go. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { type EpochNote, pauseIfOutdated } from '../../materializer/epoch-note.ts'
import { changeTopicsOf } from '../../registry/change-topics.ts'
import { lockFence } from '../../registry/fences.ts'
import { findProduct } from '../../registry/products.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import type { ProductsDeps } from './deps.ts'
import { settleOutdated } from './outdated-registry.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const LOST = 7

test('the number of an epoch that is let go is not given again, and who was sent its rows begins anew with the next one', async () => {
  const product = await registry.product(await registry.tenant())
  const { id, tenant } = product
  const note = { product: id, epoch: LOST, committed_at: '2026-01-01T00:00:00.000Z', version: '1.0.0', tables: {} }
  const lake = { newestNote: async () => note as unknown as EpochNote, forgetNewest: async () => undefined }
  const platform = { pool, lake, logger: { warn: () => undefined } } as unknown as ProductsDeps
  for (const [variant, sent] of [
    ['clear', 3],
    ['masked', null],
  ] as const) {
    await pool.query(
      'insert into change_topics (product_id, variant, tenant, topic, sent_epoch) values ($1, $2, $3, $4, $5)',
      [id, variant, tenant, `${id}.${variant}`, sent],
    )
  }
  const places = [
    { shape: 's', epoch: 3, target: null, offset: 0 },
    { shape: 's', epoch: 2, target: 3, offset: 40 },
    { shape: 's', epoch: null, target: null, offset: 0 },
  ]
  for (const [at, place] of places.entries()) {
    await pool.query(
      `insert into webhooks (id, tenant, product_id, name, host, key_version, sealed, application_key, created_by, place)
       values ($1, $2, $3, $1, 'h', 1, '', 'k', '{}', $4)`,
      [`whk_${at}`, tenant, id, place],
    )
  }
  assert.notEqual(await pauseIfOutdated(product, platform), null)
  const paused = await findProduct(pool, tenant, id)
  assert.ok(paused)
  const call = { tenant, principal: { subject: 'ann' }, request: {} } as unknown as TenantCall
  await inTransaction(pool, (tx) => settleOutdated(tx, platform, call, paused, 'registry'))
  assert.equal((await inTransaction(pool, (tx) => lockFence(tx, id))).nextEpoch, LOST + 1)
  const topics = await changeTopicsOf(pool, id)
  assert.deepEqual(
    topics.map(({ variant, sentEpoch }) => [variant, sentEpoch]),
    [
      ['masked', null],
      ['clear', LOST],
    ],
  )
  const { rows } = await pool.query('select place, sequence::int from webhooks where product_id = $1 order by id', [id])
  const begun = { shape: 's', epoch: LOST, target: null, offset: 0 }
  assert.deepEqual(
    rows.map(({ place }) => place),
    [begun, begun, places[2]],
  )
  // Receivers have had numbers that the registry knows nothing of.
  for (const { sequence } of rows) assert.equal(sequence, 1_000_000)
})
