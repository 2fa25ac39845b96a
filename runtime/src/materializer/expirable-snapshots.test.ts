import assert from 'node:assert/strict'
import { test } from 'node:test'
import { expiredBy } from './expirable-snapshots.ts'

const NOW_MS = 1_000_000
const snapshots = [100, 200, 300, 900].map((committedAtMs) => ({
  snapshotId: String(committedAtMs),
  parentId: null,
  committedAtMs,
  summary: {},
  refs: [],
}))
const gone = (retention: Parameters<typeof expiredBy>[0], nowMs = NOW_MS) =>
  expiredBy(retention, snapshots, nowMs).map(({ snapshot }) => snapshot.snapshotId)

test('a snapshot goes when every bound that is there lets it go', () => {
  assert.deepEqual(gone({ maxAgeMs: null, keepLast: 2 }), ['100', '200'])
  assert.deepEqual(gone({ maxAgeMs: 750, keepLast: null }, 1_000), ['100', '200'])
  assert.deepEqual(gone({ maxAgeMs: 850, keepLast: 2 }, 1_000), ['100'])
  assert.deepEqual(gone({ maxAgeMs: 100, keepLast: 10 }, 1_000), [])
})

test('a snapshot was current until the next one came', () => {
  assert.deepEqual(
    expiredBy({ maxAgeMs: null, keepLast: 1 }, snapshots, NOW_MS).map(({ replacedAtMs }) => replacedAtMs),
    [200, 300, 900],
  )
})

test('a rewrite of files does not count as a snapshot of those that are kept', () => {
  const rewritten = [...snapshots, { ...snapshots[3], snapshotId: '950', summary: { 'sluice.upkeep': 'compact' } }]
  const released = expiredBy({ maxAgeMs: null, keepLast: 2 }, rewritten as typeof snapshots, NOW_MS)
  assert.deepEqual(
    released.map(({ snapshot }) => snapshot.snapshotId),
    ['100', '200'],
  )
})
