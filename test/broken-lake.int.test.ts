/**
 * Files and catalog rows of the lake that are broken behind a runtime's back: whoever may know is told which file and
 * snapshot, everybody else that there is one, the rest of the tenant goes on, and the check of the lake finds them all.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, stat, truncate, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { until } from './until.ts'

const run = promisify(execFile)
const LAUNCHER = join(import.meta.dirname, '../runtime/bin/sluice.js')
const TENANT = 'acme'
const ROWS = 1_000

/** What is done to one product's table, and what is to be said of it. */
interface Damage {
  readonly code: string
  /** Of the check of the lake. */
  readonly kind: 'catalog' | 'metadata' | 'manifest_list' | 'manifest' | 'data_file'
  readonly found: string
  /** Which of the table's files is at fault; null where none is. */
  readonly file: RegExp | null
  harm(table: Table): Promise<unknown>
}

interface Table {
  readonly name: string
  readonly folder: string
  fileLike(pattern: RegExp): Promise<string>
  sql(statement: string): Promise<unknown>
}

const METADATA = /^metadata\/.*\.metadata\.json$/
const LIST = /^metadata\/snap-.*\.avro$/
const MANIFEST = /^metadata\/.*-m\.avro$/
const DATA = /^data\/.*\.parquet$/

const write = (pattern: RegExp, text: string) => async (table: Table) => writeFile(await table.fileLike(pattern), text)
const remove = (pattern: RegExp) => async (table: Table) => unlink(await table.fileLike(pattern))

const CORRUPTED = { code: 'lake_file_corrupted', found: 'lake_file_corrupted' }

const DAMAGES: Readonly<Record<string, Damage>> = {
  metadata_garbled: { ...CORRUPTED, kind: 'metadata', file: METADATA, harm: write(METADATA, '{"format-version":') },
  metadata_missing: { ...CORRUPTED, kind: 'metadata', file: METADATA, harm: remove(METADATA) },
  list_garbled: { ...CORRUPTED, kind: 'manifest_list', file: LIST, harm: write(LIST, 'Obj?') },
  list_missing: { ...CORRUPTED, kind: 'manifest_list', file: LIST, harm: remove(LIST) },
  manifest_garbled: { ...CORRUPTED, kind: 'manifest', file: MANIFEST, harm: write(MANIFEST, 'no avro') },
  manifest_missing: { ...CORRUPTED, kind: 'manifest', file: MANIFEST, harm: remove(MANIFEST) },
  data_missing: { ...CORRUPTED, kind: 'data_file', found: 'object_missing', file: DATA, harm: remove(DATA) },
  data_short: {
    ...CORRUPTED,
    kind: 'data_file',
    found: 'object_truncated',
    file: DATA,
    harm: async (table) => truncate(await table.fileLike(DATA), 200),
  },
  data_garbled: {
    ...CORRUPTED,
    kind: 'data_file',
    file: DATA,
    async harm(table) {
      const file = await table.fileLike(DATA)
      const bytes = await readFile(file)
      // The first page, of whatever column: magic, footer and length stay.
      await writeFile(file, bytes.fill(0x5a, 4, Math.min(600, (await stat(file)).size - 600)))
    },
  },
  row_missing: {
    code: 'lake_pointer_missing',
    found: 'lake_pointer_missing',
    kind: 'catalog',
    file: null,
    harm: ({ name, sql }) => sql(`delete from iceberg_tables where table_name = '${name}'`),
  },
  row_foreign: {
    code: 'lake_path_foreign',
    found: 'lake_path_foreign',
    kind: 'metadata',
    file: null,
    harm: ({ name, sql }) =>
      sql(`update iceberg_tables set metadata_location = (select metadata_location from iceberg_tables
        where table_name = 'whole') where table_name = '${name}'`),
  },
}

let folder: string
let data: string
let server: EmbeddedServer
let runtime: RuntimeProcess
let url: string
let developer: Client
let viewer: Client
const snapshots = new Map<string, string>()
const harmed = new Map<string, string | null>()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-broken-lake-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = server.tcpAddress
  const source = new pg.Client({ host, port, user, password, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, md5(i::text) AS city FROM generate_series(1, ${ROWS}) i;
    ALTER TABLE people ADD PRIMARY KEY (id)`)
  await source.end()
  await start()
  const admin = new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: 3600 }))
  await ok(admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'enterprise' }))
  const login = JSON.stringify({ host, port, user, password, database: 'postgres', ssl_mode: 'prefer' })
  await ok(developer.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: login }))
  for (const name of ['whole', 'keeping', ...Object.keys(DAMAGES)]) await deploy(name)
  await sync()
  for (const name of Object.keys(DAMAGES)) {
    const { body } = await developer.get(`/api/v1/products/${name}/snapshots`)
    snapshots.set(name, body.data[0].snapshot_id)
  }
  // What was read before would be remembered.
  await runtime.stop()
  await start()
  for (const [name, damage] of Object.entries(DAMAGES)) {
    const table = tableOf(name)
    harmed.set(name, damage.file === null ? null : (await table.fileLike(damage.file)).slice(data.length))
    await damage.harm(table)
  }
})

after(async () => {
  await runtime?.stop()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null)
  const address = await runtime.address()
  assert.ok(address, runtime.output)
  url = address
  const as = async (user: string, group: string) =>
    new Client(url, await issueToken(data, { tenant: TENANT, groups: [group], user }, { ttlS: 3600 }))
  developer = await as('dora', 'svc-developers')
  viewer = await as('vito', 'svc-viewers')
}

function tableOf(name: string, namespace = 'crm'): Table {
  const place = join(data, 'lake', `sluice-${TENANT}`, TENANT, namespace, name)
  return {
    name,
    folder: place,
    async fileLike(pattern) {
      const names = (await readdir(place, { recursive: true })).filter((file) => pattern.test(file)).sort()
      assert.ok(names.length > 0, `${name} has no ${pattern}`)
      return join(place, names.at(-1) as string)
    },
    sql: (statement) => withDatabase(data, 'sluice_registry', (client) => client.query(statement)),
  }
}

async function deploy(name: string): Promise<void> {
  await ok(developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n'
  const files = manifests('public.people', { columns, endpoints: '  - type: lookup\n' })
  const mode = name === 'keeping' ? 'append' : 'replace'
  const own = {
    ...files,
    product: files.product.replace('name: people', `name: ${name}`),
    output: files.output.replace('write_mode: replace', `write_mode: ${mode}`),
  }
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, own))
  await ok(developer.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false }))
}

async function sync(): Promise<Json> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  return developer.untilEnded(id)
}

const query = (client: Client, name: string) =>
  client.post('/api/v1/query', { sql: `SELECT count(DISTINCT city)::INTEGER, max(id) FROM crm.${name}` })

function assertSaysNothing(text: string): void {
  assert.ok(!text.includes(folder) && !text.includes('file:'), text)
}

describe('a broken lake', () => {
  for (const [name, damage] of Object.entries(DAMAGES)) {
    const place = () => harmed.get(name)?.replace(`/lake/sluice-${TENANT}/`, '') ?? null

    it(`${name}: a query names the file and the snapshot to developers, and to viewers that there is one`, async () => {
      const told = await query(developer, name)
      const { code, table, file, snapshot_id, detail } = told.body
      assert.deepEqual(
        [told.status, code, table, file, snapshot_id],
        [500, damage.code, `crm.${name}`, place(), snapshots.get(name)],
        JSON.stringify(told.body),
      )
      assert.ok(detail.includes(`crm.${name}`) && detail.includes(snapshot_id), detail)
      assertSaysNothing(JSON.stringify(told.body))
      const untold = await query(viewer, name)
      assert.deepEqual([untold.status, untold.body.code], [500, damage.code])
      assert.deepEqual(
        ['table', 'file', 'snapshot_id'].filter((key) => key in untold.body),
        [],
      )
      // Ids of requests are random, and may look like a snapshot's.
      assert.doesNotMatch(JSON.stringify({ ...untold.body, request_id: '' }), /parquet|avro|\.json|\d{10}/)
    })
  }

  it('answers loads of the catalog in its own form, with the same words', async () => {
    for (const name of ['metadata_garbled', 'metadata_missing', 'row_missing', 'row_foreign']) {
      const path = `/iceberg/v1/${TENANT}/namespaces/crm/tables/${name}`
      const told = await developer.get(path)
      assert.equal(told.status, 500, name)
      assert.ok(told.body.error.message.includes(`crm.${name}`), JSON.stringify(told.body))
      assert.ok(told.body.error.message.includes(snapshots.get(name) as string), told.body.error.message)
      assertSaysNothing(JSON.stringify(told.body))
      const untold = await viewer.get(path)
      assert.equal(untold.status, 500)
      assert.ok(!untold.body.error.message.includes(name), JSON.stringify(untold.body))
    }
  })

  it('leaves the rest of the tenant as it was, stores of the same products too', async () => {
    const { status, body } = await query(viewer, 'whole')
    assert.deepEqual([status, body.rows], [200, [[ROWS, ROWS]]])
    for (const name of Object.keys(DAMAGES)) {
      const found = await viewer.get(`/api/v1/products/${name}/latest?filter=id:7`)
      assert.equal(found.status, 200, name)
    }
  })

  it('is found by the check, file by file, over HTTP and by the command', async () => {
    const report = await ok(developer.post('/api/v1/lake/check', {}))
    const problems = Object.fromEntries(report.tables.map((table: Json) => [table.table, table.problems]))
    assert.deepEqual(
      Object.keys(problems).sort(),
      Object.keys(DAMAGES)
        .map((name) => `crm.${name}`)
        .sort(),
    )
    for (const [name, { kind, found, file }] of Object.entries(DAMAGES)) {
      const [problem] = problems[`crm.${name}`]
      assert.deepEqual([problem.kind, problem.code], [kind, found], JSON.stringify(problem))
      if (file !== null)
        assert.equal(`${TENANT}/crm/${name}/${problem.file}`, harmed.get(name)?.split(`sluice-${TENANT}/`)[1])
      if (kind === 'manifest' || kind === 'data_file')
        assert.equal(problem.snapshot_id ?? problem.snapshotId, snapshots.get(name))
    }
    assertSaysNothing(JSON.stringify(report))
    assert.equal((await viewer.post('/api/v1/lake/check', {})).status, 403)
    const token = await issueToken(data, { tenant: TENANT, groups: ['svc-developers'], user: 'dora' }, { ttlS: 600 })
    const env = { ...process.env, SLUICE_URL: url, SLUICE_TOKEN: token }
    const said = await run(process.execPath, [LAUNCHER, 'lake', 'check'], { env }).then(
      () => assert.fail('the check found nothing'),
      (error: { readonly stdout: string; readonly stderr: string }) => error.stdout + error.stderr,
    )
    for (const name of Object.keys(DAMAGES)) assert.ok(said.includes(`crm.${name}`), said)
  })

  it('goes on taking in what is new', async () => {
    await sync()
    const { status, body } = await query(viewer, 'whole')
    assert.deepEqual([status, body.rows], [200, [[ROWS, ROWS]]])
  })

  for (const name of Object.keys(DAMAGES)) {
    it(`${name}: is mended by materializing the product`, async () => {
      const run = await ended(`/api/v1/products/${name}/materialize`)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
      const { status, body } = await query(viewer, name)
      assert.deepEqual([status, body.rows], [200, [[ROWS, ROWS]]], JSON.stringify(body))
    })
  }
})

describe('a connection whose raw table is broken', () => {
  const RAW = 'lake_file_corrupted'

  /** What is remembered of a table that was read is in the process. */
  async function harmedMeanwhile(...harms: readonly (() => Promise<unknown>)[]): Promise<void> {
    await runtime.stop()
    for (const harm of harms) await harm()
    await start()
  }

  it('is left alone by syncs, and by a product that is asked for, since its rows are nowhere else', async () => {
    const keeping = tableOf('keeping')
    await harmedMeanwhile(
      () => remove(METADATA)(tableOf('people', 'raw_db')),
      () => remove(METADATA)(keeping),
    )
    for (const path of ['connections/db/sync', 'products/whole/materialize']) {
      const run = await ended(`/api/v1/${path}`)
      assert.deepEqual([run.state, run.error.code], ['failed', RAW], JSON.stringify(run))
      assert.match(run.error.remedy, /sluice backfill CONNECTION/)
    }
  })

  it('is mended by a backfill, and so are the products that are made of it', async () => {
    const run = await ended('/api/v1/connections/db/backfill', {})
    const states = Object.fromEntries(run.products.map(({ name, state }: Json) => [name, state]))
    assert.deepEqual([states['crm.whole'], states['crm.keeping']], ['succeeded', 'failed'], JSON.stringify(run))
    assert.match(JSON.stringify(run.log), /cannot be read, and is begun anew without its history/)
    const { status, body } = await query(viewer, 'whole')
    assert.deepEqual([status, body.rows], [200, [[ROWS, ROWS]]])
    assert.equal((await ended('/api/v1/products/whole/materialize')).state, 'succeeded')
  })

  it('leaves a product that keeps rows which its inputs may not have any more to its owner', async () => {
    const run = await ended('/api/v1/products/keeping/materialize')
    assert.deepEqual([run.state, run.error.code], ['failed', RAW], JSON.stringify(run))
    assert.match(run.error.remedy, /has to be deleted and deployed again/)
    assert.equal((await developer.send('/api/v1/products/keeping', { method: 'DELETE' })).status, 204)
    await deploy('keeping')
    await until('it is there again', async () => (await query(viewer, 'keeping')).status === 200)
  })
})

async function ended(path: string, body?: unknown): Promise<Json> {
  const { id } = await ok(developer.post(path, body))
  return developer.untilEnded(id)
}
