/**
 * A lake that is away while its sources go on, as their users run it: a PostgreSQL under load, a runtime that follows it and is
 * killed, an object store that is stopped. The source may forget what was written meanwhile; when the lake is back, the product has what
 * the source has, and no table was read again.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { formatAddress } from '../runtime/src/database/address.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { preparePlatformDatabases, ROLE_NAMES } from '../runtime/src/database/roles.ts'
import { startThrowawayServer } from '../runtime/src/database/testing.ts'
import { addressOf, startVersitygw } from '../stack/servers/versitygw.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { until } from './until.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: note, type: string }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: analytics
`
const MIB = 1024 ** 2
/** What the source may retain at most, however long the lake is away. */
const MOST_RETAINED = 64 * MIB
const WRITTEN = 200 * MIB

let folder: string
let source: SourceCluster
let databases: Awaited<ReturnType<typeof preparePlatformDatabases>>
let server: Awaited<ReturnType<typeof startThrowawayServer>>
let objects: Awaited<ReturnType<typeof startVersitygw>>
let login: { readonly key: string; readonly secret: string; readonly port: number }
let config: string
let port: number
let runtime: RuntimeProcess | null = null
let developer: Client
let admin: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lake-away-'))
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  server = await startThrowawayServer({ keepsProcessAlive: true })
  const { host, port: registryPort } = server.tcpAddress
  databases = await preparePlatformDatabases({ ...server.address, host, port: registryPort }, ROLE_NAMES)
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};
    CREATE TABLE people (id int PRIMARY KEY, email text, city text, note text); ALTER TABLE people OWNER TO ${user};
    INSERT INTO people SELECT i, 'm' || i, 'Bonn', 'first' FROM generate_series(1, 2000) i`)
  login = { key: 'sluice', secret: 'for-tests-alone', port: await freePort() }
  objects = await startVersitygw(join(folder, 'lake'), login)
  port = await freePort()
  config = join(folder, 'sluice.yaml')
  const { registry, serving } = databases
  const settings = {
    public_url: `http://127.0.0.1:${port}`,
    upkeep: { compare_minutes: 0 },
    limits: { lease_ms: 3_000 },
    secrets_dir: join(folder, 'secrets'),
    network: { allow_loopback: true },
    database: {
      registry_url: formatAddress(registry),
      serving_owner_url: formatAddress(serving.owner),
      serving_writer_url: formatAddress(serving.writer),
      serving_reader_url: formatAddress(serving.reader),
    },
    object_store: {
      ...{ type: 's3', endpoint: addressOf(login).SLUICE_TEST_S3_URL },
      ...{ access_key_id: login.key, secret_access_key: login.secret },
    },
  }
  await writeFile(config, JSON.stringify(settings))
  await start(null)
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
  await connect()
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await server?.stop()
  await objects?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(fault: string | null): Promise<void> {
  runtime = await RuntimeProcess.spawn(join(folder, 'data'), fault, port, config)
  assert.ok(await runtime.address(), runtime.output)
  const url = `http://127.0.0.1:${port}`
  const token = (claims: Parameters<typeof issueToken>[1]) =>
    issueToken(join(folder, 'secrets'), claims, { ttlS: 36_000 })
  developer = new Client(url, await token({ tenant: 'acme', groups: ['svc-developers'], user: 'dora' }))
  admin = new Client(url, await token({ role: 'admin' }))
}

async function connect(): Promise<void> {
  const { host, port: at, password, user, database } = source.settings
  await ok(
    developer.post('/api/v1/connections', {
      name: 'db',
      connector_type: 'postgresql',
      config_encrypted: JSON.stringify({ host, port: at, user, password, database, ssl_mode: 'prefer' }),
      schedule: { continuous: { max_delay: '200ms' } },
    }),
  )
  const texts = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
  const files = { ...texts, inputs: texts.inputs.replace('mode: full', 'mode: cdc') }
  const product = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
  await ok(developer.post('/api/v1/products', product))
  await ok(developer.upload('/api/v1/products/people/manifests', files))
  const path = '/api/v1/products/people/deploy'
  const plan = await ok(developer.post(path, { version: '1.0.0', dry_run: true }))
  await ok(developer.post(path, { version: '1.0.0', dry_run: false, digest: plan.digest }))
}

const asAdmin = { 'x-tenant-id': 'acme' }
const connection = () => ok(developer.get('/api/v1/connections/db'))

async function retained(): Promise<number> {
  const [row] = await source.sql('SELECT (pg_current_wal_lsn() - restart_lsn)::text AS bytes FROM pg_replication_slots')
  return Number(row?.['bytes'])
}

async function writtenSince(lsn: string): Promise<number> {
  const [row] = await source.sql(`SELECT (pg_current_wal_lsn() - '${lsn}'::pg_lsn)::text AS bytes`)
  return Number(row?.['bytes'])
}

const any = (count: number) => Math.floor(Math.random() * count)

/** Some MB of the log: rows that change, come, go and change their key. */
async function write(): Promise<void> {
  const from = 1 + any(1900)
  await source.sql(`BEGIN;
    UPDATE people SET note = (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 30)), city = 'c' || ${any(99)}
      WHERE id BETWEEN ${from} AND ${from + 400};
    DELETE FROM people WHERE id = ${from + 7};
    INSERT INTO people VALUES (${from + 7}, 'new', 'Köln', 'n') ON CONFLICT DO NOTHING;
    DELETE FROM people WHERE id = ${3000 + any(50)};
    UPDATE people SET id = ${3000 + any(50)} WHERE id = ${from + 9} AND NOT EXISTS (SELECT FROM people WHERE id >= 3000);
    COMMIT`)
}

/** So much of the source's log; at no moment it retains more than it may. */
async function writeMuch(bytes: number): Promise<void> {
  const [row] = await source.sql('SELECT pg_current_wal_lsn()::text AS lsn')
  while ((await writtenSince(String(row?.['lsn']))) < bytes) {
    await write()
    assert.ok((await retained()) < MOST_RETAINED)
    // As under a load that goes on for longer: what has been written is taken up before much more comes.
    if ((await retained()) > MOST_RETAINED / 2) await takenUp()
  }
}

const takenUp = () =>
  until('the source has let go of what was written', async () => (await retained()) < MOST_RETAINED / 8)

const sortedTexts = (rows: readonly Json[]) => rows.map((row) => JSON.stringify(Object.values(row))).toSorted()

async function becomesSource(): Promise<void> {
  const wanted = sortedTexts(await source.sql('SELECT id, city, md5(note) FROM people'))
  await until('the product has what the source has', async () => {
    const asked = { sql: 'SELECT id, city, md5(note) FROM crm.people' }
    const { rows } = await ok(developer.post('/api/v1/query', asked)).catch(() => ({ rows: [] }))
    return JSON.stringify(sortedTexts(rows)) === JSON.stringify(wanted)
  })
}

async function registryRows(text: string): Promise<readonly Json[]> {
  const client = new pg.Client({ connectionString: formatAddress(databases.registry) })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

it('while the lake is away the source keeps little, and the lake has all of it when it is back', async () => {
  await becomesSource()
  await objects.stop()
  await writeMuch(WRITTEN)
  await takenUp()
  const { log, schedule_state: state } = await connection()
  assert.ok(log.spooled.bytes > 0 && log.spooled.since !== null, JSON.stringify(log))
  assert.equal(log.generation, 1)
  assert.equal(state.breaker, 'closed', 'it is tried again soon')
  const { text: metrics } = await admin.text('/metrics')
  assert.match(metrics, /^sluice_log_spool_bytes [1-9]/m)
  objects = await startVersitygw(join(folder, 'lake'), login)
  await becomesSource()
  await until('nothing waits', async () => (await connection()).log.spooled.pieces === 0)
  assert.deepEqual((await connection()).log.spooled, { bytes: 0, pieces: 0, since: null, full_since: null })
  assert.deepEqual(await registryRows('select from log_parts'), [])
})

it('a runtime that is killed where a log is taken up, or given to the lake, loses and repeats nothing', async () => {
  for (const fault of ['log.keeping@1', 'log.kept@2', 'log.kept-acknowledged@1']) {
    await runtime?.stop()
    await objects.stop()
    await start(fault)
    for (let at = 0; at < 3; at += 1) await write()
    await until('it is killed', async () => {
      await write()
      return runtime?.isEnded === true
    })
    await start(null)
    await write()
    await takenUp()
    objects = await startVersitygw(join(folder, 'lake'), login)
    await becomesSource()
  }
  for (const fault of ['log.unpacked@1', 'log.applied@1', 'log.committed@1']) {
    await objects.stop()
    await write()
    await until('it waits', async () => (await connection()).log.spooled.pieces > 0)
    await runtime?.stop()
    objects = await startVersitygw(join(folder, 'lake'), login)
    await start(fault)
    await until('it is killed', () => runtime?.isEnded === true)
    await start(null)
    await becomesSource()
  }
  const [{ generation } = {}] = await registryRows('select generation from captures')
  assert.equal(generation, 1, 'no table was read whole again')
})

it('a row that is erased while it waits for the lake is nowhere in what waits', async () => {
  await becomesSource()
  await objects.stop()
  await source.sql("INSERT INTO people VALUES (9001, 'erase', 'me', 'please')")
  await until('it waits', async () => (await connection()).log.spooled.pieces > 0)
  // Nobody is to take it before the erasure does.
  const headers = { 'content-type': 'application/json' }
  const none = { method: 'PATCH', body: JSON.stringify({ schedule: null }), headers }
  await ok(developer.send('/api/v1/connections/db', none))
  const open = "select from runs where state in ('queued', 'running')"
  await until('no run is under way', async () => (await registryRows(open)).length === 0)
  await source.sql('DELETE FROM people WHERE id = 9001')
  assert.ok((await registryRows('select from log_parts')).length > 0)
  objects = await startVersitygw(join(folder, 'lake'), login)
  const asked = { table: 'public.people', key: { id: '9001' }, expire_history: true }
  await ok(admin.post('/api/v1/connections/db/erasures', asked, asAdmin))
  await until('the erasure has ended', async () => {
    const [run] = await registryRows("select state from runs where input ? 'erasure'")
    return run?.state === 'succeeded'
  })
  assert.deepEqual(await registryRows('select from log_parts'), [])
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  await becomesSource()
  assert.equal((await connection()).log.spooled.pieces, 0)
})
