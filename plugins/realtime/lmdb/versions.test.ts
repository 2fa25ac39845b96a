import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compacted, visibleVersion, withVersion } from './versions.ts'

const FIRST = { committed: 1, floor: 1, aborted: [] }
const one = withVersion(undefined, { write: 1, layout: 0, value: 'one' }, { committed: 0, floor: 1, aborted: [] })

function shown(record: Buffer, committed: number, floor = 1, aborted: readonly number[] = []) {
  return visibleVersion(record, { committed, floor, aborted })?.value
}

test('a new version is there once its write is committed, and the former until then', () => {
  const two = withVersion(one, { write: 2, layout: 0, value: 'zwei €' }, FIRST)
  assert.equal(shown(one, 0), undefined)
  assert.equal(shown(two, 1), 'one')
  assert.equal(shown(two, 2), 'zwei €')
  assert.equal(shown(two, 2, 3), undefined)
})

test('a write that came to nothing is never seen, also under later ones', () => {
  const stray = withVersion(one, { write: 2, layout: 0, value: 'stray' }, FIRST)
  assert.equal(shown(stray, 3, 1, [2]), 'one')
  const three = withVersion(stray, { write: 3, layout: 1, value: 'three' }, { committed: 1, floor: 1, aborted: [2] })
  assert.equal(shown(three, 1, 1, [2]), 'one')
  assert.equal(shown(three, 3, 1, [2]), 'three')
})

test('a deletion hides, and goes when it is compacted', () => {
  const gone = withVersion(one, { write: 2, layout: 0, value: null }, FIRST)
  assert.equal(shown(gone, 1), 'one')
  assert.equal(shown(gone, 2), null)
  assert.equal(compacted(gone, { committed: 2, floor: 1, aborted: [] }), null)
})

test('a record holds two versions at most', () => {
  let record: Buffer | undefined
  for (let write = 1; write <= 50; write += 1) {
    record = withVersion(
      record,
      { write, layout: 0, value: 'x'.repeat(10) },
      { committed: write - 1, floor: 1, aborted: [] },
    )
  }
  assert.equal(record?.length, 2 * (12 + 10))
  assert.equal(compacted(record ?? Buffer.alloc(0), { committed: 50, floor: 1, aborted: [] })?.length, 12 + 10)
})
