/** Files that are hostile, broken or written to: what is read of them is bounded, exact, or said not to be. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type ConnectorState, isSluiceError, type ReadEvent, type ReadRequest } from '@sluice/sdk'
import { Folder } from './folder.ts'
import { Glob } from './glob.ts'
import { readTable } from './read.ts'
import { MAX_RECORD_BYTES, RecordSplitter } from './records.ts'
import { parseTable, type TableSettings } from './table-settings.ts'
import { Tables } from './tables.ts'

const root = await mkdtemp(join(tmpdir(), 'sluice-reading-'))
after(() => rm(root, { recursive: true, force: true }))
let count = 0
let folder = ''
beforeEach(async () => {
  count += 1
  folder = join(root, `files-${count}`)
  await mkdir(folder)
})

const put = (path: string, content: string | Uint8Array) => writeFile(join(folder, path), content)
const CSV: TableSettings = {
  glob: '*.csv*',
  format: 'csv',
  columns: [
    { name: 'id', type: 'long' },
    { name: 'word', type: 'string' },
  ],
  primary_key: ['id'],
}

function events(settings: TableSettings, parts: Partial<ReadRequest> = {}): AsyncGenerator<ReadEvent> {
  const store = new Folder(folder)
  const tables = new Tables(store, [parseTable('t', settings, '')])
  const request = {
    schema: 'files',
    table: 't',
    mode: 'full',
    columns: [],
    primaryKey: [],
    cursorColumn: null,
    state: null,
  } as const
  return readTable(tables, store, { ...request, signal: new AbortController().signal, ...parts })
}

async function read(settings: TableSettings, parts: Partial<ReadRequest> = {}) {
  let csv = ''
  let state: ConnectorState | null = null
  const rejects: string[] = []
  for await (const event of events(settings, parts)) {
    if (event.kind === 'csv') csv += Buffer.from(event.chunk).toString()
    if (event.kind === 'reject') rejects.push(`${event.column}: ${event.reason} (${event.raw})`)
    if (event.kind === 'state') state = event.state
  }
  return { csv, rejects, state }
}

const refused = (settings: TableSettings, code: string, words: RegExp) =>
  assert.rejects(
    read(settings),
    (error: unknown) =>
      isSluiceError(error) && error.code === code && words.test(error.message) && error.remedy !== undefined,
  )

test('rows that are broken are rejected as they stand, and those beside them are read', async () => {
  const bytes = Buffer.concat([
    Buffer.from('id,word\n1,one\n2\n3,th"ree\n'),
    Buffer.from([0x34, 0x2c, 0xff, 0x0a]),
    Buffer.from(',five\n6,a\0b\nx,seven\n\n8,"ei\nght"'),
  ])
  await put('a.csv', bytes)
  const { csv, rejects } = await read(CSV)
  assert.equal(csv, '"1","one"\n"8","ei\nght"\n')
  assert.deepEqual(rejects, [
    'null: it has 1 values, and the file 2 columns (2)',
    'null: a quote stands within a value that is not quoted (3,th"ree)',
    'null: it is not written in UTF-8 (4,ÿ)',
    'id: it is missing (,five)',
    'word: it is no string (6,a\0b)',
    'id: it is no long (x,seven)',
  ])
})

test('a value that nobody uses does not cost the row, and marks name it', async () => {
  await put('a.csv', 'id,word\n1,a\0\n2,b\n')
  assert.equal((await read(CSV, { marked: ['word'] })).csv, '"1",,"[""word""]"\n"2","b",\n')
  assert.equal((await read(CSV, { optional: ['word'] })).csv, '"1",\n"2","b"\n')
})

test('a file that cannot be taken apart fails the read, by its name and line', async () => {
  await put('a.csv', 'id,word\n1,"never closed\n2,two\n')
  await refused(CSV, 'source_file_invalid', /"a\.csv".*line 2/)
  await put('a.csv', 'id,id\n')
  await refused(CSV, 'source_file_invalid', /column twice/)
  await put('a.csv', 'id\n1\n')
  await refused(CSV, 'source_file_invalid', /no column "word"/)
  assert.equal((await read({ ...CSV, optional_columns: ['word'] })).csv, '"1",\n')
  await put('a.csv', Buffer.from('\ufeffid,word\n', 'utf16le'))
  await refused(CSV, 'source_file_invalid', /UTF-16/)
  await put('a.csv', `id,word\n1,${'x'.repeat(MAX_RECORD_BYTES)}\n`)
  await refused(CSV, 'source_file_invalid', /line 2 has more than/)
  await rm(join(folder, 'a.csv'))
  await refused(CSV, 'source_no_files', /no file matches/)
})

test('what grows without end when it is unpacked is refused, and so is what is no gzip', async () => {
  const row = `1,${'a'.repeat(60_000)}\n`
  await put('a.csv.gz', gzipSync(`id,word\n${row.repeat(1500)}`))
  await refused(CSV, 'source_file_invalid', /grows more than/)
  const good = gzipSync('id,word\n1,one\n')
  await put('a.csv.gz', good.subarray(0, good.length - 10))
  await refused(CSV, 'source_file_invalid', /no gzip, or cut off/)
  await put('a.csv.gz', good)
  assert.equal((await read(CSV)).csv, '"1","one"\n')
})

test('records are the same however the bytes come', () => {
  const text = Buffer.from('\ufeffa;"b\n""c"\r\nd;e"f\n\n"g";h\nlast;')
  const whole = new RecordSplitter({ delimiter: ';', quote: '"' })
  const records = [...whole.push(text), ...whole.end()].map(({ bytes, line }) => [bytes.toString(), line])
  assert.deepEqual(records, [
    ['a;"b\n""c"', 1],
    ['d;e"f', 3],
    ['', 4],
    ['"g";h', 5],
    ['last;', 6],
  ])
  for (let size = 1; size < text.length; size += 1) {
    const splitter = new RecordSplitter({ delimiter: ';', quote: '"' })
    const found = []
    for (let at = 0; at < text.length; at += size) found.push(...splitter.push(text.subarray(at, at + size)))
    assert.deepEqual(
      [...found, ...splitter.end()].map(({ bytes, line }) => [bytes.toString(), line]),
      records,
    )
  }
})

test('links, and folders behind links, are not read, also where one takes the place of what was listed', async () => {
  const outside = join(root, 'outside')
  await mkdir(outside, { recursive: true })
  await writeFile(join(outside, 'x.csv'), 'id,word\n9,secret\n')
  await mkdir(join(folder, 'in'))
  await put('in/a.csv', 'id,word\n1,one\n')
  await symlink(join(outside, 'x.csv'), join(folder, 'in/b.csv'))
  await symlink(outside, join(folder, 'link'))
  const store = new Folder(folder)
  const { signal } = new AbortController()
  const listed = await store.list(Glob.parse('**/*.csv') as Glob, signal)
  assert.deepEqual(
    listed.map(({ path }) => path),
    ['in/a.csv'],
  )
  await rename(join(folder, 'in'), join(folder, 'away'))
  await symlink(outside, join(folder, 'in'))
  await writeFile(join(outside, 'a.csv'), 'id,word\n9,secret\n')
  const [first] = listed
  assert.ok(first)
  await assert.rejects(store.open(first, signal), { code: 'source_file_changed' })
  assert.equal(await store.find('in/a.csv', signal), null)
})

test('a file that is written to while it is read fails the read; one that is replaced is read as it was', async () => {
  const rows = Array.from({ length: 60_000 }, (_, id) => `${id},${'word'.repeat(5)}\n`).join('')
  await put('a.csv', `id,word\n${rows}`)
  const reading = events(CSV)
  await reading.next()
  await reading.next()
  await writeFile(join(folder, 'a.csv'), 'id,word\n1,other\n')
  await assert.rejects(Array.fromAsync(reading), { code: 'source_file_changed', kind: 'TRANSIENT' })
  await put('a.csv', `id,word\n${rows}`)
  const again = events(CSV)
  await again.next()
  await put('b', 'id,word\n1,other\n')
  await rename(join(folder, 'b'), join(folder, 'a.csv'))
  const state = (await Array.fromAsync(again)).at(-1)
  assert.equal(state?.kind === 'state' ? state.rows : null, 60_000)
})

test('a read goes on by the files that are new, and all come again where they are read otherwise', async () => {
  await put('a.csv', 'id,word\n1,one\n')
  const incremental = (settings: TableSettings, state: ConnectorState | null) =>
    read(settings, { mode: 'incremental', state })
  const first = await incremental(CSV, null)
  await put('b.csv', 'id,word\n2,two\n')
  const second = await incremental(CSV, first.state)
  assert.equal(second.csv, '"2","two"\n')
  await rm(join(folder, 'a.csv'))
  const third = await incremental(CSV, second.state)
  assert.equal(third.csv, '')
  const other = events({ ...CSV, null_text: 'NA' }, { mode: 'incremental', state: third.state })
  assert.deepEqual((await other.next()).value?.kind === 'schema' && (await other.return(undefined)).done, true)
  const kinds = await Array.fromAsync(events({ ...CSV, null_text: 'NA' }, { mode: 'incremental', state: third.state }))
  assert.equal(kinds[0]?.kind === 'schema' && kinds[0].whole, true)
})
