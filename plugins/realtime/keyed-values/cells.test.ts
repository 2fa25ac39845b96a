import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cellTexts, cellValue, isWhole, projectedJson, rowJson } from './cells.ts'

const LAYOUT = [
  { name: 'id', type: 'long' },
  { name: 'a "quoted", {name}', type: 'string' },
  { name: 'size', type: 'double' },
  { name: 'document', type: 'json' },
  { name: 'bytes', type: 'binary' },
] as const

test('a row comes back cell by cell, whatever stands in its strings and documents', () => {
  const document = fc
    .jsonValue()
    .map((value) => JSON.stringify(value))
    .filter((text) => text !== 'null')
  const row = fc.tuple(
    fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
    fc.option(fc.string({ unit: 'grapheme' })),
    fc.option(fc.double()),
    fc.option(document),
    fc.option(fc.uint8Array()),
  )
  fc.assert(
    fc.property(row, (cells) => {
      const json = rowJson(LAYOUT, cells)
      JSON.parse(json)
      const texts = cellTexts(json)
      assert.equal(texts.length, LAYOUT.length)
      assert.deepEqual(
        LAYOUT.map(({ type }, index) => cellValue(texts[index] ?? '', type)),
        [...cells],
      )
    }),
    { numRuns: 1000 },
  )
})

test('long numbers in documents keep their digits in a projection', () => {
  const json = rowJson(LAYOUT, [1n, 'x', -0, '{"n": 12345678901234567890.10}', null])
  assert.equal(
    projectedJson(json, LAYOUT, ['document', 'size']),
    '{"document":{"n": 12345678901234567890.10},"size":-0}',
  )
  assert.equal(projectedJson(json, LAYOUT, ['added later']), '{"added later":null}')
})

test('only the stored columns in their order are a whole value', () => {
  const names = LAYOUT.map(({ name }) => name)
  assert.equal(isWhole(LAYOUT, names), true)
  assert.equal(isWhole(LAYOUT, names.toReversed()), false)
  assert.equal(isWhole(LAYOUT, names.slice(1)), false)
})

test('a document is in one line, however it was written, as the engine writes it', () => {
  const cells = [1n, 'a\nb', 1e-7, '{"a":\r\n"\\n"}', null]
  assert.equal(
    rowJson(LAYOUT, cells),
    '{"id":1,"a \\"quoted\\", {name}":"a\\nb","size":1e-7,"document":{"a":  "\\n"},"bytes":null}',
  )
})

test('a document that JSON does not know is a text', () => {
  const json = rowJson([{ name: 'document', type: 'json' }], ['{"a": NaN}'])
  assert.deepEqual(JSON.parse(json), { document: '{"a": NaN}' })
})
