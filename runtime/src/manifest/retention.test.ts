import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CheckedFile } from './checked-file.ts'
import { OutputFile } from './files/output.ts'
import type { Json } from './problem.ts'
import { readRetention } from './retention.ts'
import type { Schema } from './shape-check.ts'

function read(retention: Json) {
  const schema = [{ name: 'id', type: 'integer' }]
  const file = new CheckedFile('output', OutputFile as Schema, {
    apiVersion: 'svc/v1',
    kind: 'Output',
    schema,
    retention,
  })
  const { value, findings } = readRetention(file)
  return { value, paths: [...file.findings, ...findings].map(({ path }) => path.join('.')) }
}

const valueOf = (retention: Json) => {
  const { value, paths } = read(retention)
  assert.deepEqual(paths, [])
  return value
}

test('nothing said is told from all', () => {
  assert.equal(valueOf({}), undefined)
  assert.equal(valueOf({ snapshots: 'all' }), 'all')
  assert.equal(valueOf({ keep_last: 'all' }), 'all')
  assert.deepEqual(valueOf({ snapshots: '2d' }), { maxAgeMs: 172_800_000, keepLast: null })
  assert.deepEqual(valueOf({ snapshots: '3h', keep_last: 7 }), { maxAgeMs: 10_800_000, keepLast: 7 })
})

test('a ladder', () => {
  const snapshots = [{ for: '1m', every: 'all' }, { for: '1h', every: '1m' }, { every: '1d' }]
  const ladder = [
    { forMs: 60_000, everyMs: null },
    { forMs: 3_600_000, everyMs: 60_000 },
    { forMs: null, everyMs: 86_400_000 },
  ]
  assert.deepEqual(valueOf({ snapshots }), { ladder })
  assert.deepEqual(valueOf({ snapshots: [{ for: '1d', every: '15m' }] }), {
    ladder: [{ forMs: 86_400_000, everyMs: 900_000 }],
  })
})

test('one that could not keep what it says is refused, where it says so', () => {
  const paths = (...snapshots: Json[]) => read({ snapshots }).paths
  assert.deepEqual(paths({ every: '1m' }, { every: '1d' }), ['retention.snapshots.0'])
  assert.deepEqual(paths({ for: '1h', every: '1m' }, { for: '1h', every: '1d' }), ['retention.snapshots.1.for'])
  assert.deepEqual(paths({ for: '1h', every: '7m' }, { every: '10m' }), ['retention.snapshots.1.every'])
  assert.deepEqual(paths({ for: '1h', every: '1m' }, { every: 'all' }), ['retention.snapshots.1.every'])
  assert.deepEqual(read({ snapshots: [{ every: '1d' }], keep_last: 5 }).paths, ['retention.keep_last'])
  for (const wrong of [{ every: '0m' }, { every: '' }, { for: '1h' }, { every: '1m', keep: 1 }, 'all', []]) {
    assert.notDeepEqual(paths(wrong), [], JSON.stringify(wrong))
  }
  assert.notDeepEqual(paths(), [])
})
