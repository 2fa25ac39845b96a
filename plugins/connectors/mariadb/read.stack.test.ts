import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { type Connector, isSluiceError, type ReadRequest } from '@sluice/sdk'
import { gather, sourceHost } from '../postgresql/source-host.ts'
import { TLS_NAME, until } from '../postgresql/source-server.ts'
import plugin from './index.ts'
import type { Settings } from './settings.ts'
import { type SourceServer, startSource } from './source-server.ts'

let source: SourceServer
let user: string
let database: string
const never = new AbortController().signal

before(async () => {
  source = await startSource()
  database = source.settings.database
  user = `'${source.settings.user}'@'%'`
  await source.sql(`GRANT SELECT ON \`${database}\`.* TO ${user}`)
})
after(() => source?.stop())

function open(settings: Partial<Settings> = {}): Promise<Connector> {
  return plugin.open({ ...source.settings, ...settings }, sourceHost({ names: [TLS_NAME] }))
}

function request(table: string, parts: Partial<ReadRequest> = {}): ReadRequest {
  const whole = { mode: 'full', columns: [], primaryKey: [], cursorColumn: null, state: null, signal: never } as const
  return { schema: database, table, ...whole, ...parts }
}

const codeOf = (error: unknown) => (isSluiceError(error) ? error.code : String(error))

test('dates that are zero in whole or in part cost their row, or are named as missing from it, and are never another day', async () => {
  await source.sql(
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
    'CREATE TABLE days (id INT PRIMARY KEY, d DATE, t DATETIME(6), i TIMESTAMP NULL)',
    `INSERT INTO days VALUES (1, '2024-02-29', '0001-01-01 00:00:00', NULL), (2, '0000-00-00', NULL, NULL), (3, '2024-00-10', NULL, NULL),
      (4, '2023-02-29', NULL, NULL), (5, NULL, '0000-00-00 00:00:00', NULL), (6, NULL, NULL, '0000-00-00 00:00:00')`,
    'SET SESSION sql_mode = DEFAULT',
  )
  const connector = await open()
  const { rows, rejects } = await gather(connector.read(request('days')))
  assert.deepEqual(rows, [['1', '2024-02-29', '0001-01-01 00:00:00.000000', null]])
  assert.deepEqual(
    rejects.map(({ key, column, raw }) => [key?.['id'], column, raw]),
    [
      ['2', 'd', '0000-00-00'],
      ['3', 'd', '2024-00-10'],
      ['4', 'd', '2023-02-29'],
      ['5', 't', '0000-00-00 00:00:00.000000'],
      ['6', 'i', '0000-00-00 00:00:00'],
    ],
  )
  const marked = await gather(connector.read(request('days', { marked: ['d', 't'] })))
  assert.deepEqual(
    marked.rows.map((row) => [row[0], row.at(-1)]),
    [
      ['1', null],
      ['2', '["d"]'],
      ['3', '["d"]'],
      ['4', '["d"]'],
      ['5', '["t"]'],
    ],
  )
  await connector.close()
})

test('texts that nothing can carry, and rows that are too large for the engine, are named', async () => {
  await source.sql(
    'CREATE TABLE texts (id INT PRIMARY KEY, body LONGTEXT, document JSON)',
    `INSERT INTO texts VALUES (1, 'a\\0b', NULL), (3, NULL, '{"a":"\\\\ud83d\\\\ude00"}'), (4, '"', NULL)`,
    // Larger as CSV than as it is, and larger than a packet.
    `INSERT INTO texts SELECT 5, REPEAT('"', 9000000), NULL`,
    `INSERT INTO texts SELECT 6, CONCAT(REPEAT('x', 8000000), REPEAT('y', 8000000)), NULL`,
    `UPDATE texts SET body = CONCAT(body, REPEAT('z', 2000000)) WHERE id = 6`,
    `INSERT INTO texts VALUES (7, 'the last', NULL)`,
  )
  const connector = await open()
  const { rows, rejects } = await gather(connector.read(request('texts')))
  assert.deepEqual(
    rows.map(([id]) => id),
    ['3', '4', '7'],
  )
  assert.deepEqual(
    rejects.map(({ key, column, reason }) => [key?.['id'] ?? null, column, /16 MiB/.test(reason)]),
    [
      ['1', 'body', false],
      ['5', null, true],
      [null, null, true],
    ],
  )
  await connector.close()
})

test('columns that are hidden, computed or of a view come as they are, where they are named', async () => {
  await source.sql(
    `CREATE TABLE kinds (id INT PRIMARY KEY, twice INT AS (id * 2) STORED, hidden INT INVISIBLE DEFAULT 7, point POINT, bits BIT(1),
       address INET6, document JSON)`,
    `INSERT INTO kinds (id, point, bits, address, document) VALUES (1, POINT(1, 2), b'1', '::1', '[1e400]')`,
    'CREATE VIEW seen AS SELECT id, document FROM kinds',
    'CREATE SEQUENCE numbers',
  )
  const connector = await open()
  const all = await gather(connector.read(request('kinds')))
  assert.deepEqual(
    all.schema.columns.map(({ name }) => name),
    ['id', 'twice', 'point', 'bits', 'address', 'document'],
  )
  const named = await gather(connector.read(request('kinds', { columns: ['hidden', 'twice', 'bits', 'address'] })))
  assert.deepEqual(named.rows, [['7', '2', 't', '::1']])
  const view = await gather(connector.read(request('seen')))
  assert.deepEqual([view.schema.columns[1]?.type, view.rows], ['json', [['1', '[1e400]']]])
  const { tables } = await connector.discover({ after: null, limit: 100 }, never)
  const found = tables.map(({ name, kind }) => `${name} ${kind}`)
  assert.ok(found.includes('seen view') && !found.some((name) => name.startsWith('numbers')), found.join())
  await connector.close()
})

test('all reads of a connector that is asked for it see one instant, and a table that was emptied since is not mixed in', async () => {
  await source.sql(
    'CREATE TABLE one (id INT PRIMARY KEY)',
    'CREATE TABLE two (id INT PRIMARY KEY)',
    'CREATE TABLE three (id INT PRIMARY KEY)',
    'INSERT INTO one VALUES (1)',
    'INSERT INTO two VALUES (1)',
    'INSERT INTO three VALUES (1)',
  )
  const connector = await open({ one_moment: true })
  assert.equal((await gather(connector.read(request('one')))).rows.length, 1)
  await source.sql('INSERT INTO two VALUES (2)', 'TRUNCATE three', 'INSERT INTO three VALUES (2)')
  // Side by side: the second waits for the first.
  const [two, again] = await Promise.all([
    gather(connector.read(request('two'))),
    gather(connector.read(request('one'))),
  ])
  assert.deepEqual([two.rows.length, again.rows.length], [1, 1])
  await assert.rejects(gather(connector.read(request('three'))), (error) => codeOf(error) === 'source_moment_lost')
  // What is read from now on would be of another instant.
  await assert.rejects(gather(connector.read(request('one'))), (error) => codeOf(error) === 'source_moment_lost')
  await connector.close()
})

test('a read that is ended ends its statement at the source, though no row has come', async () => {
  await source.sql('CREATE TABLE numbers_of (id INT PRIMARY KEY)', 'INSERT INTO numbers_of SELECT seq FROM seq_1_to_9')
  await source.sql('CREATE VIEW slow AS SELECT id, SLEEP(60) AS slept FROM numbers_of')
  const connector = await open()
  const ended = new AbortController()
  const reading = gather(connector.read(request('slow', { signal: ended.signal })))
  reading.catch(() => undefined)
  const running = async () =>
    (await source.sql(`SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '${source.settings.user}'`)).length
  await until('the statement runs', async () => (await running()) > 0)
  ended.abort()
  await assert.rejects(reading, (error) => codeOf(error) === 'aborted')
  await until('the statement is gone', async () => (await running()) === 0)
  await connector.close()
})

test('a source that takes too long fails in words', async () => {
  const connector = await open({ statement_timeout_s: 1 })
  await assert.rejects(gather(connector.read(request('slow'))), (error) => codeOf(error) === 'source_timeout')
  await connector.close()
})

test('each way of TLS holds to what it says', async () => {
  const authority = await readFile(new URL('../postgresql/fixture-tls/authority.pem', import.meta.url), 'utf8')
  const stepOf = async (settings: Partial<Settings>) => {
    const connector = await open(settings)
    const { steps } = await connector.check(never)
    await connector.close()
    const { name, ok, message } = steps.find((step) => step.name === 'tls' || !step.ok) ?? {
      name: '',
      ok: false,
      message: '',
    }
    return `${name} ${ok}: ${message}`
  }
  assert.match(await stepOf({ ssl_mode: 'disable' }), /tls true: .*not encrypted/)
  assert.match(await stepOf({ ssl_mode: 'require' }), /tls true: .*not verified/)
  assert.match(await stepOf({ ssl_mode: 'verify-full' }), /tls false: .*trusted authority/)
  assert.match(await stepOf({ ssl_mode: 'verify-ca', ssl_root_cert: authority }), /tls true: .*is verified/)
  assert.match(await stepOf({ ssl_mode: 'verify-full', ssl_root_cert: authority }), /tls false: .*another name/)
  const named = { host: TLS_NAME, ssl_mode: 'verify-full', ssl_root_cert: authority } as const
  assert.match(await stepOf(named), /tls true: .*is verified/)
  await source.sql(`ALTER USER ${user} REQUIRE SSL`)
  assert.match(await stepOf({ ssl_mode: 'disable' }), /tls true/)
  const connector = await open({ ssl_mode: 'disable' })
  const refused = (await connector.check(never)).steps.at(-1)
  assert.deepEqual([refused?.name, refused?.ok], ['auth', false])
  await connector.close()
  await source.sql(`ALTER USER ${user} REQUIRE NONE`)
})

test('without PROCESS a table is told by when it was made, and rows within the overlap are found', async () => {
  await source.sql(
    `CREATE TABLE seen_by_time (id INT PRIMARY KEY, at DATETIME(3) NOT NULL DEFAULT NOW(3) ON UPDATE NOW(3))`,
    'INSERT INTO seen_by_time (id) VALUES (1)',
    `REVOKE PROCESS ON *.* FROM ${user}`,
  )
  const connector = await open()
  const said = (await connector.check(never)).steps.at(-1)?.message ?? ''
  assert.match(said, /GRANT PROCESS/)
  const read = (state: ReadRequest['state']) =>
    gather(connector.read(request('seen_by_time', { mode: 'incremental', primaryKey: ['id'], state })))
  // What was made a moment ago may be made anew within the same second: it is read whole.
  await until('the table is old enough', async () => (await read((await read(null)).last.state)).whole === false)
  const { last } = await read(null)
  await source.sql(
    'INSERT INTO seen_by_time (id) VALUES (2)',
    'UPDATE seen_by_time SET at = NOW(3) - INTERVAL 5 MINUTE WHERE id = 2',
  )
  const next = await read(last.state)
  assert.ok(next.rows.some(([id]) => id === '2'))
  const idle = await read(next.last.state)
  assert.deepEqual([idle.rows.length, idle.last.state], [0, next.last.state])
  await source.sql(`GRANT PROCESS ON *.* TO ${user}`)
  await connector.close()
})

test('a table without a time that changes is refused in mode incremental, by name', async () => {
  const connector = await open()
  const parts = { mode: 'incremental', primaryKey: ['id'] } as const
  await assert.rejects(
    gather(connector.read(request('one', parts))),
    (error) => codeOf(error) === 'source_cursor_unsafe',
  )
  const byKey = request('one', { ...parts, cursorColumn: 'id' })
  await assert.rejects(gather(connector.read(byKey)), (error) => codeOf(error) === 'source_cursor_unsafe')
  await connector.close()
})
