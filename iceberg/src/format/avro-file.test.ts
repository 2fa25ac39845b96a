import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { type AvroLimits, readAvro, writeAvro } from './avro-file.ts'

const schema = {
  type: 'record',
  name: 'r',
  fields: [
    { name: 'id', type: 'long', 'field-id': 1 },
    { name: 'at', type: ['null', { type: 'long', logicalType: 'timestamp-micros' }], default: null, 'field-id': 2 },
    { name: 'text', type: ['null', 'string'], default: null, 'field-id': 3 },
  ],
}

test('what is written is read, longs of 64 bits included', async () => {
  const long = fc
    .bigInt(-(2n ** 63n), 2n ** 63n - 1n)
    .map((value) => (BigInt(Number(value)) === value && Number.isSafeInteger(Number(value)) ? Number(value) : value))
  const record = fc.record({
    id: fc.oneof(long, fc.integer(), fc.constantFrom(0, -1, 2 ** 34, 2 ** 35, -(2 ** 35), 2 ** 53 - 1)),
    at: fc.option(long),
    text: fc.option(fc.string({ unit: 'binary' })),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(record), async (records) => {
      const file = await readAvro(writeAvro(schema, { 'snapshot-id': '1' }, records), { records: 1_000_000 })
      assert.deepEqual(
        file.records.map((read) => ({ ...(read as object) })),
        records.map((written) => ({ ...written })),
      )
    }),
    { numRuns: 50 },
  )
})

test('the header keeps the field ids and the metadata', async () => {
  const file = await readAvro(writeAvro(schema, { content: 'data' }, []), { records: 10 })
  assert.deepEqual(file.schema, schema)
  assert.equal(file.metadata.get('content'), 'data')
})

test('many records make many blocks', async () => {
  const records = Array.from({ length: 2500 }, (_, id) => ({ id, at: null, text: null }))
  assert.equal((await readAvro(writeAvro(schema, {}, records), { records: 2500 })).records.length, 2500)
  await assert.rejects(readAvro(writeAvro(schema, {}, records), { records: 2499 }), /more than 2499/)
})

test('types of every kind are read as they were written', async () => {
  const types = {
    type: 'record',
    name: 'kinds',
    namespace: 'a.b',
    fields: [
      { name: 'flag', type: 'boolean' },
      { name: 'small', type: { type: 'int', logicalType: 'date' } },
      { name: 'half', type: 'float' },
      { name: 'whole', type: 'double' },
      { name: 'raw', type: 'bytes' },
      { name: 'id', type: { type: 'fixed', name: 'sixteen', size: 4 } },
      { name: 'again', type: 'sixteen' },
      { name: 'kind', type: { type: 'enum', name: 'colour', symbols: ['RED', 'BLUE'] } },
      { name: 'counts', type: { type: 'map', values: 'long' } },
      {
        name: 'inner',
        type: { type: 'array', items: { type: 'record', name: 'pair', fields: [{ name: 'k', type: 'int' }] } },
      },
      { name: 'next', type: ['null', 'kinds'], default: null },
    ],
  }
  const last = {
    ...{ flag: true, small: -5, half: 0.5, whole: -1e300, raw: Buffer.from([0, 255]) },
    ...{ id: Buffer.from('abcd'), again: Buffer.from('efgh'), kind: 'BLUE' },
    ...{ counts: { a: 1, b: -(2 ** 40) }, inner: [{ k: 1 }, { k: 2 }], next: null },
  }
  const read = await readAvro(writeAvro(types, {}, [{ ...last, next: last }]), { records: 1 })
  assert.deepEqual(JSON.parse(JSON.stringify(read.records)), JSON.parse(JSON.stringify([{ ...last, next: last }])))
})

test('a file that is cut anywhere is refused', async () => {
  const bytes = writeAvro(schema, {}, [{ id: 1, at: 2, text: 'three' }])
  for (let size = 0; size < bytes.length; size++) {
    // Without its only block the file is a whole one of no records.
    const outcome = await readAvro(bytes.subarray(0, size), { records: 10 }).then(
      ({ records }) => records.length,
      () => 'refused',
    )
    assert.ok(outcome === 'refused' || outcome === 0, `${size} bytes`)
  }
})

test('another codec or file is refused', async () => {
  await assert.rejects(readAvro(Buffer.from('{"format-version": 2}'), { records: 10 }), /not an Avro file/)
  const snappy = Buffer.from(
    writeAvro(schema, {}, [{ id: 1, at: null, text: null }])
      .toString('latin1')
      .replace('deflate', 'snappyy'),
    'latin1',
  )
  await assert.rejects(readAvro(snappy, { records: 10 }), /codec "snappyy"/)
})

const SYNC = Buffer.alloc(16, 7)

/** A file whose schema, number of records and bytes are any. */
function fileOf(type: unknown, body: Buffer, count = 1): Buffer {
  const header = { 'avro.schema': JSON.stringify(type), 'avro.codec': 'deflate' }
  const entries = Object.entries(header).flatMap(([key, text]) => [sized(key), sized(text)])
  const packed = deflateRawSync(body)
  return Buffer.concat([
    ...[Buffer.from('Obj\x01', 'latin1'), long(2n), ...entries, long(0n), SYNC],
    ...[long(BigInt(count)), long(BigInt(packed.length)), packed, SYNC],
  ])
}

function sized(text: string): Buffer {
  return Buffer.concat([long(BigInt(Buffer.byteLength(text))), Buffer.from(text)])
}

function long(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}

const record = (...types: readonly unknown[]) => ({
  type: 'record',
  name: 'r',
  fields: types.map((type, at) => ({ name: `f${at}`, type })),
})

/** Not so many that a reader without bounds would not come to an end. */
const MANY = 3_000_000

/** What a writer that means no good makes of a file: each is small, and costs much where nothing is bounded. */
const HOSTILE: Readonly<Record<string, readonly [file: Buffer, limits?: Partial<AvroLimits>]>> = {
  'a list of more items than there are bytes': [fileOf(record({ type: 'array', items: 'long' }), long(BigInt(MANY)))],
  'a list of items without bytes': [
    fileOf(record({ type: 'array', items: 'null' }), Buffer.concat([long(BigInt(MANY)), long(0n)])),
  ],
  'a list in blocks of negative counts': [
    fileOf(record({ type: 'array', items: 'null' }), Buffer.concat([long(BigInt(-MANY)), long(0n), long(0n)])),
  ],
  'a map of more keys than there are bytes': [fileOf(record({ type: 'map', values: 'null' }), long(BigInt(MANY)))],
  'a text longer than the file': [fileOf(record('string'), long(2n ** 40n))],
  'bytes of negative length': [fileOf(record('bytes'), long(-1n))],
  'records without bytes and with many fields': [
    fileOf(record(...Array<string>(3_000).fill('null')), Buffer.alloc(0), 10_000),
    { records: 10_000, values: 100_000 },
  ],
  'a type that stands in itself': [fileOf({ type: 'record', name: 'r', fields: [{ name: 'f', type: 'r' }] }, long(1n))],
  'values nested without end': [
    fileOf({ type: 'record', name: 'r', fields: [{ name: 'f', type: ['null', 'r'] }] }, Buffer.alloc(MANY, 2)),
  ],
  'types nested deeply': [
    fileOf(
      record(Array.from({ length: 500 }).reduce<unknown>((items) => ({ type: 'array', items }), 'int')),
      Buffer.alloc(10),
    ),
  ],
  'many values in one record': [
    fileOf(record({ type: 'array', items: 'int' }), Buffer.concat([long(BigInt(MANY)), Buffer.alloc(MANY), long(0n)])),
  ],
  'blocks that unpack to more than they may': [fileOf(record('bytes'), Buffer.alloc(MANY)), { bytes: 1_000_000 }],
  'more records than are counted': [fileOf(record('int'), Buffer.alloc(10), 2 ** 40)],
  'a number without end': [fileOf(record('long'), Buffer.alloc(20, 255))],
  'a branch that is not there': [fileOf(record(['null', 'int']), long(2n ** 31n))],
  'a symbol that is not there': [fileOf(record({ type: 'enum', name: 'e', symbols: ['A'] }), long(-1n))],
  'a field called __proto__': [
    fileOf({ type: 'record', name: 'r', fields: [{ name: '__proto__', type: 'int' }] }, long(1n)),
  ],
  'a type of no size': [fileOf(record({ type: 'fixed', name: 'x', size: 2 ** 60 }), long(1n))],
  'no schema': [fileOf(null, long(1n))],
}

for (const [name, [file, limits]] of Object.entries(HOSTILE)) {
  test(`${name}: refused with a plain error`, async () => {
    await assert.rejects(readAvro(file, { records: 1_000, ...limits }), (error) => {
      assert.ok(error instanceof Error)
      assert.doesNotMatch(error.message, /Maximum call stack|Array buffer allocation|Invalid array length/)
      return true
    })
  })
}

test('a header of more entries than there are bytes is refused', async () => {
  await assert.rejects(readAvro(Buffer.concat([Buffer.from('Obj\x01', 'latin1'), long(BigInt(MANY))]), { records: 1 }))
})

test('others have their turn while a long file is read', async () => {
  const body = Buffer.concat(Array<Buffer>(100_000).fill(Buffer.concat([long(12n), Buffer.from('twelve bytes')])))
  let turns = 0
  const turn = () => {
    turns += 1
    beat = setImmediate(turn)
  }
  let beat = setImmediate(turn)
  const { records } = await readAvro(fileOf(record('string'), body, 100_000), { records: 100_000 })
  clearImmediate(beat)
  assert.equal(records.length, 100_000)
  assert.ok(turns > 1, `${turns} turns`)
})
