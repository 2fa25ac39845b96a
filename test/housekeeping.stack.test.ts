/**
 * Upkeep by the clock, in a runtime as users run it: small files become fewer, snapshots that retention lets go leave,
 * files that nothing reaches are removed, and the past that is kept answers as it did. So that hours need not pass, the
 * lake is made older between two lives of the runtime: every time in its metadata, and of its files.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, personOf, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'

const TENANT = 'acme'
const EPOCHS = 9
const ROWS_AN_EPOCH = 10
const KEPT = 3
const HOUR_MS = 3_600_000
/** The loop looks every half minute; a busy machine takes its time. */
const UPKEEP_MS = 480_000

let folder: string
let data: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let developer: Client
/** Oldest first. */
let epochs: readonly string[]

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-housekeeping-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new pg.Client({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query('CREATE TABLE log (id integer PRIMARY KEY, city text)')
  await configure({ compact_minutes: 0, expire_minutes: 0, clean_minutes: 0 })
  await start()
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'log')
  await uploadAndDeploy(developer, 'log', files())
  for (let epoch = 0; epoch < EPOCHS; epoch += 1) await grow(epoch)
  const { body } = await developer.get('/api/v1/products/log/snapshots?limit=100')
  epochs = body.data.map((one: Json) => one.snapshot_id).reverse()
  assert.equal(epochs.length, EPOCHS)
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

const configure = (upkeep: Readonly<Record<string, number>>) =>
  writeFile(join(folder, 'sluice.yaml'), JSON.stringify({ upkeep }))

async function start(): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, join(folder, 'sluice.yaml'))
  const url = await servedAt(runtime)
  const admin = await adminOf({ url, data })
  const { status } = await admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'enterprise' })
  assert.ok(status === 201 || status === 409, String(status))
  developer = await personOf({ url, data }, 'dora', { tenant: TENANT })
}

function files() {
  const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n'
  const made = manifests('public.log', { columns, endpoints: '  - type: lookup\n' })
  return {
    ...made,
    product: made.product.replace('name: people', 'name: log'),
    output: `${made.output.replace('write_mode: replace', 'write_mode: append')}retention: { keep_last: ${KEPT} }\n`,
  }
}

async function grow(epoch: number): Promise<void> {
  await source.query(`INSERT INTO log SELECT i, 'city ' || i FROM generate_series($1::integer, $2::integer) i`, [
    epoch * ROWS_AN_EPOCH + 1,
    (epoch + 1) * ROWS_AN_EPOCH,
  ])
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(id)).state, 'succeeded')
}

const tableFolder = (domain: string, table: string) => join(data, 'lake', `sluice-${TENANT}`, TENANT, domain, table)

/** Everything of the lake happened that much earlier. */
async function makeOlder(ms: number): Promise<void> {
  const root = join(data, 'lake', `sluice-${TENANT}`)
  for (const name of await readdir(root, { recursive: true })) {
    const file = join(root, name)
    const found = await stat(file)
    if (!found.isFile()) continue
    if (name.endsWith('.metadata.json')) {
      const earlier = (_: string, key: string, at: string) => `"${key}":${Number(at) - ms}`
      await writeFile(
        file,
        (await readFile(file, 'utf8')).replace(/"(timestamp-ms|last-updated-ms)":\s*(\d+)/g, earlier),
      )
    }
    await utimes(file, new Date(found.mtimeMs - ms), new Date(found.mtimeMs - ms))
  }
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + UPKEEP_MS; Date.now() < deadline; await sleep(500)) if (await holds()) return
  assert.fail(`${what}: not by now\n${runtime.output}`)
}

async function snapshots(): Promise<readonly Json[]> {
  const { metadata } = await ok(developer.get(`/iceberg/v1/${TENANT}/namespaces/crm/tables/log`))
  return metadata.snapshots
}

const countAsOf = (asOf?: string) =>
  developer.post('/api/v1/query', {
    sql: 'SELECT count(*)::INTEGER FROM crm.log',
    ...(asOf === undefined ? {} : { as_of: asOf }),
  })

async function assertPast(): Promise<void> {
  for (const [at, epoch] of epochs.entries()) {
    if (at < EPOCHS - KEPT) continue
    const { status, body } = await countAsOf(epoch)
    assert.deepEqual([status, body.rows], [200, [[(at + 1) * ROWS_AN_EPOCH]]], `epoch ${at + 1}`)
  }
  assert.deepEqual((await countAsOf()).body.rows, [[EPOCHS * ROWS_AN_EPOCH]])
}

const dataFiles = async (domain: string, table: string) =>
  (await readdir(join(tableFolder(domain, table), 'data'))).length

describe('upkeep by the clock', () => {
  it('does nothing where it is switched off', async () => {
    assert.equal((await snapshots()).length, EPOCHS)
    assert.equal(await dataFiles('crm', 'log'), EPOCHS)
  })

  it('compacts, expires and cleans, and keeps what retention keeps', async () => {
    await runtime.stop()
    await configure({
      compact_minutes: 1,
      expire_minutes: 1,
      clean_minutes: 1,
      clean_min_age_hours: 1,
      raw_keep_last: 1,
      raw_keep_days: 1,
    })
    await makeOlder(48 * HOUR_MS)
    const orphans = ['old', 'young'].map((name) => join(tableFolder('crm', 'log'), 'data', `${name}.parquet`))
    const [old = '', young = ''] = orphans
    for (const orphan of orphans) await writeFile(orphan, 'left by a writer that died')
    await utimes(old, new Date(Date.now() - 2 * HOUR_MS), new Date(Date.now() - 2 * HOUR_MS))
    await start()
    await until('compaction', async () =>
      (await snapshots()).some(({ summary }) => summary['sluice.upkeep'] === 'compact'),
    )
    await until('expiry', async () => (await snapshots()).length <= KEPT + 2)
    await until('cleaning', async () => !existsSync(old))
    assert.ok(existsSync(young), 'a young file may be of a commit that is under way')
    const compacted = (await snapshots()).at(-1)
    assert.equal(compacted.summary['total-data-files'], '1')
    await assertPast()
    const gone = await countAsOf(epochs[1])
    assert.deepEqual([gone.status, gone.body.code], [gone.status, 'snapshot_not_found'])
  })

  it('removes the files of what has expired when nobody can read them any more', async () => {
    const before = await dataFiles('raw_db', 'log')
    assert.ok(before >= EPOCHS, `${before} files of the raw table`)
    await runtime.stop()
    await makeOlder(3 * HOUR_MS)
    await start()
    await until('cleaning', async () => (await dataFiles('raw_db', 'log')) < 3)
    await assertPast()
    await grow(EPOCHS)
    assert.deepEqual((await countAsOf()).body.rows, [[(EPOCHS + 1) * ROWS_AN_EPOCH]])
  })

  it('forgets epochs that no snapshot is left of, and nothing is answered otherwise for it', async () => {
    const numbered = () =>
      withDatabase(data, 'sluice_registry', async (client) => {
        const all = 'SELECT epoch::int FROM materializations WHERE epoch IS NOT NULL ORDER BY epoch'
        return (await client.query<{ readonly epoch: number }>(all)).rows.map(({ epoch }) => epoch)
      })
    const [known, moment] = [await numbered(), new Date().toISOString()]
    assert.equal(known.length, EPOCHS + 1)
    const former = await Promise.all([countAsOf(epochs[1]), countAsOf(moment), countAsOf(epochs.at(-1))])
    await runtime.stop()
    await configure({ compact_minutes: 0, expire_minutes: 1, clean_minutes: 1, clean_min_age_hours: 1, run_days: 1 })
    await makeOlder(72 * HOUR_MS)
    await start()
    await withDatabase(data, 'sluice_registry', async (client) => {
      // Of those that the lake still has it would say that the registry is an old one.
      const older = "UPDATE materializations SET committed_at = committed_at - interval '72 hours' WHERE epoch <= $1"
      await client.query(older, [EPOCHS - KEPT])
    })
    await until('forgetting', async () => (await numbered()).length < known.length)
    const left = await numbered()
    assert.deepEqual([left[0], left.at(-1)], [known[0], known.at(-1)])
    const now = await Promise.all([countAsOf(epochs[1]), countAsOf(moment), countAsOf(epochs.at(-1))])
    assert.deepEqual(
      now.map(({ status, body }) => [status, body.code, body.rows]),
      former.map(({ status, body }) => [status, body.code, body.rows]),
    )
  })

  it('does not wait for what a run had staged when it was cancelled', async () => {
    await registerProduct(developer, 'pair')
    const texts = files()
    const paired = '  - { name: source, connection: db, table: public.log, mode: full }\n'
    const uploaded = await developer.upload('/api/v1/products/pair/manifests', {
      ...texts,
      product: texts.product.replace('name: log', 'name: pair'),
      inputs: `${texts.inputs}${paired.replace('source', 'other').replace('public.log', 'public.other')}`,
      compute: `${texts.compute}transform: |\n  SELECT id, city FROM source JOIN other USING (id)\n`,
    })
    assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
    await source.query('CREATE TABLE other AS SELECT id FROM log; ALTER TABLE other ADD PRIMARY KEY (id)')
    await ok(developer.post('/api/v1/products/pair/deploy', { version: '1.0.0', dry_run: false }))
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    await source.query('BEGIN; LOCK TABLE other')
    const { id: stuck } = await ok(developer.post('/api/v1/connections/db/sync'))
    await until('reading of the table that is locked', async () => {
      const { tables } = await ok(developer.get(`/api/v1/ingestion/${stuck}`))
      return tables.some((table: Json) => table.name === 'public.other' && table.state === 'running')
    })
    const leases = () =>
      withDatabase(data, 'sluice_registry', async (client) => {
        const { rows } = await client.query('SELECT table_name FROM lake_writes ORDER BY table_name')
        return rows.map(({ table_name }) => table_name)
      })
    assert.ok((await leases()).includes('log'), 'the table before it is staged, and keeps upkeep away')
    await ok(developer.post(`/api/v1/ingestion/${stuck}/cancel`))
    assert.equal((await developer.untilEnded(stuck)).state, 'cancelled')
    await source.query('ROLLBACK')
    await until('end of the leases', async () => (await leases()).length === 0)
  })
})
