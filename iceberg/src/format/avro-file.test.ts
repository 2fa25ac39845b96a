import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readAvro, writeAvro } from './avro-file.ts'

const schema = {
  type: 'record',
  name: 'r',
  fields: [
    { name: 'id', type: 'long', 'field-id': 1 },
    { name: 'at', type: ['null', { type: 'long', logicalType: 'timestamp-micros' }], default: null, 'field-id': 2 },
    { name: 'text', type: ['null', 'string'], default: null, 'field-id': 3 },
  ],
}

test('what is written is read, longs of 64 bits included', () => {
  const long = fc
    .bigInt(-(2n ** 63n), 2n ** 63n - 1n)
    .map((value) => (BigInt(Number(value)) === value && Number.isSafeInteger(Number(value)) ? Number(value) : value))
  const record = fc.record({ id: long, at: fc.option(long), text: fc.option(fc.string({ unit: 'binary' })) })
  fc.assert(
    fc.property(fc.array(record), (records) => {
      const file = readAvro(writeAvro(schema, { 'snapshot-id': '1' }, records), 1_000_000)
      assert.deepEqual(
        file.records.map((read) => ({ ...(read as object) })),
        records.map((written) => ({ ...written })),
      )
    }),
    { numRuns: 50 },
  )
})

test('the header keeps the field ids and the metadata', () => {
  const file = readAvro(writeAvro(schema, { content: 'data' }, []), 10)
  assert.deepEqual(file.schema, schema)
  assert.equal(file.metadata.get('content'), 'data')
})

test('many records make many blocks', () => {
  const records = Array.from({ length: 2500 }, (_, id) => ({ id, at: null, text: null }))
  assert.equal(readAvro(writeAvro(schema, {}, records), 2500).records.length, 2500)
  assert.throws(() => readAvro(writeAvro(schema, {}, records), 2499), /more than 2499/)
})

test('a file that is cut anywhere is refused', () => {
  const bytes = writeAvro(schema, {}, [{ id: 1, at: 2, text: 'three' }])
  for (let size = 0; size < bytes.length; size++) {
    const cut = bytes.subarray(0, size)
    // Without its only block the file is a whole one of no records.
    const outcome = (() => {
      try {
        return readAvro(cut, 10).records.length
      } catch {
        return 'refused'
      }
    })()
    assert.ok(outcome === 'refused' || outcome === 0, `${size} bytes`)
  }
})

test('another codec or file is refused', () => {
  assert.throws(() => readAvro(Buffer.from('{"format-version": 2}'), 10), /not an Avro file/)
  const snappy = Buffer.from(
    writeAvro(schema, {}, [{ id: 1, at: null, text: null }])
      .toString('latin1')
      .replace('deflate', 'snappyy'),
    'latin1',
  )
  assert.throws(() => readAvro(snappy, 10), /codec "snappyy"/)
})
