/** What the live demo claims, on rows that are known: freshness, differences, contradictions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differenceOf } from './live-comparison.ts'
import { Freshness } from './live-freshness.ts'
import { contradictionsOf } from './live-readers.ts'

test('freshness is from each commit to the first read that has it, and what nobody has read waits', () => {
  const freshness = new Freshness()
  assert.equal(freshness.spread(), null)
  for (const [changeNo, atMs] of [
    [1, 100],
    [2, 600],
    [3, 1100],
    [4, 3100],
  ] as const) {
    freshness.committed({ changeNo, atMs })
  }
  freshness.readable(0, 900)
  assert.equal(freshness.waiting, 4)
  freshness.readable(3, 2100)
  assert.deepEqual(freshness.spread(), { count: 3, p50Ms: 1500, p95Ms: 2000, mostMs: 2000 })
  assert.equal(freshness.waiting, 1)
  assert.deepEqual(freshness.seconds(0, 3200, 10), [2000, 1000, null, 'waiting'])
  assert.deepEqual(freshness.seconds(0, 3200, 2), [null, 'waiting'])
})

test('rows are compared both ways, and counted', () => {
  const source = [
    ['1', 'a', null],
    ['2', 'b', 'x'],
    ['3', 'c', 'x'],
  ]
  assert.deepEqual(differenceOf('s', source, source.toReversed()), { store: 's', rows: 3, missing: 0, surplus: 0 })
  const changed = [['1', 'a', ''], ['2', 'b', 'x'], ['2', 'b', 'x']] // biome-ignore format: three rows
  assert.deepEqual(differenceOf('s', source, changed), { store: 's', rows: 3, missing: 2, surplus: 2 })
  assert.deepEqual(differenceOf('s', source, []), { store: 's', rows: 0, missing: 3, surplus: 0 })
})

const ORDER = { order_no: 7, customer: 'Ada', email: 'a@example.com', status: 'paid', amount: '1.50', change_no: 4 }
const MASKED = { ...ORDER, customer: '[redacted]', email: '5f' }
const TOTALS = { count: 3, amount: '4.50', changeNo: 4 }
const ROUND = {
  epoch: 2,
  key: 7,
  viewer: MASKED,
  developer: ORDER,
  realtime: ORDER,
  timeseries: { count: 1, seconds: 10 },
  sql: TOTALS,
  iceberg: TOTALS,
}

test('answers of one epoch contradict each other where values differ or a mask is missing', () => {
  assert.deepEqual(contradictionsOf(ROUND), [])
  assert.deepEqual(contradictionsOf({ ...ROUND, viewer: null, developer: null, realtime: null }), [])
  assert.deepEqual(contradictionsOf({ ...ROUND, iceberg: 'skipped' }), [])
  const says = (changed: Partial<typeof ROUND>) => contradictionsOf({ ...ROUND, ...changed }).join('; ')
  assert.match(says({ viewer: { ...MASKED, customer: 'Ada' } }), /^epoch 2, order 7: .* in clear$/)
  assert.match(says({ viewer: { ...MASKED, status: 'open' } }), /viewer and developer/)
  assert.match(says({ realtime: { ...ORDER, amount: '1.51' } }), /lookup and realtime/)
  assert.match(says({ iceberg: { ...TOTALS, amount: '4.51' } }), /PyIceberg and SQL/)
})
