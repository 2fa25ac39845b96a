/**
 * Connections whose changes are followed, as their users run them: two runtimes over the log of a PostgreSQL under random
 * writers, killed in mid-stream. Nobody asks for a sync; in the end raw tables, products and stores have what the source has.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Answer, Client, type Json, manifests, ok } from '../acceptance/client.ts'
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
  - { name: seen, type: timestamp }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: seen }
  - type: analytics
`
const KEYS = 20
const TABLES = ['people', 'places'] as const

type PlatformDatabases = Awaited<ReturnType<typeof preparePlatformDatabases>>

let folder: string
let source: SourceCluster
let databases: PlatformDatabases
let server: Awaited<ReturnType<typeof startThrowawayServer>>
let objects: Awaited<ReturnType<typeof startVersitygw>>
let config: string
const runtimes: RuntimeProcess[] = []
const ports: number[] = []
let developer: Client

const any = (count: number) => Math.floor(Math.random() * count)

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-continuous-'))
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  server = await startThrowawayServer({ keepsProcessAlive: true })
  const { host, port } = server.tcpAddress
  databases = await preparePlatformDatabases({ ...server.address, host, port }, ROLE_NAMES)
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user}`)
  for (const table of [...TABLES, 'broken']) {
    await source.sql(`CREATE TABLE ${table} (id int PRIMARY KEY, email text, city text, seen timestamp);
      ALTER TABLE ${table} OWNER TO ${user}`)
    await source.sql(`INSERT INTO ${table} SELECT i, 'm' || i, 'Bonn', '2026-01-01' FROM generate_series(1, 8) i`)
  }
  const login = { key: 'sluice', secret: 'for-tests-alone', port: await freePort() }
  objects = await startVersitygw(join(folder, 'lake'), login)
  const endpoint = addressOf(login).SLUICE_TEST_S3_URL
  config = join(folder, 'sluice.yaml')
  const { registry, serving } = databases
  ports.push(await freePort(), await freePort())
  const settings = {
    public_url: `http://127.0.0.1:${ports[0]}`,
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
    object_store: { type: 's3', endpoint, access_key_id: login.key, secret_access_key: login.secret },
  }
  await writeFile(config, JSON.stringify(settings))
  await start(0)
  await start(1)
  const admin = new Client(
    await urlOf(0),
    await issueToken(join(folder, 'secrets'), { role: 'admin' }, { ttlS: 36_000 }),
  )
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
})

after(async () => {
  await Promise.all(runtimes.map((one) => one.stop()))
  await source?.stop()
  await server?.stop()
  await objects?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function urlOf(at: number): Promise<string> {
  assert.ok(await runtimes[at]?.address(), runtimes[at]?.output)
  return `http://127.0.0.1:${ports[at]}`
}

async function start(at: number): Promise<void> {
  runtimes[at] = await RuntimeProcess.spawn(join(folder, `data${at}`), null, ports[at], config)
  const token = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
  developer = new Client(await urlOf(at), await issueToken(join(folder, 'secrets'), token, { ttlS: 36_000 }))
}

async function kill(at: number): Promise<void> {
  runtimes[at]?.kill()
  await runtimes[at]?.ended
}

async function deploy(name: string, quality?: string): Promise<void> {
  const texts = manifests(name === 'pushed' ? name : `public.${name}`, { endpoints: ENDPOINTS, columns: COLUMNS })
  const inputs =
    name === 'pushed'
      ? texts.inputs.replace('connection: db', 'connection: in').replace(', mode: full', '')
      : texts.inputs.replace('mode: full', 'mode: cdc')
  const files = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    inputs,
    ...(quality === undefined ? {} : { quality }),
  }
  await ok(developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  await ok(developer.upload(`/api/v1/products/${name}/manifests`, files))
  const path = `/api/v1/products/${name}/deploy`
  const plan = await ok(developer.post(path, { version: '1.0.0', dry_run: true }))
  await ok(developer.post(path, { version: '1.0.0', dry_run: false, digest: plan.digest }))
}

const DEADLOCK = '40P01'

/** A transaction of some statements on both tables; keys move into the second half and back. */
async function write(): Promise<void> {
  const statements = Array.from({ length: 1 + any(5) }, () => {
    const [id, table] = [1 + any(KEYS), TABLES[any(2)]]
    const values = `${id}, 'm${any(99)}', 'c${any(9)}', '2026-01-01'::timestamp + ${any(1000)} * interval '1 s'`
    return [
      `INSERT INTO ${table} VALUES (${values}) ON CONFLICT (id) DO UPDATE SET city = excluded.city, seen = excluded.seen`,
      `UPDATE ${table} SET city = 'c${any(9)}' WHERE id = ${id}`,
      `DELETE FROM ${table} WHERE id = ${id}`,
      `UPDATE ${table} SET id = ${id + KEYS} WHERE id = ${id} AND NOT EXISTS (SELECT FROM ${table} o WHERE o.id = ${id + KEYS})`,
    ][any(4)]
  })
  const transaction = `BEGIN; ${statements.join('; ')}; ${any(8) === 0 ? 'ROLLBACK' : 'COMMIT'}`
  await source.sql(transaction).catch((error: { readonly code?: string }) => {
    // Of two writers that wait for each other PostgreSQL takes one back: nothing of it is there.
    if (error.code !== DEADLOCK) throw error
  })
}

/** Random writers until they are told to stop. */
function writers(): () => Promise<void> {
  let isOver = false
  const all = [1, 2].map(async () => {
    while (!isOver) {
      await write()
      await sleep(any(60))
    }
  })
  return async () => {
    isOver = true
    await Promise.all(all)
  }
}

const sortedTexts = (rows: readonly Json[]) => rows.map((row) => JSON.stringify(Object.values(row))).toSorted()

async function shown(name: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const query = async (table: string) => {
    const { rows } = await ok(developer.post('/api/v1/query', { sql: `SELECT id, city FROM ${table}` }))
    return sortedTexts(rows)
  }
  const read = async (way: string) => {
    const rows: Json[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const page: Json = await ok(developer.get(`/api/v1/products/${name}/${way}?limit=1000&columns=id,city${more}`))
      rows.push(...page.data)
      cursor = page.next_cursor ?? null
    }
    return sortedTexts(rows)
  }
  return { analytics: await query(`crm.${name}`), lookup: await read('latest'), timeseries: await read('timeseries') }
}

/** All that the source has, and nothing else, on every way to read it. Nobody asks for anything. */
async function becomesSource(tables: readonly string[] = TABLES): Promise<void> {
  for (const table of tables) {
    const wanted = sortedTexts(await source.sql(`SELECT id, city FROM ${table}`))
    let seen: unknown = null
    await until(
      () => `${table} has what the source has: ${JSON.stringify({ wanted, seen })}`,
      async () => {
        // A product has no rows to show before its first epoch.
        const found = await shown(table).catch((error: Error) => ({ failed: [error.message] }))
        seen = found
        return Object.values(found).every((rows) => JSON.stringify(rows) === JSON.stringify(wanted))
      },
    )
  }
}

const connection = () => ok(developer.get('/api/v1/connections/db'))
const runsNow = async () => Number((await registryCount('runs')) ?? 0)

async function registryCount(table: string): Promise<number> {
  const client = new pg.Client({ connectionString: formatAddress(databases.registry) })
  await client.connect()
  try {
    return Number((await client.query(`select count(*) from ${table}`)).rows[0].count)
  } finally {
    await client.end()
  }
}

const follows = () => until('it is followed', async () => (await connection()).following?.since !== null)

it('a schedule that is continuous reads tables that are deployed, and what changes in them', async () => {
  const { host, port, password, user, database } = source.settings
  const login = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  const made: Answer = await developer.post('/api/v1/connections', {
    name: 'db',
    connector_type: 'postgresql',
    config_encrypted: login,
    schedule: { continuous: { max_delay: '200ms' } },
  })
  assert.deepEqual(made.body.schedule, { continuous: { max_delay: '200ms' } }, JSON.stringify(made.body))
  for (const table of TABLES) await deploy(table)
  await becomesSource()
  const stop = writers()
  await sleep(5_000)
  await stop()
  await becomesSource()
})

it('where nothing changes there is no run and no epoch', async () => {
  await follows()
  const before = [await runsNow(), await registryCount('materializations')]
  // Others' work in the log is not a change.
  await source.sql('CREATE TABLE others AS SELECT generate_series(1, 1000) i')
  await sleep(8_000)
  assert.deepEqual([await runsNow(), await registryCount('materializations')], before)
  assert.equal((await connection()).following.lag_s, 0)
})

it('runtimes that are killed in mid-stream lose, repeat and mix nothing', async () => {
  const stop = writers()
  for (let round = 0; round < 4; round += 1) {
    await sleep(1_000 + any(3_000))
    await kill(round % 2)
    await sleep(any(2_000))
    if (round === 2) await kill(1)
    if (round === 2) await start(1)
    await start(round % 2)
  }
  await sleep(2_000)
  await stop()
  await becomesSource()
})

it('a source that goes away and comes back is followed again', async () => {
  const stop = writers()
  await sleep(1_000)
  await stop()
  await source.restart(() => sleep(5_000).then(() => undefined))
  await write()
  await becomesSource()
  await follows()
})

it('a product that fails holds no other up, and is made when it can be', async () => {
  const quality = 'apiVersion: svc/v1\nkind: Quality\nchecks:\n  - name: city_known\n    not_null: [city]\n'
  await deploy('broken', quality)
  await becomesSource([...TABLES, 'broken'])
  await source.sql(
    'UPDATE broken SET city = NULL WHERE id = 1; UPDATE people SET city = $$while$$ WHERE id = (SELECT min(id) FROM people)',
  )
  await until('it waits for another try', async () => (await connection()).following.held === 1)
  await source.sql('UPDATE places SET city = $$meanwhile$$ WHERE id = (SELECT min(id) FROM places)')
  await becomesSource()
  await source.sql('UPDATE broken SET city = $$known$$ WHERE id = 1')
  await becomesSource([...TABLES, 'broken'])
  await until('nothing waits', async () => (await connection()).following.held === 0)
})

it('rows that are pushed are applied as they come, too', async () => {
  const columns = Object.entries({ id: 'integer', email: 'string', city: 'string', seen: 'timestamp' })
  const table = { columns: columns.map(([name, type]) => ({ name, type })), primary_key: ['id'] }
  const settings = JSON.stringify({ tables: { pushed: table } })
  const schedule = { continuous: { max_delay: '200ms' } }
  await ok(
    developer.post('/api/v1/connections', { name: 'in', connector_type: 'push', config_encrypted: settings, schedule }),
  )
  await deploy('pushed')
  for (let round = 1; round <= 3; round += 1) {
    const rows = [
      { id: round, city: 'c' },
      { id: 9, city: `c${round}` },
    ]
    await ok(developer.post('/api/v1/connections/in/events?table=pushed', rows))
    await until('what was pushed is shown', async () => {
      const { lookup } = await shown('pushed').catch(() => ({ lookup: [] as readonly string[] }))
      return lookup?.includes(JSON.stringify([9, `c${round}`])) === true && lookup.length === round + 1
    })
  }
})

it('without the schedule nothing is followed any more', async () => {
  await ok(
    developer.send('/api/v1/connections/db', {
      method: 'PATCH',
      body: JSON.stringify({ schedule: null }),
      headers: { 'content-type': 'application/json' },
    }),
  )
  assert.equal((await connection()).following, null)
  await until('no session waits at the source', async () => {
    const rows = await source.sql("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice %'")
    return rows.length === 0
  })
  const before = await runsNow()
  await write()
  await sleep(3_000)
  assert.equal(await runsNow(), before)
})
