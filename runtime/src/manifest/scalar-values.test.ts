import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogicalType, Value } from '@sluice/sdk'
import type { Scalar } from './manifest-set.ts'
import { typedValue } from './scalar-values.ts'

const CASES: readonly (readonly [LogicalType, Scalar, Value])[] = [
  ['string', 'x', 'x'],
  ['string', 7, null],
  ['boolean', true, true],
  ['boolean', 'true', null],
  ['integer', 2147483647, 2147483647],
  ['integer', 2147483648, null],
  ['integer', 1.5, null],
  ['integer', false, null],
  ['long', '9223372036854775807', 9223372036854775807n],
  ['long', '9223372036854775808', null],
  ['double', '1e3', 1000],
  ['double', '1e999', null],
  ['double', 'NaN', null],
  ['decimal(5,2)', 1.5, '1.50'],
  ['decimal(5,2)', '-007.10', '-7.10'],
  ['decimal(5,2)', '999.99', '999.99'],
  ['decimal(5,2)', '1000', null],
  ['decimal(5,2)', '0.001', null],
  ['decimal(3,0)', '12', '12'],
  ['decimal(2,2)', '0.25', '0.25'],
  ['decimal(5,2)', 1e21, null],
  ['date', '2024-02-29', '2024-02-29'],
  ['date', '2023-02-29', null],
  ['date', '0000-01-01', null],
  ['timestamp', '2024-02-29', '2024-02-29T00:00:00.000000'],
  ['timestamp', '2024-02-29 01:02:03.5', '2024-02-29T01:02:03.500000'],
  ['timestamp', '2024-02-29T01:02:03Z', null],
  ['timestamp', '2024-02-29T25:02:03', null],
  ['timestamptz', '2024-02-29T01:02:03+02:00', '2024-02-28T23:02:03.000000Z'],
  ['timestamptz', '2024-02-29T01:02:03', null],
  ['uuid', '6F9619FF-8B86-D011-B42D-00C04FC964FF', '6f9619ff-8b86-d011-b42d-00c04fc964ff'],
  ['uuid', '6F9619FF', null],
  ['binary', 'AAAA', null],
  ['json', '{}', null],
]

describe('typedValue', () => {
  for (const [type, scalar, expected] of CASES) {
    it(`reads ${JSON.stringify(scalar)} as ${type}: ${expected === null ? 'no' : 'yes'}`, () => {
      assert.equal(typedValue(scalar, type), expected)
    })
  }
})
