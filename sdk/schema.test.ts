import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { toJsonValue } from './schema.ts'

test('a float is written shortest, and as the same 32 bits when read; halves go to the even digit', () => {
  const known = [
    [Math.fround(0.1), 0.1],
    [Math.fround(3.4e38), 3.4e38],
    [Math.fround(1e-45), 1e-45],
    [Math.fround(123456789), 123456790],
    [16777216, 16777216],
    [0, 0],
    [Math.fround(1 / 3), 0.33333334],
    [2097152.25, 2097152.2],
    [2097152.75, 2097152.8],
    [70365616, 70365620],
  ] as const
  for (const [value, expected] of known) assert.equal(toJsonValue(value, 'float'), expected)
  assert.deepEqual(
    [Number.NaN, Number.POSITIVE_INFINITY].map((value) => toJsonValue(value, 'float')),
    ['NaN', 'Infinity'],
  )
  fc.assert(
    fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const written = toJsonValue(value, 'float') as number
      assert.equal(Math.fround(written) === value, true)
      for (let digits = 1; digits < 9; digits += 1) {
        const shorter = Number(value.toPrecision(digits))
        if (Math.fround(shorter) === value) return assert.ok(String(written).length <= String(shorter).length)
      }
    }),
  )
})

test('a double is written as it is', () => {
  assert.equal(toJsonValue(Math.fround(0.1), 'double'), 0.10000000149011612)
})

test('a document that JSON does not know is a text', () => {
  assert.deepEqual(toJsonValue('{"a": 1}', 'json'), { a: 1 })
  assert.equal(toJsonValue('{"a": NaN}', 'json'), '{"a": NaN}')
})
