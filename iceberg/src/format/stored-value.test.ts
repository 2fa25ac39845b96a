import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import fc from 'fast-check'
import { decodeStored, encodeStored, parsePrinted, type StoredValue, twosComplement } from './stored-value.ts'

test('encodings are those of the specification', () => {
  const cases: [LogicalType, StoredValue, string][] = [
    ['boolean', true, '01'],
    ['integer', 34, '22000000'],
    ['long', 34n, '2200000000000000'],
    ['float', 1, '0000803f'],
    ['double', 1, '000000000000f03f'],
    ['date', 17501, '5d440000'],
    ['timestamp', 1510871468000001n, '01c3262d215e0500'],
    ['decimal(9,2)', 1420n, '058c'],
    ['decimal(38,0)', -1n, 'ff'],
    ['decimal(9,2)', 128n, '0080'],
    ['uuid', 'f79c3e09-677c-4bbd-a479-3f349cb785e7', 'f79c3e09677c4bbda4793f349cb785e7'],
    ['string', 'iceberg', '69636562657267'],
  ]
  for (const [type, value, hex] of cases) {
    assert.equal(encodeStored(type, value).toString('hex'), hex, type)
    assert.deepEqual(decodeStored(type, Buffer.from(hex, 'hex')), value, type)
  }
})

test('bounds written before a column was widened are read', () => {
  assert.equal(decodeStored('long', encodeStored('integer', -7)), -7n)
  assert.equal(decodeStored('double', encodeStored('float', 0.5)), 0.5)
  assert.equal(decodeStored('decimal(20,2)', encodeStored('decimal(5,2)', -12345n)), -12345n)
})

test("two's complement is as short as its sign allows", () => {
  fc.assert(
    fc.property(fc.bigInt(-(2n ** 127n), 2n ** 127n - 1n), (value) => {
      const bytes = twosComplement(value)
      assert.equal(decodeStored('decimal(38,0)', bytes), value)
      if (bytes.length > 1) assert.notEqual(BigInt.asIntN((bytes.length - 1) * 8, value), value)
    }),
  )
})

test('printed values are read exactly, or not at all', () => {
  const cases: [LogicalType, string, StoredValue | null][] = [
    ['boolean', '1', true],
    ['boolean', '0', false],
    ['decimal(2,2)', '.05', 5n],
    ['decimal(4,2)', '-0.05', -5n],
    ['decimal(38,10)', '12.5', 125000000000n],
    ['decimal(4,1)', '1.25', null],
    ['date', '1969-12-31', -1],
    ['date', '0001-01-01', -719162],
    ['date', '0044-03-15 (BC)', null],
    ['date', 'infinity', null],
    ['timestamp', '1969-12-31 23:59:59.999999', -1n],
    ['timestamp', '12000-01-01 00:00:00', 316516204800000000n],
    ['timestamp', '-infinity', null],
    ['timestamptz', '1970-01-01 02:00:00+02', 0n],
    ['timestamptz', '1969-12-31 18:30:00.5-05:30', 500000n],
    ['double', 'inf', null],
    ['double', '1.1e-07', 1.1e-7],
    ['binary', '7830', null],
    ['string', 'infinity', 'infinity'],
  ]
  for (const [type, text, value] of cases) assert.deepEqual(parsePrinted(type, text), value, `${type} ${text}`)
})
