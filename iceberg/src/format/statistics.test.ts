import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import fc from 'fast-check'
import { fileMetrics } from './statistics.ts'
import { decodeStored } from './stored-value.ts'

function bounds(type: LogicalType, column: Record<string, string>) {
  const schema = { schemaId: 0, fields: [{ id: 1, name: 'c', type, nullable: true }], identifierFieldIds: [] }
  const metrics = fileMetrics(schema, { '"c"': { num_values: '9', null_count: '0', ...column } })
  const [lower, upper] = [metrics.lowerBounds.get(1), metrics.upperBounds.get(1)]
  return lower === undefined || upper === undefined ? null : [decodeStored(type, lower), decodeStored(type, upper)]
}

test('bounds that readers could misread are left out', () => {
  assert.equal(
    bounds('uuid', { min: '01b12499-257f-48bd-bf72-ebc8667d7087', max: '01b12499-257f-48bd-bf72-ebc8667d7087' }),
    null,
  )
  assert.equal(bounds('binary', { min: '00', max: 'ff' }), null)
  assert.equal(bounds('double', { min: '0.0', max: '1.0', has_nan: 'true' }), null)
  assert.equal(bounds('double', { min: '0.0', max: '1.0' }), null)
  assert.equal(bounds('double', { min: '0.0', max: 'inf', has_nan: 'false' }), null)
  assert.equal(bounds('date', { min: '2020-01-01', max: 'infinity' }), null)
  assert.equal(bounds('date', { min: '0044-03-15 (BC)', max: '2020-01-01' }), null)
  assert.equal(bounds('integer', { min: '1' }), null)
})

test('booleans are printed as digits', () => {
  assert.deepEqual(bounds('boolean', { min: '0', max: '1' }), [false, true])
})

test('zero bounds hold both zeros', () => {
  const [lower, upper] = bounds('double', { min: '0.0', max: '-0.0', has_nan: 'false' }) as [number, number]
  assert.ok(Object.is(lower, -0) && Object.is(upper, 0))
})

test('powers of two that are printed as twice as much lie within their bounds', () => {
  const printed = { min: '4.835703278458517e+24', max: '4.835703278458517e+24', has_nan: 'false' }
  assert.deepEqual(bounds('double', printed), [2 ** 81, 2 ** 82])
  assert.deepEqual(bounds('double', { ...printed, min: '-4.951760157141521e+27', max: '-4.951760157141521e+27' }), [
    -(2 ** 92),
    -(2 ** 91),
  ])
  assert.deepEqual(bounds('double', { ...printed, min: '1.5e+24' }), [1.5e24, 2 ** 82])
  // Printed as no number at all.
  assert.equal(bounds('double', { ...printed, max: 'A.070116948172427e+242' }), null)
})

test('text is bounded by 16 characters that no value lies outside of', () => {
  const bytes = (text: unknown) => Buffer.from(String(text), 'utf8')
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
      const found = bounds('string', { min: text, max: text })
      if (found === null) return assert.match(text, /^\u{10ffff}{16}/u)
      const [lower, upper] = found
      assert.ok(Buffer.compare(bytes(lower), bytes(text)) <= 0 && Buffer.compare(bytes(upper), bytes(text)) >= 0)
      assert.ok(Array.from(String(lower)).length <= 16 && Array.from(String(upper)).length <= 16)
    }),
  )
})

test('an upper bound steps over what is no character', () => {
  const long = `${'a'.repeat(15)}\ud7ff and more`
  assert.deepEqual(bounds('string', { min: long, max: long })?.[1], `${'a'.repeat(15)}\ue000`)
})
