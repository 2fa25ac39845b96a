import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { LogicalType, Value } from '@sluice/sdk'
import { rowJson } from './row-json.ts'

it('tells every digit of a document, the sign of a zero, and names as they are', () => {
  const told: readonly (readonly [LogicalType, Value, string])[] = [
    ...['{"a":1.10,"a":[9007199254740993,1e400]}', ' [1,\n2] ', '"x"', 'null', '-0', '{"k":"\\u00e9"}'].map(
      (text) => ['json', text, text] as const,
    ),
    ['json', '{"a":NaN}', '"{\\"a\\":NaN}"'],
    ['json', 'free text', '"free text"'],
    ['double', -0, '-0'],
    ['float', -0, '-0'],
    ['double', 1e21, '1e+21'],
    ['double', Number.NEGATIVE_INFINITY, '"-Infinity"'],
    ['float', Math.fround(0.1), '0.1'],
    ['long', -(2n ** 63n), '"-9223372036854775808"'],
    ['decimal(3,2)', '-0.10', '"-0.10"'],
    ['binary', new Uint8Array([0, 255]), '"AP8="'],
    ['boolean', false, 'false'],
    ['string', '"\u2028', '"\\"\u2028"'],
    ['date', null, 'null'],
  ]
  const names = ['10', '__proto__', 'a"b', '2', 'constructor', 'é\n']
  const columns = told.map(([type], at) => ({ name: `${at}${names[at % names.length]}`, type }))
  const wanted = told.map(([, , text], at) => `${JSON.stringify(columns[at]?.name)}:${text}`).join(',')
  assert.equal(
    rowJson(
      columns,
      told.map(([, value]) => value),
    ),
    `{${wanted}}`,
  )
})
