import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { int64, parseInt64, parseJsonExactly, stringifyJsonExactly } from './int64.ts'

test('every 64-bit integer survives JSON, also where a double does not hold it', () => {
  fc.assert(
    fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), (id) => {
      const text = `{"snapshot-id":${id},"list":[${id}]}`
      assert.equal(stringifyJsonExactly(parseJsonExactly(text)), text)
      assert.equal(parseInt64(id.toString()), int64(id))
    }),
  )
})

test('equal ids are === whichever way they came', () => {
  assert.equal(parseInt64('5'), int64(5n))
  assert.equal(parseJsonExactly('9223372036854775807'), parseInt64('9223372036854775807'))
})

test('fractions and text stay what they are', () => {
  assert.deepEqual(parseJsonExactly('{"a":1.5,"b":1e300,"c":"9223372036854775807"}'), {
    a: 1.5,
    b: 1e300,
    c: '9223372036854775807',
  })
})

test('what is no 64-bit integer is refused', () => {
  for (const text of ['', '1.5', '9223372036854775808', 'abc', '1e3', ' 1'])
    assert.throws(() => parseInt64(text), RangeError)
})
