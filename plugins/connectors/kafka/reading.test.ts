/** States, records and rows, without a server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { createRecordsBatch } from '@platformatic/kafka'
import { isSluiceError } from '@sluice/sdk'
import { unpackLz4UpTo } from '../files/unpack.ts'
import { allColumns } from './columns.ts'
import { Newest } from './newest.ts'
import { committedOf } from './partition-records.ts'
import { rowKeys } from './row-key.ts'
import { RowWriter } from './row-writer.ts'
import { parseSettings } from './settings.ts'
import { expectRoom, keptColumns, parseState, progressOf, readPlaces, stateOf } from './state.ts'
import { parseTopic, type TopicSettings, type TopicTable } from './topic-settings.ts'
import { BrokenAnswer } from './wire/bytes.ts'
import { batchesOf, type KafkaRecord } from './wire/records.ts'
import { MAX_BATCH_BYTES, unpacked } from './wire/unpack.ts'

const DEFAULTS = { format: 'json', mode: 'append', keyFormat: 'text', hasRegistry: false } as const
const topicOf = (settings: TopicSettings): TopicTable => parseTopic('orders', settings, DEFAULTS)
const IDS = [
  { name: 'id', type: 'long' },
  { name: 'price', type: 'decimal(38,9)' },
  { name: 'city', type: 'string' },
] as const

function record(value: string | Buffer | null, parts: Partial<KafkaRecord> = {}): KafkaRecord {
  const bytes = value === null ? null : Buffer.from(value)
  return { offset: 17, timestampMs: 1_767_225_600_123n, key: Buffer.from('k'), headers: [], ...parts, value: bytes }
}

function written(table: TopicTable, one: KafkaRecord, marked?: readonly string[]) {
  const values = table.columns ?? table.avro?.fields.map(({ name, type }) => ({ name, type: type ?? 'string' })) ?? IDS
  const request = { primaryKey: [], ...(marked === undefined ? {} : { marked }) }
  return new RowWriter(table, values, allColumns(table, values), request).write(one, 3)
}

test('numbers keep their digits, the last of two fields of one name counts, and a record says where it stood', () => {
  const table = topicOf({ columns: IDS })
  const headers = [
    { name: 'trace', value: Buffer.from('ä"') },
    { name: 'raw', value: Buffer.from([255]) },
  ]
  const { line, rejects } = written(
    table,
    record('{"id":1,"price":12345678901234567890.000000001,"city":"\\u00fc\\"","id":9223372036854775807}', { headers }),
  )
  assert.deepEqual(rejects, [])
  assert.equal(
    line,
    '"9223372036854775807","12345678901234567890.000000001","ü""","k","3","17","2026-01-01T00:00:00.123000Z","[{""name"":""trace"",""value"":""ä\\""""},{""name"":""raw"",""base64"":""/w==""}]"',
  )
  assert.equal(written(table, record(null)).line, ',,,"k","3","17","2026-01-01T00:00:00.123000Z",')
})

test('what cannot be read is rejected with its topic, partition and offset, and no other row', () => {
  const table = topicOf({ columns: IDS })
  for (const poison of [
    '',
    '{"id":',
    '[1]',
    '7',
    'null',
    Buffer.from([0x7b, 0xff]),
    '{"id":{"a":1}}',
    '{"id":1e2000}',
  ]) {
    const { line, rejects } = written(table, record(poison))
    assert.equal(line, null, String(poison))
    assert.equal(rejects.length, 1)
    assert.match(rejects[0]?.raw ?? '', /^orders\/3\/17: /)
  }
  const { line, rejects } = written(table, record('{"id":1,"city":"\\ud800"}'), ['city'])
  assert.match(line ?? '', /^"1",,,.*,"\[""city""\]"$/)
  assert.equal(rejects[0]?.carried, true)
  const found = written(topicOf({}), record('{"id":1,"more":2}'))
  assert.match(found.rejects[0]?.reason ?? '', /list its columns/)
})

test('keys of upserts are texts or objects, and a row without one is told', () => {
  const byText = topicOf({ mode: 'upsert', primary_key: ['id'], columns: IDS, metadata: false })
  assert.equal(written(byText, record('{"city":"a","id":5}', { key: Buffer.from('7') })).line, '"7",,"a"')
  assert.match(written(byText, record('{}', { key: null })).rejects[0]?.reason ?? '', /no key/)
  assert.equal(written(byText, record('{}', { key: Buffer.from('x') })).rejects[0]?.column, 'id')
  const byJson = topicOf({
    mode: 'upsert',
    key_format: 'json',
    primary_key: ['id', 'city'],
    columns: IDS,
    metadata: false,
  })
  assert.equal(written(byJson, record('{}', { key: Buffer.from('{"city":"b","id":2}') })).line, '"2",,"b"')
  assert.match(written(byJson, record('{}', { key: Buffer.from('7') })).rejects[0]?.reason ?? '', /no object/)
  // Poison does not hide the key from whoever compares keys.
  const keys = new RowWriter(byText, IDS, [{ name: 'id', type: 'long', nullable: false }], { primaryKey: ['id'] })
  assert.equal(keys.write(record('poison', { key: Buffer.from('7') }), 0).line, '"7"')
  // A record without a key hides none from them, and one that cannot be read may.
  assert.deepEqual(keys.write(record('{}', { key: null }), 0), { line: null, rejects: [] })
  assert.equal(keys.write(record('{}', { key: Buffer.from('x') }), 0).rejects.length, 1)
})

test('Avro is read by its schema, with and without the number of it', () => {
  const schema = JSON.stringify({
    type: 'record',
    name: 'r',
    fields: [
      { name: 'id', type: 'long' },
      { name: 'city', type: ['null', 'string'] },
    ],
  })
  const body = Buffer.from([0x0e, 0x02, 0x04, 0x68, 0x69])
  const plain = topicOf({ format: 'avro', avro_schema: schema, metadata: false })
  assert.equal(written(plain, record(body)).line, '"7","hi"')
  for (const odd of [body.subarray(0, 3), Buffer.concat([body, Buffer.from([0])]), Buffer.from([0x0e, 0x09])])
    assert.match(written(plain, record(odd)).rejects[0]?.reason ?? '', /avro_schema/)
  const framed = topicOf({ format: 'avro', avro_schema: schema, framing: 'confluent', schema_id: 5, metadata: false })
  assert.equal(written(framed, record(Buffer.concat([Buffer.from([0, 0, 0, 0, 5]), body]))).line, '"7","hi"')
  assert.match(
    written(framed, record(Buffer.concat([Buffer.from([0, 0, 0, 0, 6]), body]))).rejects[0]?.reason ?? '',
    /another schema/,
  )
  assert.match(written(framed, record(body.subarray(0, 2))).rejects[0]?.reason ?? '', /no number/)
})

const RANGES = [
  { partition: 0, first: 0, end: 10 },
  { partition: 1, first: 5, end: 9 },
]

test('a read goes on where each partition was left, takes new ones from their beginning, and tells what was lost', () => {
  const table = topicOf({ columns: IDS })
  const state = parseState(stateOf(table, 'a', [{ partition: 0, first: 0, end: 4 }], []))
  const progress = progressOf(state, table, 'a', RANGES)
  assert.deepEqual(progress.spans, [
    { partition: 0, from: 4, to: 10 },
    { partition: 1, from: 5, to: 9 },
  ])
  assert.deepEqual(progress.lost, [{ partition: 1, from: 0, to: 5 }])
  const upsert = topicOf({ mode: 'upsert', columns: IDS, primary_key: ['id'] })
  const whole = progressOf(
    parseState(stateOf(upsert, 'a', [{ partition: 0, first: 0, end: 4 }], [])),
    upsert,
    'a',
    RANGES,
  )
  assert.match(whole.whole ?? '', /lost/)
  assert.deepEqual(
    whole.spans.map(({ from }) => from),
    [0, 5],
  )
})

test('a topic that is another one, or ends before what was read, is refused by an append and read anew by an upsert', () => {
  const tables = [topicOf({ columns: IDS }), topicOf({ mode: 'upsert', columns: IDS, primary_key: ['id'] })] as const
  const cases = [
    { topic: 'b', ranges: RANGES },
    {
      topic: 'a',
      ranges: [
        { partition: 0, first: 0, end: 3 },
        { partition: 1, first: 5, end: 9 },
      ],
    },
    { topic: 'a', ranges: RANGES.slice(0, 1) },
  ]
  for (const { topic, ranges } of cases) {
    const [append, upsert] = tables
    assert.throws(
      () => progressOf(parseState(stateOf(append, 'a', RANGES, [])), append, topic, ranges),
      (error) => isSluiceError(error, 'CONFIG') && error.code === 'source_topic_replaced',
    )
    const progress = progressOf(parseState(stateOf(upsert, 'a', RANGES, [])), upsert, topic, ranges)
    assert.notEqual(progress.whole, null)
    assert.deepEqual(
      progress.spans.map(({ from }) => from),
      ranges.map(({ first }) => first),
    )
  }
  for (const value of [
    {},
    { topic: 'a', mode: 'append', shape: '', next: [-1] },
    { topic: 'a', mode: 'x', shape: '', next: [] },
  ])
    assert.throws(
      () => parseState({ version: 1, value }),
      (error) => isSluiceError(error, 'CONFIG'),
    )
})

test('a log that was cut off and has gone on since is another one', () => {
  const append = topicOf({ columns: IDS })
  const upsert = topicOf({ mode: 'upsert', columns: IDS, primary_key: ['id'] })
  const saved = (table: TopicTable) => parseState(stateOf(table, 'a', RANGES, [], new Map([[1, 4]])))
  const state = saved(append)
  assert.deepEqual(state && readPlaces(state), [{ partition: 1, offset: 9, epoch: 4 }])
  assert.throws(
    () => progressOf(state, append, 'a', RANGES, true),
    (error) => isSluiceError(error, 'CONFIG') && error.code === 'source_topic_replaced',
  )
  assert.match(progressOf(saved(upsert), upsert, 'a', RANGES, true).whole ?? '', /election/)
  assert.equal(progressOf(saved(upsert), upsert, 'a', RANGES, false).whole, null)
})

test('a state that would be too large is refused before anything is read', () => {
  const many = Array.from({ length: 5000 }, (_, partition) => ({ partition, first: 0, end: 1_000_000_000 }))
  assert.throws(
    () => expectRoom(topicOf({}), 'a', many, []),
    (error) => isSluiceError(error, 'QUOTA'),
  )
  expectRoom(topicOf({}), 'a', RANGES, [])
})

test('columns that were found out keep their types', () => {
  const table = topicOf({})
  const state = parseState(stateOf(table, 'a', RANGES, [{ name: 'id', type: 'long' }]))
  const found = [
    { name: 'more', type: 'json' },
    { name: 'id', type: 'string' },
  ] as const
  assert.deepEqual(keptColumns(state, found), [
    { name: 'id', type: 'long' },
    { name: 'more', type: 'json' },
  ])
})

test('the newest record of a key counts, and none where it is a tombstone', () => {
  const newest = new Newest((key) => String(key), 3)
  const of = (key: string, offset: number, value: string | null, timestampMs = 0n) =>
    record(value, { key: Buffer.from(key), offset, timestampMs })
  newest.add(of('a', 1, 'x'), 0)
  newest.add(of('a', 2, null), 0)
  newest.add(of('b', 3, 'x'), 0)
  newest.add(of('b', 4, 'y'), 0)
  newest.add(of('b', 9, 'older elsewhere', -1n), 1)
  assert.equal(newest.isShown(of('a', 1, 'x'), 0), false)
  assert.equal(newest.isShown(of('a', 2, null), 0), false)
  assert.equal(newest.isShown(of('b', 4, 'y'), 0), true)
  assert.equal(newest.isShown(of('b', 9, 'older elsewhere', -1n), 1), false)
  assert.equal(newest.rows, 1)
  newest.add(of('c', 5, 'x'), 0)
  assert.throws(
    () => newest.add(of('d', 6, 'x'), 0),
    (error) => isSluiceError(error, 'QUOTA'),
  )
})

test('a key is the values that it holds, however it is written; one that holds none is told by its bytes', () => {
  const idOf = (settings: TopicSettings, key: string) =>
    rowKeys(topicOf({ mode: 'upsert', ...settings }), IDS)(Buffer.from(key))
  const byJson = { key_format: 'json', primary_key: ['id'], columns: IDS } as const
  assert.equal(idOf(byJson, '{"id":1}'), idOf(byJson, ' {"more":2, "id": 1}'))
  assert.notEqual(idOf(byJson, '{"id":1}'), idOf(byJson, '{"id":2}'))
  assert.notEqual(idOf(byJson, 'x'), idOf(byJson, 'y'), 'no JSON')
  const byText = { primary_key: ['id'], columns: IDS } as const
  assert.equal(idOf(byText, '07'), idOf(byText, '7'))
  assert.notEqual(idOf(byText, 'x'), idOf(byText, 'y'), 'no numbers')
  const long = 'x'.repeat(1000)
  assert.notEqual(idOf({}, `${long}a`), idOf({}, `${long}b`))
  const byTwo = { ...byJson, primary_key: ['id', 'city'] }
  assert.notEqual(idOf(byTwo, '{"id":1,"city":"1"}'), idOf(byTwo, '{"id":11,"city":""}'))
  const newest = new Newest(rowKeys(topicOf({ mode: 'upsert', ...byJson }), IDS))
  newest.add(record('x', { key: Buffer.from('{"id":1}'), offset: 1 }), 0)
  newest.add(record(null, { key: Buffer.from('{"id": 1}'), offset: 2 }), 0)
  assert.equal(newest.rows, 0)
})

test('a time that is none costs its own record, and no other', () => {
  const nanoseconds = 1_767_225_600_123_456_789n
  const bytes = Buffer.concat([batch(['a'], {}, nanoseconds), batch(['b'])])
  const records = [...batchesOf(bytes)].flatMap((one) => [...one.records()])
  assert.deepEqual(
    records.map(({ timestampMs }) => timestampMs),
    [nanoseconds, 5n],
  )
  const table = topicOf({ columns: IDS })
  const { line, rejects } = written(table, record('{"id":1}', { timestampMs: nanoseconds }))
  assert.deepEqual([line, rejects[0]?.column], [null, '_timestamp'])
  assert.notEqual(written(table, record('{"id":1}', { timestampMs: nanoseconds }), ['_timestamp']).line, null)
})

function batch(
  values: readonly string[],
  options: Parameters<typeof createRecordsBatch>[1] = {},
  timestamp = 5n,
): Buffer {
  return createRecordsBatch(
    values.map((value) => ({ topic: 't', key: Buffer.from('k'), value: Buffer.from(value), timestamp })) as never,
    options,
  ).buffer
}

test('batches are read as their producers pack them, and damaged ones are not', () => {
  for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const) {
    const long = 'x'.repeat(100_000)
    const [found] = [...batchesOf(batch(['a', 'b', long], { compression }))]
    assert.deepEqual(
      [...(found?.records() ?? [])].map(({ value, offset }) => [String(value).length, offset]),
      [
        [1, 0],
        [1, 1],
        [100_000, 2],
      ],
    )
  }
  const whole = batch(['a', 'b'])
  assert.deepEqual(
    [...batchesOf(whole.subarray(0, whole.length - 1))],
    [],
    'what is cut off comes with the next answer',
  )
  for (let at = 12; at < whole.length; at += 1) {
    const damaged = Buffer.from(whole)
    damaged[at] = (damaged[at] ?? 0) ^ 0x55
    // The epoch of the leader is not summed.
    const read = () => [...batchesOf(damaged)].map((one) => [...one.records()])
    if (at < 16) read()
    else assert.throws(read, BrokenAnswer, `byte ${at}`)
  }
})

test('nothing is unpacked to more than a batch may have', () => {
  const zeros = Buffer.alloc(MAX_BATCH_BYTES + 1)
  assert.throws(() => unpacked(1, gzipSync(zeros)), BrokenAnswer)
  assert.throws(() => unpacked(4, zstdCompressSync(zeros)), BrokenAnswer)
  assert.throws(() => unpacked(2, Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f])), BrokenAnswer)
  assert.throws(() => unpacked(3, Buffer.from('nonsense')), BrokenAnswer)
  assert.throws(() => unpacked(7, zeros), BrokenAnswer)
})

test('packed blocks take no more memory than they fill, however many there are', () => {
  const block = Buffer.from([0x10, 0x61])
  const head = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0])
  const blocks = Array.from({ length: 300 }, () => Buffer.concat([Buffer.from([2, 0, 0, 0]), block]))
  assert.ok(unpackLz4UpTo(block, 4 << 20).buffer.byteLength < 1000)
  const before = process.memoryUsage().arrayBuffers
  const all = unpacked(3, Buffer.concat([head, ...blocks, Buffer.alloc(4)]))
  assert.equal(all.toString(), 'a'.repeat(300))
  assert.ok(all.buffer.byteLength < 1000)
  assert.ok(process.memoryUsage().arrayBuffers - before < 100 * 1024 ** 2)
})

test('records of transactions that were given up are left out', () => {
  const records = Buffer.concat([
    batch(['kept'], { producerId: 7n, transactionalId: 't' }),
    batch(['given up'], { producerId: 8n, transactionalId: 'u' }),
  ])
  const judged = [...committedOf({ records, aborted: [{ producerId: 8n, firstOffset: 0 }] })]
  assert.deepEqual(
    judged.map(({ isAborted }) => isAborted),
    [false, true],
  )
})

const avroOf = (name: string) => JSON.stringify({ type: 'record', name: 'r', fields: [{ name, type: 'long' }] })

test('settings that cannot be right are refused', () => {
  const good = { brokers: ['a.example.com:9092'], topics: ['orders', 'crm.*'] }
  const { tableOf, named } = parseSettings(good)
  assert.equal(named, null)
  assert.deepEqual(
    ['orders', 'crm.', 'crm.x', 'order', 'xcrm.y'].map((name) => tableOf(name) !== null),
    [true, true, true, false, false],
  )
  assert.deepEqual(parseSettings({ ...good, topics: ['a'] }).named, ['a'])
  const wrong = [
    { brokers: [] },
    { brokers: ['nowhere'] },
    { brokers: ['a:0'] },
    { brokers: ['a/b:1'] },
    { topics: ['or ders'] },
    { topics: [] },
    { password: 'x' },
    { user: 'x' },
    { ca: 'none' },
    { tls: 'no' },
    { mode: 'x' },
    { tables: { elsewhere: {} } },
    { tables: { orders: { avro_schema: '{}' } } },
    { tables: { orders: { format: 'avro' } } },
    { tables: { orders: { format: 'avro', avro_schema: '"long"' } } },
    { tables: { orders: { mode: 'upsert', primary_key: ['a', 'b'] } } },
    { tables: { orders: { columns: [{ name: '_offset', type: 'long' }] } } },
    { tables: { orders: { mode: 'upsert', primary_key: ['_partition'] } } },
    { tables: { orders: { format: 'avro', avro_schema: avroOf('_offset') } } },
    { tables: { orders: { format: 'avro', avro_schema: avroOf('id'), primary_key: ['other'] } } },
    { tables: { orders: { columns: [{ name: 'id', type: 'long' }], primary_key: ['other'] } } },
    { other: 1 },
  ]
  for (const parts of wrong)
    assert.throws(
      () => parseSettings({ ...good, ...parts }),
      (error) => isSluiceError(error, 'CONFIG'),
      JSON.stringify(parts),
    )
})
