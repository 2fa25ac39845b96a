import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ANY_KINDS, KindsLook } from './told-kinds.ts'

const CELL = fc.constantFrom(null, '', 'u', 'd', 't', ',', '\n', '"', 'two, "quoted"\nlines,,u')
const LINE = fc.record({
  op: fc.constantFrom('u', 'u', 'u', 'd', 'r', 't'),
  unchanged: fc.constantFrom(null, null, null, '["a"]', ''),
  others: fc.array(CELL, { minLength: 1, maxLength: 4 }),
})
const csv = (cells: readonly (string | null)[]) =>
  `${cells.map((cell) => (cell === null ? '' : `"${cell.replaceAll('"', '""')}"`)).join(',')}\n`

test('the kinds of rows are known wherever the pieces end and whatever values hold', () => {
  fc.assert(
    fc.property(fc.array(LINE, { maxLength: 6 }), fc.array(fc.nat(200), { maxLength: 5 }), (lines, ends) => {
      const text = lines.map(({ op, unchanged, others }) => csv([op, '0001', unchanged, ...others])).join('')
      const bytes = Buffer.from(text)
      const look = new KindsLook()
      const cuts = [0, ...ends.map((end) => Math.min(end, bytes.length)).toSorted((a, b) => a - b), bytes.length]
      for (const [at, cut] of cuts.slice(1).entries()) look.take(bytes.subarray(cuts[at], cut))
      assert.deepEqual(look.kinds, {
        isPlain: lines.every(({ op, unchanged }) => op !== 't' && unchanged === null),
        hasGone: lines.some(({ op }) => op !== 'u'),
      })
    }),
    { numRuns: 300 },
  )
})

test('what was not looked at to its end may be of any kinds', () => {
  const line = Buffer.from(csv(['u', '0001', null, null, 'x'.repeat(1000)]))
  const look = new KindsLook()
  for (let taken = 0; taken <= 64 * 1024; taken += line.length) {
    assert.deepEqual(look.kinds, { isPlain: true, hasGone: false })
    look.take(line)
  }
  assert.deepEqual(look.kinds, ANY_KINDS)
  const open = new KindsLook()
  open.take(Buffer.from('"u","0001",,,"1'))
  assert.deepEqual(open.kinds, ANY_KINDS)
})
