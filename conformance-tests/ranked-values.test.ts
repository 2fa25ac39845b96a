import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareAs, LOGICAL_TYPE_NAMES, type LogicalType } from '@sluice/sdk'
import { rankedValues } from './ranked-values.ts'

const TYPES = LOGICAL_TYPE_NAMES.flatMap((name): readonly LogicalType[] =>
  name === 'decimal' ? ['decimal(38,0)', 'decimal(38,10)', 'decimal(9,2)', 'decimal(3,3)'] : [name],
)

test('each list ascends as the contract orders its type', () => {
  for (const type of TYPES.filter((name) => name !== 'json')) {
    const values = rankedValues(type)
    assert.ok(values.length > 1, type)
    for (const [at, value] of values.entries()) {
      for (const [other, right] of values.entries()) {
        assert.equal(Math.sign(compareAs(type, value, right)), Math.sign(at - other), `${type} ${at} ${other}`)
      }
    }
  }
})
