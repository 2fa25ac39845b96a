import assert from 'node:assert/strict'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inspect } from 'node:util'
import { codeFolder } from '@sluice/engine'
import { LIMITS, readScan } from '@sluice/iceberg/testing'
import type { ConnectorPlugin } from '@sluice/sdk'
import { escapeLiteral } from 'pg'
import { sourceHost } from '../plugins/connectors/postgresql/source-host.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { inTransaction } from '../runtime/src/database/pools.ts'
import { LOG_FAULT_POINTS, SPOOL_FAULT_POINTS } from '../runtime/src/fault-points.ts'
import type { IngestionDeps } from '../runtime/src/ingestion/ingestion-run.ts'
import { runIngestion } from '../runtime/src/ingestion/run-ingestion.ts'
import { SourceReaders } from '../runtime/src/ingestion/source-readers.ts'
import { type RegistryLake, startRegistryLake } from '../runtime/src/lake/testing.ts'
import type { ManifestSet } from '../runtime/src/manifest/manifest-set.ts'
import { rawTable } from '../runtime/src/materializer/inputs.ts'
import { askBackfill, backfillsOf } from '../runtime/src/registry/backfills.ts'
import { capture } from '../runtime/src/registry/captures.ts'
import { type Connection, createConnection } from '../runtime/src/registry/connections.ts'
import type { MasterKeys } from '../runtime/src/registry/master-keys.ts'
import { registryMigrations } from '../runtime/src/registry/migrations.ts'
import type { Product } from '../runtime/src/registry/products.ts'
import { claimRun, finishRun } from '../runtime/src/registry/run-claims.ts'
import { lastReads } from '../runtime/src/registry/run-progress.ts'
import { enqueueRun } from '../runtime/src/registry/runs.ts'
import { ANN, tenantWithKeys } from '../runtime/src/registry/testing.ts'

/** Random writers on PostgreSQL, runs that die anywhere, and a connector behind its walls: what the lake has is the source's. */

const TENANT = 'acme'
const ROUNDS = Number(process.env['SLUICE_TEST_LOG_ROUNDS'] ?? 12)

let source: SourceCluster
let lake: RegistryLake
let masters: MasterKeys
let readers: SourceReaders
let plugin: ConnectorPlugin
let connection: Connection
let scratchDirectory: string
const lost: string[] = []
let tables: readonly string[] = ['a', 'b']

before(async () => {
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};
    CREATE TABLE a (id int, part text, n int, body text, PRIMARY KEY (id, part)); ALTER TABLE a ALTER body SET STORAGE EXTERNAL;
    CREATE TABLE b (id int PRIMARY KEY, body text); ALTER TABLE b ALTER body SET STORAGE EXTERNAL;
    ALTER TABLE a OWNER TO ${user}; ALTER TABLE b OWNER TO ${user}`)
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  connection = await inTransaction(lake.pool, (tx) =>
    createConnection(tx, { tenant: TENANT, name: 'db', connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  scratchDirectory = await mkdtemp(join(tmpdir(), 'sluice-log-'))
  const codeCacheDir = codeFolder(join(tmpdir(), 'sluice-log-cache'))
  const waits = { silenceMs: 600_000, callMs: 600_000, readMs: 600_000 }
  readers = new SourceReaders({
    maxReaders: 4,
    memoryBytes: 256 * 1024 * 1024,
    privateFolders: [],
    codeCacheDir,
    ...waits,
  })
  const url = import.meta.resolve('@sluice/connectors/postgresql')
  plugin = readers.wall((await import(url)).default as ConnectorPlugin, url)
  await readers.prepare(codeCacheDir)
})
after(async () => {
  await readers?.close()
  await source?.stop()
  await lake?.[Symbol.asyncDispose]()
})

const input = (table: string) => ({
  ...{ name: table, connection: 'db', table: `public.${table}`, cursorColumn: null, primaryKey: [], columns: null },
  ...{ mode: 'cdc', where: null, onSchemaChange: 'evolve' },
})

async function sync(dies: string | null = null): Promise<void> {
  const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
  await enqueueRun(lake.pool, { ...run, createdBy: ANN })
  const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
  assert.ok(claimed)
  const ended = new AbortController()
  const manifests = {
    inputs: tables.map(input),
    quality: { checks: [] },
    compute: { trigger: 'manual', transform: 'SELECT 1' },
  }
  try {
    const about = { connection, lease: claimed.lease, signal: ended.signal, toTransforms: async () => {} }
    await runIngestion(about, {
      ...{ pool: lake.pool, masters, lake: lake.lake, limits: LIMITS, scratchDirectory },
      async faultPoint(point: string) {
        if (point !== dies) return
        ended.abort(new Error('died'))
        ended.signal.throwIfAborted()
      },
      openConnector: () => plugin.open(source.settings, sourceHost()),
      logSpool: { bytes: 1e9, allBytes: 1e9 },
      readsAtOneMoment: () => false,
      productsOf: async () => [{ product: {} as Product, manifests: manifests as unknown as ManifestSet }],
      checkStorage: async () => ({ bytes: 1e9, exceeded: () => new Error('too much') }),
      tellLogLost: async (_: unknown, __: unknown, { reason }: { readonly reason: string }) => void lost.push(reason),
    } as unknown as IngestionDeps)
  } catch (error) {
    if (dies === null) throw error
  } finally {
    await finishRun(lake.pool, claimed.lease, { state: 'succeeded', result: {} })
  }
}

const any = (count: number) => Math.floor(Math.random() * count)
const BODIES = ["repeat('x', 5000)", "repeat('y', 9000)", 'NULL', "''", `'"one", two'`]

/** A transaction of some statements, part of it rolled back to a savepoint now and then. */
function transaction(): string {
  const key = () => `id = ${any(6)} AND part = '${'pq'[any(2)]}'`
  const statement = () =>
    [
      () =>
        `INSERT INTO a VALUES (${any(6)}, '${'pq'[any(2)]}', ${any(9)}, ${BODIES[any(5)]}) ON CONFLICT (id, part) DO UPDATE SET n = ${any(9)}`,
      () => `UPDATE a SET n = ${any(9)} WHERE ${key()}`,
      () => `UPDATE a SET body = ${BODIES[any(5)]} WHERE ${key()}`,
      () =>
        `UPDATE a SET id = id + 100 * ${1 + any(5)} WHERE ${key()} AND NOT EXISTS (SELECT FROM a o WHERE o.id >= 100)`,
      () => `UPDATE a SET id = ${any(6)} WHERE id >= 100 AND NOT EXISTS (SELECT FROM a o WHERE o.id < 6 AND o.id = 0)`,
      () => `DELETE FROM a WHERE ${key()}`,
      () => `INSERT INTO b VALUES (${any(9)}, ${BODIES[any(5)]}) ON CONFLICT (id) DO UPDATE SET body = excluded.body`,
      () => `DELETE FROM b WHERE id = ${any(9)}`,
      () => (any(8) === 0 ? 'TRUNCATE b' : 'SELECT 1'),
    ][any(9)]?.() ?? 'SELECT 1'
  const some = () => Array.from({ length: 1 + any(4) }, statement).join('; ')
  const undone = any(3) === 0 ? `SAVEPOINT s; ${some()}; ROLLBACK TO s;` : ''
  return `BEGIN; ${some()}; ${undone} ${some()}; ${any(6) === 0 ? 'ROLLBACK' : 'COMMIT'}`
}

async function write(count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) await source.sql(transaction()).catch(() => source.sql('ROLLBACK'))
}

function askFor(...tables: readonly string[]): Promise<void> {
  return inTransaction(lake.pool, (tx) => askBackfill(tx, connection.id, tables))
}

async function isAsSource(ofB = 'id, body'): Promise<void> {
  for (const [table, columns] of [
    ['a', 'id, part, n, body'],
    ['b', ofB],
  ] as const) {
    const there = (await source.sql(`SELECT ${columns} FROM ${table}`)).map((row) => JSON.stringify(Object.values(row)))
    const scan = await lake.lake.scan(rawTable(TENANT, 'db', `public.${table}`))
    const here = (await readScan(lake, scan)).map((row) => JSON.stringify([...row]))
    assert.deepEqual(here.toSorted(), there.toSorted(), table)
  }
}

test('whatever is written, and wherever runs die, the lake has what the source has', {
  timeout: 1_200_000,
}, async () => {
  await write(20)
  await sync()
  await isAsSource()
  for (let round = 0; round < ROUNDS; round += 1) {
    await write(1 + any(12))
    const writing = write(6)
    if (any(3) === 0) await askFor(...['public.a', 'public.b'].filter(() => any(2) === 0))
    await sync(any(2) === 0 ? (LOG_FAULT_POINTS[any(LOG_FAULT_POINTS.length)] as string) : null)
    await writing
    if (round === Math.floor(ROUNDS / 2)) await source.restart()
    await sync()
    await isAsSource()
    assert.deepEqual(await backfillsOf(lake.pool, connection.id), [])
  }
  assert.deepEqual(lost, [])
  assert.equal((await capture(lake.pool, connection.id))?.generation, 1)
})

/** As of a mount that has gone. */
async function withoutLake(work: () => Promise<void>): Promise<void> {
  const here = join(lake.dir, 'store')
  await rename(here, `${here}.away`)
  await writeFile(here, '')
  try {
    await work()
  } finally {
    await rm(here)
    await rename(`${here}.away`, here)
  }
}

const confirmed = async () =>
  (await source.sql('SELECT confirmed_flush_lsn::text AS at FROM pg_replication_slots'))[0]?.['at']

test('whatever is written while the lake is away, and wherever runs die, the source may forget it and the lake gets it', {
  timeout: 1_200_000,
}, async () => {
  const points = [...SPOOL_FAULT_POINTS, ...LOG_FAULT_POINTS]
  const dies = () => (any(2) === 0 ? (points[any(points.length)] as string) : null)
  for (let round = 0; round < ROUNDS; round += 1) {
    await withoutLake(async () => {
      for (let again = any(3); again >= 0; again -= 1) {
        await write(1 + any(12))
        const writing = write(6)
        if (any(6) === 0) await askFor('public.b')
        await sync(dies()).catch(() => undefined)
        await writing
      }
      await write(1)
      const before = await confirmed()
      await assert.rejects(sync(), { code: 'log_spooled' })
      assert.notEqual(await confirmed(), before)
    })
    await write(any(4))
    if (any(2) === 0) await sync(points[any(points.length)] as string)
    await sync()
    await isAsSource()
    assert.equal((await capture(lake.pool, connection.id))?.spool.pieces, 0)
  }
  assert.deepEqual(lost, [])
  assert.equal((await capture(lake.pool, connection.id))?.generation, 1)
})

test('a table that is asked for is read whole while others go on by the log', { timeout: 600_000 }, async () => {
  await source.sql("DELETE FROM b; INSERT INTO b SELECT i, 'kept' FROM generate_series(1, 500) i")
  await sync()
  const rowsRead = async () =>
    (await lastReads(lake.pool, connection.id, ['public.a', 'public.b'])).map((read) => read.rowsRead)
  await source.sql("UPDATE b SET body = 'by the log' WHERE id = 1")
  await sync()
  assert.deepEqual(await rowsRead(), [0, 1])
  await source.sql("UPDATE b SET body = 'whole' WHERE id = 2")
  await askFor('public.b')
  const writing = source.sql("UPDATE b SET body = 'meanwhile' WHERE id = 3; DELETE FROM b WHERE id = 4")
  await sync()
  await writing
  assert.ok(((await rowsRead())[1] as number) >= 490, 'the whole table')
  await sync()
  await isAsSource()
  assert.deepEqual(lost, [])
})

test('what a table has become while nobody read is read whole: a default, another type, another table of its name', {
  timeout: 600_000,
}, async () => {
  const { user } = source.settings
  for (const statement of [
    "ALTER TABLE b ADD COLUMN more text DEFAULT 'given'",
    'ALTER TABLE b ALTER more DROP DEFAULT, ALTER more TYPE int USING length(more)',
    `DROP TABLE b; CREATE TABLE b (id int PRIMARY KEY, body text, more int); ALTER TABLE b OWNER TO ${user};
     INSERT INTO b VALUES (1, 'another', 5)`,
    'ALTER TABLE b DROP COLUMN more; ALTER TABLE b ADD COLUMN more text',
  ]) {
    await source.sql("INSERT INTO b (id, body) VALUES (77, 'before') ON CONFLICT (id) DO UPDATE SET body = 'again'")
    await sync()
    // Told by the log as the table was then, and read by nobody before it is another.
    await source.sql(
      "UPDATE b SET body = 'of before' WHERE id = 77; INSERT INTO b (id, body) VALUES (78, 'gone') ON CONFLICT DO NOTHING",
    )
    await source.sql(statement)
    await sync()
    await isAsSource('id, body, more')
  }
  await source.sql('ALTER TABLE b DROP COLUMN more')
  await sync()
})

/** By type, values at its ends and of odd texts; each is carried, by a read as by the log. */
const ENDS: Readonly<Record<string, readonly string[]>> = {
  text: [
    '',
    ' ',
    'NULL',
    '\\N',
    '\\.',
    '"',
    '""',
    "'",
    ',',
    '#x',
    '\n',
    '\r',
    '\r\n',
    '\n\n,"',
    '\t',
    '\u0001',
    '\u0085',
    '\u2028',
    '\ufeffx',
    'ü😀',
    'x'.repeat(70_000),
    '"\n'.repeat(9000),
  ],
  'char(3)': ['', 'a', '"\n"'],
  'text[]': ['{}', '{NULL,"NULL",""}', '{{"a\r\nb"},{"\\"\\\\"}}'],
  boolean: ['t', 'f'],
  bigint: ['-9223372036854775808', '9223372036854775807'],
  real: ['-0', '1e-45', '3.4028235e38', 'NaN', '-Infinity', '0.1'],
  'double precision': ['-0', '5e-324', '1.7976931348623157e308', 'NaN', 'Infinity', '0.30000000000000004'],
  numeric: ['0.000000001', '-99999999999999999999999999999.999999999', '1e28', '-0.0'],
  'numeric(38,0)': ['99999999999999999999999999999999999999', '-1'],
  'numeric(60,30)': ['1e-30', '123456789012345678901234567890.123456789012345678901234567890', 'NaN'],
  date: ['0001-01-01', '9999-12-31', '1582-10-10'],
  timestamp: ['0001-01-01', '9999-12-31 23:59:59.999999', '2024-06-30 24:00'],
  timestamptz: ['0001-01-01 00:00+00', '9999-12-31 23:59:59.999999+00', '1890-01-01 00:00 Europe/Amsterdam'],
  bytea: ['', '\\x00ff0a0d22', '\\x5c78'],
  uuid: ['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'],
  json: ['{"a":1,"a":2}', ' [1.10,\r\n 1e400] ', '"\\u00e4\\n"', 'null'],
  jsonb: ['{"b":1,"a":{"c":[]}}', '-0.0', '"x\\ny"'],
  interval: ['-1 mons 1 day', '00:00:00.000001'],
  money: ['-92233720368547758.08', '0.01'],
}

test('values at the ends of their types are the same by the log as by a read', { timeout: 600_000 }, async () => {
  const types = Object.entries(ENDS)
  const length = Math.max(...types.map(([, values]) => values.length))
  await source.sql(`CREATE TABLE c (id int PRIMARY KEY, round int, ${types.map(([type], at) => `v${at} ${type}`).join(', ')});
    ALTER TABLE c OWNER TO ${source.settings.user}; CREATE TABLE kept (LIKE c)`)
  for (let id = 0; id <= length; id += 1) {
    const values = types.map(([type, values]) =>
      id < values.length ? `${escapeLiteral(values[id] ?? '')}::${type}` : 'NULL',
    )
    await source.sql(`INSERT INTO kept VALUES (${id}, 0, ${values.join(', ')})`)
  }
  await source.sql('INSERT INTO c SELECT * FROM kept')
  tables = ['a', 'b', 'c']
  await sync()
  const now = async () => {
    const scan = await lake.lake.scan(rawTable(TENANT, 'db', 'public.c'))
    return (await readScan(lake, scan)).map((row) => inspect([...row], { maxStringLength: null })).toSorted()
  }
  const whole = await now()
  assert.equal(whole.length, length + 1)
  for (const written of [
    'DELETE FROM c; INSERT INTO c SELECT * FROM kept',
    'UPDATE c SET round = 1; UPDATE c SET round = 0',
  ]) {
    await source.sql(written)
    await sync()
    assert.deepEqual(
      (await lastReads(lake.pool, connection.id, ['public.c'])).map((read) => read.mode),
      ['cdc'],
    )
    assert.deepEqual(await now(), whole, written)
  }
  tables = ['a', 'b']
  assert.deepEqual(lost, [])
})

test('a slot that is gone costs a read of all, in the same run', { timeout: 600_000 }, async () => {
  await write(4)
  await source.sql('SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active')
  await write(4)
  await sync()
  await isAsSource()
  assert.equal(lost.length, 1)
  await write(4)
  await sync()
  await isAsSource()
  const known = await capture(lake.pool, connection.id)
  const connector = await plugin.open(source.settings, sourceHost())
  await connector.changes?.release({ capture: known?.name ?? '', signal: AbortSignal.timeout(60_000) })
  await connector.close()
  assert.deepEqual(await source.sql('SELECT slot_name FROM pg_replication_slots'), [])
})
