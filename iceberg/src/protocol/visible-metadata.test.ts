import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Snapshot, TableMetadata } from '../format/metadata.ts'
import { emptyMetadata } from '../format/table-updates.ts'
import { referencedOnly, visibleMetadata } from './visible-metadata.ts'

const snapshot = (id: number, parent?: number): Snapshot => ({
  'snapshot-id': id,
  ...(parent === undefined ? {} : { 'parent-snapshot-id': parent }),
  'sequence-number': id,
  'timestamp-ms': id,
  'manifest-list': `file:///t/metadata/snap-${id}.avro`,
  summary: { operation: 'append' },
})

const METADATA: TableMetadata = {
  ...emptyMetadata('0d8e0c9c-2c2f-4d1e-9a8f-0d6a5d0f8c11', 'file:///t'),
  'current-snapshot-id': 4,
  snapshots: [snapshot(1), snapshot(2, 1), snapshot(3, 2), snapshot(4, 3)],
  'snapshot-log': [1, 2, 3, 4].map((id) => ({ 'snapshot-id': id, 'timestamp-ms': id })),
  'metadata-log': [{ 'metadata-file': 'file:///t/metadata/0.json', 'timestamp-ms': 1 }],
  refs: { main: { 'snapshot-id': 4, type: 'branch' }, old: { 'snapshot-id': 1, type: 'tag' } },
  statistics: [
    { 'snapshot-id': 1, 'statistics-path': 'file:///t/metadata/1.puffin' },
    { 'snapshot-id': 4, 'statistics-path': 'file:///t/metadata/4.puffin' },
  ],
}

const idsOf = (metadata: TableMetadata) => metadata.snapshots.map((each) => each['snapshot-id'])

test('what may not be read is named nowhere', () => {
  const mayRead = new Map([1, 2, 3, 4].map((id) => [String(id), id > 2]))
  const { metadata, hidden } = visibleMetadata(METADATA, mayRead)
  assert.equal(hidden, 2)
  assert.deepEqual(idsOf(metadata), [3, 4])
  assert.deepEqual(Object.keys(metadata.refs), ['main'])
  assert.deepEqual(metadata['metadata-log'], [])
  assert.equal(metadata['current-snapshot-id'], 4)
  const text = JSON.stringify([
    metadata['snapshot-log'],
    metadata['statistics'],
    metadata.snapshots.map((s) => s['manifest-list']),
  ])
  for (const name of ['snap-1.', 'snap-2.', '1.puffin', '"snapshot-id":1,', '"snapshot-id":2,']) {
    assert.ok(!text.includes(name), name)
  }
})

test('a rewrite of files goes with its parent, and what nothing is known of is hidden', () => {
  const known = (entries: readonly (readonly [string, boolean])[]) =>
    idsOf(visibleMetadata(METADATA, new Map(entries)).metadata)
  assert.deepEqual(known([['3', true]]), [3, 4])
  assert.deepEqual(
    known([
      ['3', false],
      ['1', true],
    ]),
    [1, 2],
  )
  assert.deepEqual(
    known([
      ['2', true],
      ['1', false],
    ]),
    [2, 3, 4],
  )
  assert.deepEqual(known([]), [])
})

test('the newest snapshot of a table is not current for those who may not see it', () => {
  const { metadata } = visibleMetadata(
    METADATA,
    new Map([
      ['1', true],
      ['4', false],
    ]),
  )
  assert.equal(metadata['current-snapshot-id'], -1)
})

test('a history of a cycle comes to an end', () => {
  const looped = { ...METADATA, snapshots: [snapshot(1, 2), snapshot(2, 1)] }
  assert.deepEqual(idsOf(visibleMetadata(looped, new Map()).metadata), [])
})

test('a client may ask for named snapshots only', () => {
  assert.deepEqual(idsOf(referencedOnly(METADATA)), [1, 4])
})
