import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Snapshot, TableMetadata } from './metadata.ts'
import { applyUpdates, checkRequirements, emptyMetadata, type TableUpdate } from './table-updates.ts'

const snapshot = (id: number | bigint, sequence: number, atMs: number): Snapshot => ({
  'snapshot-id': id,
  'sequence-number': sequence,
  'timestamp-ms': atMs,
  'manifest-list': `file:///t/metadata/${id}.avro`,
  summary: { operation: 'append' },
})

const main = (id: number | bigint): TableUpdate => ({
  action: 'set-snapshot-ref',
  'ref-name': 'main',
  'snapshot-id': id,
  type: 'branch',
})

function history(...steps: (readonly TableUpdate[])[]): TableMetadata {
  return steps.reduce<TableMetadata>(
    (metadata, updates, at) =>
      applyUpdates(metadata, updates, 1000 * (at + 1), at === 0 ? null : `file:///t/metadata/${at}.json`),
    emptyMetadata('u', 'file:///t'),
  )
}

const three = history(
  [{ action: 'add-snapshot', snapshot: snapshot(1, 1, 1000) }, main(1)],
  [{ action: 'add-snapshot', snapshot: snapshot(2, 2, 2000) }, main(2)],
  [{ action: 'add-snapshot', snapshot: snapshot(2n ** 62n, 3, 3000) }, main(2n ** 62n)],
)

test('the logs tell what was current when', () => {
  assert.deepEqual(three['snapshot-log'], [
    { 'snapshot-id': 1, 'timestamp-ms': 1000 },
    { 'snapshot-id': 2, 'timestamp-ms': 2000 },
    { 'snapshot-id': 2n ** 62n, 'timestamp-ms': 3000 },
  ])
  assert.deepEqual(three['metadata-log'], [
    { 'metadata-file': 'file:///t/metadata/1.json', 'timestamp-ms': 1000 },
    { 'metadata-file': 'file:///t/metadata/2.json', 'timestamp-ms': 2000 },
  ])
  assert.equal(three['last-sequence-number'], 3)
})

test('updates leave their input as it was', () => {
  const frozen = JSON.stringify(three, (_key, value) => (typeof value === 'bigint' ? `${value}` : value))
  applyUpdates(three, [main(1), { action: 'remove-snapshots', 'snapshot-ids': [2] }], 9000, null)
  assert.equal(
    JSON.stringify(three, (_key, value) => (typeof value === 'bigint' ? `${value}` : value)),
    frozen,
  )
})

test('a removed snapshot leaves no gap in the log', () => {
  const without = applyUpdates(three, [{ action: 'remove-snapshots', 'snapshot-ids': [2] }], 9000, null)
  assert.deepEqual(
    without.snapshots.map((kept) => kept['snapshot-id']),
    [1, 2n ** 62n],
  )
  assert.deepEqual(without['snapshot-log'], [{ 'snapshot-id': 2n ** 62n, 'timestamp-ms': 3000 }])
})

test('a snapshot that a reference names is not removed', () => {
  const tagged = applyUpdates(
    three,
    [{ action: 'set-snapshot-ref', 'ref-name': 'v1', 'snapshot-id': 1, type: 'tag' }],
    9000,
    null,
  )
  const remove: TableUpdate = { action: 'remove-snapshots', 'snapshot-ids': [1] }
  assert.throws(() => applyUpdates(tagged, [remove], 9000, null), { code: 'lake_update_invalid' })
  const untagged = applyUpdates(tagged, [{ action: 'remove-snapshot-ref', 'ref-name': 'v1' }, remove], 9000, null)
  assert.equal(untagged.snapshots.length, 2)
})

test('time never runs backwards', () => {
  assert.equal(applyUpdates(three, [main(1)], 5, null)['last-updated-ms'], 3000)
  assert.equal(applyUpdates(three, [main(1)], 5, null)['snapshot-log'].at(-1)?.['timestamp-ms'], 3000)
})

test('the metadata log keeps as many files as the property says', () => {
  const limited = applyUpdates(
    three,
    [{ action: 'set-properties', updates: { 'write.metadata.previous-versions-max': '2' } }],
    9000,
    'file:///t/metadata/3.json',
  )
  assert.deepEqual(
    limited['metadata-log'].map((entry) => entry['metadata-file']),
    ['file:///t/metadata/2.json', 'file:///t/metadata/3.json'],
  )
})

test('updates that do not fit are refused', () => {
  const bad: TableUpdate[] = [
    { action: 'add-snapshot', snapshot: snapshot(1, 9, 1) },
    { action: 'add-snapshot', snapshot: snapshot(9, 3, 1) },
    main(99),
    { action: 'set-current-schema', 'schema-id': 7 },
    { action: 'upgrade-format-version', 'format-version': 3 },
    { action: 'nonsense' } as unknown as TableUpdate,
  ]
  for (const update of bad)
    assert.throws(() => applyUpdates(three, [update], 9000, null), { kind: 'INVALID_DATA' }, update.action)
})

test('requirements hold of the table they were made for, and of no other', () => {
  const conflict = { kind: 'CONFLICT', code: 'lake_commit_conflict' }
  checkRequirements(null, [{ type: 'assert-create' }])
  checkRequirements(three, [
    { type: 'assert-table-uuid', uuid: 'u' },
    { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': 2n ** 62n },
    { type: 'assert-ref-snapshot-id', ref: 'other', 'snapshot-id': null },
    { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': 0 },
  ])
  assert.throws(() => checkRequirements(three, [{ type: 'assert-create' }]), conflict)
  assert.throws(
    () => checkRequirements(three, [{ type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': 2 }]),
    conflict,
  )
  assert.throws(
    () => checkRequirements(three, [{ type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': null }]),
    conflict,
  )
  assert.throws(() => checkRequirements(null, [{ type: 'assert-table-uuid', uuid: 'u' }]), conflict)
})

test('statistics of a removed snapshot go with it', () => {
  const file = (id: number) => ({ 'snapshot-id': id, 'statistics-path': `file:///t/metadata/${id}.puffin` })
  const known = applyUpdates(
    three,
    [
      { action: 'set-statistics', statistics: file(1) },
      { action: 'set-statistics', statistics: file(2) },
      { action: 'set-partition-statistics', 'partition-statistics': file(1) },
    ],
    4000,
    null,
  )
  const without = applyUpdates(known, [{ action: 'remove-snapshots', 'snapshot-ids': [1] }], 9000, null)
  assert.deepEqual([without['statistics'], without['partition-statistics']], [[file(2)], []])
})
