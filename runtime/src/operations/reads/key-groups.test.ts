import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { keyGroups, type RowKey } from './key-groups.ts'

const keyOf = (values: readonly number[]): RowKey => {
  const parts = values.map((value) => JSON.stringify(value))
  return {
    id: JSON.stringify(parts),
    parts,
    filters: values.map((value, at) => ({ column: `c${at}`, operator: 'eq', values: [value] })),
  }
}

it('groups let pass exactly the keys that were asked for, each once, and no more at a time than a store takes', () => {
  const cases = fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 5 })).chain(([width, most]) =>
    fc.record({
      keys: fc.uniqueArray(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: width, maxLength: width }), {
        selector: (key) => key.join(),
        minLength: 1,
      }),
      free: fc.array(fc.boolean(), { minLength: width, maxLength: width }),
      most: fc.constant(most),
    }),
  )
  fc.assert(
    fc.property(cases, ({ keys, free, most }) => {
      const groups = keyGroups(keys.map(keyOf), free, most)
      const passing = groups.flatMap(({ filters }) =>
        filters.reduce<unknown[][]>(
          (rows, { values }) => rows.flatMap((row) => values.map((value) => [...row, value])),
          [[]],
        ),
      )
      assert.deepEqual(passing.map(String).toSorted(), keys.map(String).toSorted())
      for (const { keys: own, filters } of groups) {
        assert.ok(own.length <= most)
        for (const [at, { operator }] of filters.entries())
          assert.ok(operator === 'eq' || (operator === 'in' && free[at]))
      }
    }),
    { seed: 7, numRuns: 300 },
  )
})

it('all keys of one column are one request, and keys of several as few as the columns allow', () => {
  const ids = Array.from({ length: 1000 }, (_, at) => keyOf([at]))
  assert.equal(keyGroups(ids, [true], 1000).length, 1)
  assert.equal(keyGroups(ids, [false], 1000).length, 1000)
  const grid = [0, 1, 2].flatMap((a) => [0, 1, 2, 3, 4].map((b) => keyOf([a, b])))
  assert.equal(keyGroups(grid, [true, true], 1000).length, 3)
  assert.equal(keyGroups(grid, [true, false], 1000).length, 5)
})
