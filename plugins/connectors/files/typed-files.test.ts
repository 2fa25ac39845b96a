/** Parquet and Avro: files of other writers (fixtures/write.py) exactly, and files that are hostile or broken not at all. */
import assert from 'node:assert/strict'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { type Column, isSluiceError, type LogicalType, type ReadRequest } from '@sluice/sdk'
import { Folder } from './folder.ts'
import { SeenTypes } from './infer.ts'
import {
  group,
  levels,
  longs,
  number,
  OPTIONAL_ID,
  page,
  parquetFile,
  REQUIRED_ID,
  text,
} from './parquet/parquet.fixture.ts'
import { readTable } from './read.ts'
import { MAX_RECORD_BYTES } from './records.ts'
import { parseTable, type TableSettings } from './table-settings.ts'
import { Tables } from './tables.ts'

const FIXTURES = join(import.meta.dirname, 'fixtures')
const root = await mkdtemp(join(tmpdir(), 'sluice-typed-'))
after(() => rm(root, { recursive: true, force: true }))
let count = 0
let folder = ''
beforeEach(async () => {
  count += 1
  folder = join(root, `files-${count}`)
  await mkdir(folder)
})

const put = (path: string, content: string | Uint8Array) => writeFile(join(folder, path), content)
const PARQUET: TableSettings = { glob: '*.parquet', format: 'parquet' }
const AVRO: TableSettings = { glob: '*.avro*', format: 'avro' }

async function read(settings: TableSettings, from = folder, parts: Partial<ReadRequest> = {}) {
  const store = new Folder(from)
  const tables = new Tables(store, [parseTable('t', settings, '')])
  const request = {
    ...({ schema: 'files', table: 't', mode: 'full' } as const),
    ...{ columns: [], primaryKey: [], cursorColumn: null, state: null, signal: new AbortController().signal },
    ...parts,
  }
  let csv = ''
  let columns: readonly Column[] = []
  const rejects: string[] = []
  for await (const event of readTable(tables, store, request)) {
    if (event.kind === 'schema') columns = event.schema.columns
    if (event.kind === 'csv') csv += Buffer.from(event.chunk).toString()
    if (event.kind === 'reject') rejects.push(`${event.column}: ${event.reason} (${event.raw})`)
  }
  return { csv, rejects, types: columns.map(({ name, type }) => `${name} ${type}`) }
}

const fixture = (name: string, settings = PARQUET) => read({ ...settings, glob: name }, FIXTURES)

const refused = (settings: TableSettings, words: RegExp, from = folder) =>
  assert.rejects(
    read(settings, from),
    (error: unknown) =>
      isSluiceError(error) && error.code === 'source_file_invalid' && words.test(error.message) && !!error.remedy,
  )

const lines = (rows: readonly (readonly unknown[])[]) =>
  rows
    .map((row) => row.map((cell) => (cell === null ? '' : `"${String(cell).replaceAll('"', '""')}"`)).join(','))
    .map((line) => `${line}\n`)
    .join('')

/** Of types.parquet: name, type, and the values of its three rows. */
const TYPES: readonly (readonly [string, LogicalType, ...(string | null)[]])[] = [
  ['i8', 'integer', '-128', '127', null],
  ['u8', 'integer', '0', '255', null],
  ['i16', 'integer', '-32768', '32767', null],
  ['u16', 'integer', '0', '65535', null],
  ['i32', 'integer', '-2147483648', '2147483647', null],
  ['u32', 'long', '0', '4294967295', null],
  ['i64', 'long', '-9223372036854775808', '9223372036854775807', null],
  ['u64', 'decimal(20,0)', '0', '18446744073709551615', null],
  ['f16', 'float', '1.5', '-Infinity', null],
  ['f32', 'float', 'NaN', '-0', String(Math.fround(0.1))],
  ['f64', 'double', 'Infinity', '5e-324', '-1.7976931348623157e+308'],
  ['d4', 'decimal(6,2)', '-9999.99', '0.01', null],
  ['d38', 'decimal(38,0)', '9'.repeat(38), `-${'9'.repeat(38)}`, null],
  ['d38s', 'decimal(38,38)', `0.${'1'.padStart(38, '0')}`, `-0.${'9'.repeat(38)}`, null],
  ['d76', 'string', '9'.repeat(70), '-1', null],
  ['date', 'date', '0001-01-01', '9999-12-31', null],
  ['ms', 'timestamp', '1969-12-31T23:59:59.999000', '9999-12-31T23:59:59.999000', null],
  ['us', 'timestamp', '1969-12-31T23:59:59.999999', '9999-12-31T23:59:59.999999', null],
  ['ns', 'timestamp', '1969-12-31T23:59:59.999999', '2262-04-11T23:47:16.854775', null],
  ['utc', 'timestamptz', '0001-01-01T00:00:00.000000Z', '1970-01-01T00:00:00.000000Z', null],
  ['time_ms', 'string', '00:00:00.000', '23:59:59.999', null],
  ['time_us', 'string', '00:00:00.000001', '23:59:59.999999', null],
  ['s', 'string', 'a "b",\nc', '', 'ünï😀'],
  ['bin', 'binary', '\\x00ff', '\\x', null],
  ['fix', 'binary', '\\x616263', '\\x000000', null],
  ['b', 'boolean', 't', 'f', null],
  ['none', 'string', null, null, null],
  ['dict', 'string', 'x', 'y', 'x'],
  ['list', 'json', '[1,null,3]', '[]', null],
  ['lists', 'json', '[["a"],[],null]', null, '[["b","c"]]'],
  ['struct', 'json', '{"x":1,"y":["q"]}', null, '{"x":null,"y":null}'],
  ['map', 'json', '{"k":1.5,"j":null}', '{}', null],
  ['größe "x"', 'long', '1', '2', '3'],
]

const rowsOf = (columns: readonly (readonly (string | null)[])[]) =>
  lines([2, 3, 4].map((row) => columns.map((column) => column[row] ?? null)))
const typesOf = (columns: readonly (readonly (string | null)[])[]) => columns.map(([name, type]) => `${name} ${type}`)

test('values of every type of Parquet are carried exactly, with the type that the file says', async () => {
  const found = await fixture('types.parquet')
  assert.deepEqual(found.types, typesOf(TYPES))
  assert.equal(found.csv, rowsOf(TYPES))
  assert.deepEqual(found.rejects, [])
  const old = TYPES.filter(([name]) => name !== 'ns')
  assert.equal((await fixture('types-old.parquet')).csv, rowsOf(old))
})

test('pages of every encoding and codec give the same rows', async () => {
  const rows = lines(JSON.parse(await readFile(join(FIXTURES, 'rows.json'), 'utf8')))
  for (const name of ['plain', 'plain-2', 'dictionary', 'dictionary-2', 'delta', 'delta-2', 'split'])
    assert.equal((await fixture(`rows-${name}.parquet`)).csv, rows, name)
})

const AVRO_TYPES: readonly (readonly [string, LogicalType, ...(string | null)[]])[] = [
  ['i', 'integer', '-2147483648', '2147483647', null],
  ['l', 'long', '-9223372036854775808', '9223372036854775807', null],
  ['f', 'float', 'NaN', String(Math.fround(0.1)), null],
  ['d', 'double', '-Infinity', '5e-324', null],
  ['b', 'boolean', 't', 'f', null],
  ['s', 'string', 'ünï "q",\n😀', '', null],
  ['bin', 'binary', '\\x00ff', '\\x', null],
  ['fix', 'binary', '\\x616263', '\\x000000', null],
  ['e', 'string', 'A', 'B', null],
  ['dec', 'decimal(38,10)', `-${'9'.repeat(28)}.${'9'.repeat(10)}`, '0.0000000001', null],
  ['decf', 'decimal(38,0)', '9'.repeat(38), '-1', null],
  ['date', 'date', '0001-01-01', '9999-12-31', null],
  ['time_ms', 'string', '23:59:59.999', '00:00:00.000', null],
  ['time_us', 'string', '23:59:59.999999', '00:00:00.000000', null],
  ['us', 'timestamptz', '9999-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z', null],
  ['ms', 'timestamptz', '0001-01-01T00:00:00.000000Z', '1970-01-01T00:00:00.000000Z', null],
  ['local', 'timestamp', '2026-01-01T12:00:00.000001', '0001-01-01T00:00:00.000000', null],
  ['u', 'uuid', '550e8400-e29b-41d4-a716-446655440000', null, null],
  ['list', 'json', '[1,null,9223372036854775807]', '[]', null],
  ['map', 'json', '{"k":1.5,"x":"Infinity"}', '{}', null],
  ['rec', 'json', '{"v":1,"next":{"v":2,"next":null}}', null, null],
  ['mixed', 'json', '"seven"', '7', null],
  ['none', 'string', null, null, null],
  ['again', 'string', 'B', null, null],
]

test('values of every type of Avro are carried exactly, however blocks are packed', async () => {
  for (const codec of ['null', 'deflate', 'snappy', 'zstandard']) {
    const found = await fixture(`${codec}.avro`, AVRO)
    assert.deepEqual(found.types, typesOf(AVRO_TYPES))
    assert.equal(found.csv, rowsOf(AVRO_TYPES), codec)
    assert.deepEqual(found.rejects, [])
  }
  await put('a.avro.gz', gzipSync(await readFile(join(FIXTURES, 'null.avro'))))
  assert.equal((await read(AVRO)).csv, rowsOf(AVRO_TYPES))
})

test('a file without rows says its columns; one without columns, and an empty one, are refused', async () => {
  assert.deepEqual(await fixture('no-rows.parquet'), { csv: '', rejects: [], types: typesOf(TYPES) })
  assert.deepEqual(await fixture('no-rows.avro', AVRO), { csv: '', rejects: [], types: typesOf(AVRO_TYPES) })
  await assert.rejects(fixture('no-columns.parquet'), { code: 'source_schema_unknown' })
  await put('a.parquet', '')
  await refused(PARQUET, /no Parquet file, or cut off/)
  await put('a.avro', '')
  await refused(AVRO, /no Avro file, or cut off/)
})

test('what a type cannot hold rejects its row, and those beside it are read', async () => {
  const { csv, rejects } = await fixture('int96.parquet')
  assert.equal(csv, '"1969-12-31T23:59:59.999999","1"\n"2023-11-14T22:13:20.123456","2"\n')
  assert.deepEqual(rejects, ['at: it is no timestamp ({"at":"1970-01-01T00:00:00.000000001","id":"3"})'])
  assert.deepEqual(
    (await fixture('beyond.parquet')).rejects.map((reject) => reject.replace(/ \(.*/, '')),
    ['day: it is no date', 'day: it is no date', 'at: it is no timestamp'],
  )
})

const named = (name: string, type = 2) => [number(1, type), number(3, 0), text(4, name)]

test('files whose columns differ are met as those of CSV are', async () => {
  await put('a.parquet', parquetFile({ rows: 2, pages: [page({ values: 2, body: longs(1, 2) })] }))
  const other = { schema: [named('id'), named('more')], columns: 2, rows: 0, pages: [] }
  await put('b.parquet', parquetFile(other))
  await refused(PARQUET, /"b\.parquet": it has no column|"a\.parquet": it has no column "more"/)
  assert.equal((await read({ ...PARQUET, optional_columns: ['more'] })).csv, '"1",\n"2",\n')
  const id = { name: 'id', type: 'decimal(38,9)' } as const
  assert.equal((await read({ ...PARQUET, columns: [id] })).csv, '"1.000000000"\n"2.000000000"\n')
  await refused({ ...PARQUET, columns: [id, { name: 'x', type: 'long' }] }, /no column "x"/)
  const seen = (...types: readonly LogicalType[]) => {
    const column = new SeenTypes()
    for (const type of types) column.add(type)
    return column.type
  }
  assert.equal(seen('integer', 'long'), 'long')
  assert.equal(seen('decimal(6,2)', 'long'), 'decimal(21,2)')
  assert.equal(seen('decimal(38,0)', 'decimal(38,10)'), 'string')
  assert.equal(seen('float', 'integer'), 'double')
  assert.equal(seen('date', 'string'), 'string')
})

test('of columns that nobody asks for nothing is read', async () => {
  await copyFile(join(FIXTURES, 'rows-dictionary.parquet'), join(folder, 'a.parquet'))
  const bytes = await readFile(join(folder, 'a.parquet'))
  bytes.fill(0xff, bytes.length >> 1, (bytes.length >> 1) + 200)
  await put('a.parquet', bytes)
  await refused(PARQUET, /damaged or cut off/)
  const { csv } = await read(PARQUET, folder, { columns: ['id'] })
  assert.equal(csv, lines(Array.from({ length: 300 }, (_, id) => [id])))
})

test('bytes that the file calls no text are one where a column says so', async () => {
  const body = Buffer.concat([Buffer.from([3, 0, 0, 0]), Buffer.from('abc'), Buffer.from([1, 0, 0, 0, 0xff])])
  await put('a.parquet', parquetFile({ schema: [named('w', 6)], rows: 2, pages: [page({ values: 2, body })] }))
  assert.equal((await read(PARQUET)).csv, '"\\x616263"\n"\\xff"\n')
  const { csv, rejects } = await read({ ...PARQUET, columns: [{ name: 'w', type: 'string' }] })
  assert.equal(csv, '"abc"\n')
  assert.match(rejects[0] ?? '', /^w: it is no string/)
})

test('a row that is too long is rejected, and named by what it begins with', async () => {
  const long = Buffer.alloc(MAX_RECORD_BYTES + 1, 'x')
  const length = Buffer.alloc(4)
  length.writeUInt32LE(long.length)
  const body = Buffer.concat([length, long, Buffer.from([1, 0, 0, 0, 0x61])])
  const schema = [[...named('w', 6), number(6, 0)]]
  await put('a.parquet', parquetFile({ schema, rows: 2, pages: [page({ values: 2, body })] }))
  const { csv, rejects } = await read(PARQUET)
  assert.equal(csv, '"a"\n')
  assert.match(rejects[0] ?? '', /^null: it has more than 1048576 characters \(\{"w":" {100}"\}\)$/)
})

const id = (parts: Partial<Parameters<typeof parquetFile>[0]>) =>
  parquetFile({ rows: 1, pages: [page({ values: 1, body: longs(1) })], ...parts })
const packedPage = (body: Buffer, bytes: number) => [page({ values: 1, bytes, body })]
const BOMB = Buffer.alloc(64 * 1024 * 1024)
const LISTS = [
  [number(3, 1), text(4, 'id'), number(5, 1), number(6, 3)],
  [number(3, 2), text(4, 'list'), number(5, 1)],
  [number(1, 2), number(3, 1), text(4, 'element')],
]

const HOSTILE: Readonly<Record<string, readonly [Buffer, RegExp]>> = {
  'another magic': [Buffer.from('id,word\n1,one\n2,two\n'), /no Parquet file, or cut off/],
  'a page that unpacks to more than it says': [
    id({ codec: 2, pages: packedPage(gzipSync(BOMB), 8) }),
    /a page of it is damaged/,
  ],
  'the same by ZSTD': [id({ codec: 6, pages: packedPage(zstdCompressSync(BOMB), 8) }), /a page of it is damaged/],
  'a page of 2 GiB': [id({ codec: 2, pages: packedPage(gzipSync(longs(1)), 2 ** 31 - 1) }), /pages are too large/],
  'snappy that repeats what is not there': [
    id({ codec: 1, pages: packedPage(Buffer.from([8, 0x1d, 9]), 8) }),
    /damaged/,
  ],
  'rows of nothing, without end': [
    id({ schema: [OPTIONAL_ID], rows: 2 ** 40, pages: [page({ values: 1, body: levels(1, 0) })] }),
    /grows more than 1000 times/,
  ],
  'a page of more values than anybody has': [
    id({ schema: [OPTIONAL_ID], rows: 1000, pages: [page({ values: 2 ** 31 - 1, body: levels(2 ** 31 - 1, 0) })] }),
    /more than 50000000 values/,
  ],
  'fewer values than rows': [id({ rows: 2 }), /a row group of it is damaged/],
  'more values than rows': [id({ pages: [page({ values: 2, body: longs(1, 2) })] }), /a row group of it is damaged/],
  'values behind the end of their page': [id({ rows: 2, pages: [page({ values: 2, body: longs(1) })] }), /damaged/],
  LZO: [id({ codec: 3 }), /packed by LZO, which is not read/],
  'an unknown codec': [id({ codec: 99 }), /packed by codec 99/],
  'an unknown encoding': [id({ pages: [page({ values: 1, encoding: 4, body: longs(1) })] }), /the encoding 4/],
  'a dictionary that is not there': [
    id({ pages: [page({ values: 1, encoding: 8, body: Buffer.from([1, 2, 0]) })] }),
    /damaged/,
  ],
  'a dictionary with fewer values than it says': [
    id({
      pages: [
        page({ kind: 2, values: 2 ** 30, body: longs(1) }),
        page({ values: 1, encoding: 8, body: Buffer.from([1, 2, 0]) }),
      ],
    }),
    /damaged/,
  ],
  'a chunk that lies outside of the file': [
    id({ chunk: [number(4, 0), number(5, 1), number(7, 2 ** 40), number(9, 4)] }),
    /row groups is damaged/,
  ],
  'values in another file': [parquetFileElsewhere(), /lie in other files/],
  'a decimal with more places than digits': [
    id({ schema: [[...named('id'), number(6, 5), number(7, 9), number(8, 2)]] }),
    /a decimal of 2 digits with 9 places/,
  ],
  'columns in each other without end': [
    id({ schema: [...Array.from({ length: 40 }, () => [number(3, 0), text(4, 'g'), number(5, 1)]), REQUIRED_ID] }),
    /more than 32 times/,
  ],
  'a group that says more columns than there are': [
    id({ schema: [[number(3, 0), text(4, 'g'), number(5, 2 ** 30)]] }),
    /columns is damaged/,
  ],
  'a column twice': [id({ schema: [named('id'), named('id')], columns: 2, rows: 0 }), /names a column twice/],
  'a variant': [
    id({ schema: [[number(3, 0), text(4, 'v'), number(5, 1), group(10, group(16))], named('metadata', 6)], rows: 0 }),
    /column "v" cannot be read: it is a variant/,
  ],
  'levels that begin no row': [
    id({ schema: LISTS, pages: [page({ values: 1, body: Buffer.concat([levels(1, 1), levels(1, 3), longs(1)]) })] }),
    /a page of it is damaged/,
  ],
}

function parquetFileElsewhere(): Buffer {
  const bytes = parquetFile({ rows: 1, pages: [page({ values: 1, body: longs(1) })] })
  // The chunk's list of one struct begins with its metadata (field 3); a path (field 1) is put before it.
  const at = bytes.lastIndexOf(Buffer.from([0xfc, 1, 12, 6]))
  const path = Buffer.from([8, 2, 1, 0x78])
  const whole = Buffer.concat([bytes.subarray(0, at + 2), path, bytes.subarray(at + 2)])
  whole.writeUInt32LE(whole.readUInt32LE(whole.length - 8) + path.length, whole.length - 8)
  return whole
}

test('hostile and broken Parquet files are refused by name and reason', async () => {
  for (const [what, [bytes, words]] of Object.entries(HOSTILE)) {
    await put('a.parquet', bytes)
    await assert.doesNotReject(refused(PARQUET, words), what)
  }
  await refused({ ...PARQUET, glob: 'encrypted.parquet' }, /"encrypted\.parquet": it is encrypted/, FIXTURES)
  await refused({ ...PARQUET, glob: 'encrypted-column.parquet' }, /it is encrypted/, FIXTURES)
  await rm(join(folder, 'a.parquet'))
  await put('a.parquet.gz', gzipSync(id({})))
  await refused({ ...PARQUET, glob: '*.gz' }, /packed as a whole/)
})

test('lists of old writers, and values that are repeated without a list, are documents', async () => {
  const repeated = (name: string) => [number(1, 2), number(3, 2), text(4, name)]
  // Two values, the second of the same row, and a row without any.
  const repetitions = Buffer.from([2, 0, 0, 0, 3, 0b010])
  const three = (most: number) => Buffer.from([2, 0, 0, 0, 3, most === 2 ? 0b011010 : 0b011])
  const pages = (most: number) => [page({ values: 3, body: Buffer.concat([repetitions, three(most), longs(5, 6)]) })]
  const old = [[number(3, 1), text(4, 'id'), number(5, 1), number(6, 3)], repeated('array')]
  await put('a.parquet', parquetFile({ schema: old, rows: 2, pages: pages(2) }))
  assert.equal((await read(PARQUET)).csv, '"[5,6]"\n"[]"\n')
  await put('a.parquet', parquetFile({ schema: [repeated('id')], rows: 2, pages: pages(1) }))
  assert.equal((await read(PARQUET)).csv, '"[5,6]"\n"[]"\n')
})

test('a list without end rejects its row', async () => {
  const many = 1_000_000
  const body = Buffer.concat([
    ...[Buffer.from([6, 0, 0, 0, 2, 0]), Buffer.from([...runOf(many - 1), 1])],
    levels(many, 2),
  ])
  body.writeUInt32LE(2 + runOf(many - 1).length + 1)
  await put('a.parquet', parquetFile({ schema: LISTS, rows: 1, pages: [page({ values: many, body })] }))
  const { csv, rejects } = await read(PARQUET)
  assert.equal(csv, '')
  assert.match(rejects[0] ?? '', /^null: it has more than 1048576 characters/)
})

function runOf(length: number): readonly number[] {
  const bytes: number[] = []
  let rest = 2 * length
  for (; rest > 127; rest >>= 7) bytes.push((rest & 127) | 128)
  return [...bytes, rest]
}

/** A header with this schema, and blocks after it. */
function avroFile(
  schema: unknown,
  blocks: readonly (readonly [count: number, body: Buffer])[],
  codec = 'null',
): Buffer {
  const whole = (value: number) => Buffer.from(runOf(value))
  const sized = (bytes: Buffer | string) => Buffer.concat([whole(Buffer.from(bytes).length), Buffer.from(bytes)])
  const sync = Buffer.alloc(16, 7)
  const said = [sized('avro.schema'), sized(JSON.stringify(schema)), sized('avro.codec'), sized(codec)]
  const header = [Buffer.from('Obj\x01'), whole(2), ...said, Buffer.from([0]), sync]
  return Buffer.concat([...header, ...blocks.flatMap(([records, body]) => [whole(records), sized(body), sync])])
}

const record = (type: unknown) => ({ type: 'record', name: 'R', fields: [{ name: 'x', type }] })

const HOSTILE_AVRO: Readonly<Record<string, readonly [Buffer, RegExp]>> = {
  'another magic': [Buffer.from('id,word\n1,one\n'), /no Avro file, or cut off/],
  'an unknown codec': [avroFile(record('long'), [[1, Buffer.from([2])]], 'lzma'), /packed by "lzma"/],
  'records of nothing': [avroFile(record('null'), [[2 ** 30 - 1, Buffer.from([0])]]), /a block of it is damaged/],
  'a list of nothing, without end': [
    avroFile(record({ type: 'array', items: 'null' }), [[1, Buffer.from([...runOf(2 ** 30 - 1), 0])]]),
    /a row has more than 1000000 values/,
  ],
  'a text behind the end': [avroFile(record('string'), [[1, Buffer.from(runOf(2 ** 29))]]), /damaged/],
  'a branch that is none': [avroFile(record(['null', 'long']), [[1, Buffer.from([8, 2])]]), /damaged/],
  'a block that unpacks to more than it may': [
    avroFile(record('string'), [[1, zstdCompressSync(Buffer.alloc(65 * 1024 * 1024))]], 'zstandard'),
    /a block of it has more than 64 MiB/,
  ],
  'a schema that is none': [
    avroFile({ type: 'record', name: 'R', fields: [{ name: 'x', type: 'who' }] }, []),
    /its schema is none/,
  ],
  'values that are no records': [avroFile('long', []), /its values are no records/],
  'a schema without end': [avroFile(record(nested(500)), []), /its schema is too large/],
  'more bytes than records': [avroFile(record('long'), [[1, Buffer.from([2, 4])]]), /a block of it is damaged/],
}

function nested(depth: number): unknown {
  let type: unknown = 'long'
  for (let at = 0; at < depth; at += 1) type = { type: 'array', items: type }
  return type
}

test('hostile and broken Avro files are refused by name and reason', async () => {
  for (const [what, [bytes, words]] of Object.entries(HOSTILE_AVRO)) {
    await put('a.avro', bytes)
    await assert.doesNotReject(refused(AVRO, words), what)
  }
  await refused({ ...AVRO, glob: 'bzip2.avro' }, /packed by "bzip2", which is not read/, FIXTURES)
})

test('files that are cut off or damaged anywhere are read or refused, and nothing else happens', async () => {
  let seed = 7
  const next = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (const [name, settings] of [
    ['types.parquet', { ...PARQUET, glob: 'a' }],
    ['deflate.avro', { ...AVRO, glob: 'a' }],
  ] as const) {
    const whole = await readFile(join(FIXTURES, name))
    for (let turn = 0; turn < 60; turn += 1) {
      const bytes = turn % 3 === 0 ? whole.subarray(0, next(whole.length)) : Buffer.from(whole)
      if (turn % 3 > 0) for (let flip = 0; flip < 4; flip += 1) bytes[next(bytes.length)] = next(256)
      await put('a', bytes)
      const error: unknown = await read(settings).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      assert.ok(error === null || isSluiceError(error, 'INVALID_DATA'), `${name} ${turn}: ${error}`)
    }
  }
})
