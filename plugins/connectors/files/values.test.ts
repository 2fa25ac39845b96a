import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { BadRecord, csvCells } from './csv-cells.ts'
import { SeenJson, SeenTexts } from './infer.ts'
import { type JsonCell, jsonCells, textFor } from './json-cells.ts'
import { readerOf } from './value-text.ts'

const carried = (type: LogicalType, texts: readonly string[]) => texts.map((text) => readerOf(type)(text))

test('values are carried exactly or not at all', () => {
  assert.deepEqual(carried('long', ['9223372036854775807', '-9223372036854775808', '007', '-0']), [
    '9223372036854775807',
    '-9223372036854775808',
    '7',
    '0',
  ])
  for (const text of ['9223372036854775808', '1.0', '1e3', ' 1', '+1', '', '0x10', '１'])
    assert.equal(readerOf('long')(text), null, text)
  assert.deepEqual(carried('integer', ['2147483647', '2147483648']), ['2147483647', null])
  assert.deepEqual(carried('decimal(8,3)', ['1.5', '-.25', '00012.3400', '99999', '-0']), [
    '1.500',
    '-0.250',
    '12.340',
    '99999.000',
    '0.000',
  ])
  for (const text of ['1.2345', '100000', '1e2', 'NaN', '', '.', '-', '1,5'])
    assert.equal(readerOf('decimal(8,3)')(text), null, text)
  assert.deepEqual(carried('double', ['NaN', '-Infinity', '1e308', '-0', '0.1']), [
    'NaN',
    '-Infinity',
    '1e+308',
    '-0',
    '0.1',
  ])
  for (const text of ['1e309', 'nan', 'inf', '', '1e', '--1']) assert.equal(readerOf('double')(text), null, text)
  assert.deepEqual(carried('boolean', ['true', 'F', 'TRUE']), ['t', 'f', 't'])
  for (const text of ['1', 'yes', '', 'constructor']) assert.equal(readerOf('boolean')(text), null, text)
  assert.equal(readerOf('string')('a\0b'), null)
  assert.equal(readerOf('string')('\ud800'), null)
})

test('times keep their microseconds and lose their zone only by moving to UTC', () => {
  assert.deepEqual(
    carried('timestamptz', ['2026-03-01T00:30+02:00', '2026-03-01 00:00:00.5-0130', '2026-03-01T00:00:00.123456000Z']),
    ['2026-02-28T22:30:00.000000Z', '2026-03-01T01:30:00.500000Z', '2026-03-01T00:00:00.123456Z'],
  )
  for (const text of [
    '2026-03-01T00:00:00',
    '2026-03-01T24:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-03-01T00:00:00.1234567Z',
    '0001-01-01T00:00:00+01:00',
  ])
    assert.equal(readerOf('timestamptz')(text), null, text)
  assert.deepEqual(carried('timestamp', ['2026-03-01 23:59:59.999999', '2026-03-01T00:00:00Z']), [
    '2026-03-01T23:59:59.999999',
    null,
  ])
  assert.deepEqual(carried('date', ['2024-02-29', '2023-02-29', '2024-1-1', '0000-01-01']), [
    '2024-02-29',
    null,
    null,
    null,
  ])
})

const dialect = { header: true, delimiter: ',', quote: '"', nullText: '' }

test('an empty text and no text are two things, and quotes hold what they hold', () => {
  assert.deepEqual(csvCells('a,,"","x ""y"", z"', dialect), ['a', null, '', 'x "y", z'])
  assert.deepEqual(csvCells('"a\r\nb",', dialect), ['a\r\nb', null])
  assert.deepEqual(csvCells('NA,"NA",', { ...dialect, nullText: 'NA' }), [null, 'NA', ''])
  assert.deepEqual(csvCells('a"b;c', { ...dialect, delimiter: ';', quote: null }), ['a"b', 'c'])
  for (const text of ['a"b', '"a"b', '"a', '"a" ,b']) assert.ok(csvCells(text, dialect) instanceof BadRecord, text)
})

test('numbers of JSON stay as they are written, within documents too', () => {
  const cells = jsonCells(
    '{"a":9007199254740993,"b":1.10,"c":{"d":12345678901234567890},"e":null,"f":"9","__proto__":1}',
  )
  assert.ok(cells instanceof Map)
  const text = (name: string, isJson: boolean) => textFor(cells.get(name) as JsonCell, isJson)
  assert.equal(text('a', false), '9007199254740993')
  assert.equal(text('b', false), '1.10')
  assert.equal(text('c', true), '{"d":12345678901234567890}')
  assert.equal(text('c', false), null)
  assert.equal(text('f', true), '"9"')
  assert.deepEqual([...cells.keys()], ['a', 'b', 'c', 'f', '__proto__'])
  for (const line of ['[1]', '12345678901234567890', '{"a":1', '{"a":NaN}', '['.repeat(100_000)])
    assert.ok(jsonCells(line) instanceof BadRecord, line.slice(0, 20))
})

test('the narrowest type that holds all that was seen is chosen', () => {
  const seen = (texts: readonly string[]) => {
    const column = new SeenTexts()
    for (const text of texts) column.add(text)
    return column.type
  }
  assert.equal(seen([]), 'string')
  assert.equal(seen(['1', '-20']), 'long')
  assert.equal(seen(['1', '2.50']), 'decimal(38,9)')
  assert.equal(seen(['1', '2e3']), 'double')
  assert.equal(seen(['007', '8']), 'string')
  assert.equal(seen(['9223372036854775808']), 'decimal(38,9)')
  assert.equal(seen(['2026-01-01']), 'date')
  assert.equal(seen(['2026-01-01', 'x']), 'string')
  assert.equal(seen(['2026-01-01T00:00Z']), 'timestamptz')
  const json = (cells: readonly JsonCell[]) => {
    const column = new SeenJson()
    for (const cell of cells) column.add(cell)
    return column.type
  }
  assert.equal(json([{ text: '12', kind: 'string' }]), 'string')
  assert.equal(json([{ text: '12', kind: 'number' }]), 'long')
  assert.equal(
    json([
      { text: '12', kind: 'number' },
      { text: 'a', kind: 'string' },
    ]),
    'json',
  )
})
