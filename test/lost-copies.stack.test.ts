/**
 * What happens to stores behind a runtime's back: emptied, an older copy put back, another installation's copy put in
 * their place, the whole data folder moved. Readers get the right rows or none, product and readiness say what was found,
 * and the lake makes all of it whole again.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type pg from 'pg'
import { Client as Source } from 'pg'
import { type Answer, type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: at }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: at, type: timestamptz, role: time, nullable: false }
  - { name: city, type: string }
`
const READS = {
  lookup: (client: Client) => client.get('/api/v1/products/people/latest?filter=id:7'),
  timeseries: (client: Client) =>
    client.get('/api/v1/products/people/timeseries?from=2024-01-07&to=2024-01-07T12:00:00Z'),
  realtime: (client: Client) => client.get('/api/v1/products/people/realtime?key=7'),
  analytics: (client: Client) => client.post('/api/v1/query', { sql: 'SELECT city FROM crm.people WHERE id = 7' }),
}
/** As long as a product that was loaded is kept, and a little more for a slow machine. */
const LOADED_FOR_MS = 30_000
const FOLDERS = { realtime: 'stores/realtime-lmdb', analytics: 'stores/analytics-duckdb' }
/** Schemas of the store in PostgreSQL: its register, the tables by namespace, their partitions. */
const SCHEMAS = `select nspname as name from pg_namespace where nspname !~ '^(pg_|information_schema|public$)'`

let folder: string
let data: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lost-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, timestamptz '2024-01-01Z' + (i - 1) * interval '1 day' AS at,
    'foreign' AS city FROM generate_series(1, 20) i; ALTER TABLE people ADD PRIMARY KEY (id)`)
  await start()
  const admin = await adminOf({ url, data })
  await makeTenant(admin)
  await connectSource(developer, server.tcpAddress)
  // Epoch 1 of a product that has the same name, and is another one.
  await makeProduct()
  await keep('foreign')
  await ok(developer.send('/api/v1/products/people', { method: 'DELETE' }))
  await source.query(`UPDATE people SET city = 'older'`)
  await makeProduct()
  await keep('older')
  await source.query(`UPDATE people SET city = 'right'`)
  await sync()
  for (const read of Object.values(READS))
    await until('the first reads are right', async () => cityOf(await read(developer)) === 'right')
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(configFile?: string): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, configFile)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
}

async function makeProduct(): Promise<void> {
  const files = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
  await ok(
    developer.post('/api/v1/products', {
      name: 'people',
      namespace: 'crm',
      archetype: 'source_aligned',
      description: '',
    }),
  )
  await ok(developer.upload('/api/v1/products/people/manifests', files))
  const { run_id: run } = await ok(
    developer.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false }),
  )
  if (run) await developer.untilEnded(run)
  await sync()
}

async function sync(): Promise<void> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

const serving = <T>(work: (client: pg.Client) => Promise<T>) => withDatabase(data, 'sluice_serving', work)

/** Stops the runtime, keeps a copy of what the stores have, and starts it again. */
async function keep(name: string): Promise<void> {
  await serving(async (client) => {
    await client.query(`create schema kept_${name}`)
    await client.query(`create table kept_${name}.datasets as select * from sluice_store.datasets`)
    const { rows } = await client.query(`select partition from sluice_store.datasets where partition is not null`)
    for (const { partition } of rows) {
      await client.query(`create table kept_${name}."${partition}" as select * from sluice_partitions."${partition}"`)
    }
  })
  await runtime.stop()
  for (const path of Object.values(FOLDERS)) await cp(join(data, path), join(folder, name, path), { recursive: true })
  await start()
}

async function emptyDatabase(): Promise<void> {
  await serving(async (client) => {
    const { rows } = await client.query(`${SCHEMAS} and nspname !~ '^kept_'`)
    for (const { name } of rows) await client.query(`drop schema "${name}" cascade`)
  })
}

/** As a dump that is loaded puts it: the register's lines and the rows of then, in the places of now. */
async function putBack(name: string): Promise<void> {
  await serving(async (client) => {
    const { rows } = await client.query(
      `select now.partition as now, old.partition as old from sluice_store.datasets now join kept_${name}.datasets old
       using (tenant_id, domain, product, variant, endpoint) where now.partition is not null and old.partition is not null`,
    )
    for (const { now, old } of rows) {
      await client.query(`delete from sluice_partitions."${now}"`)
      await client.query(`insert into sluice_partitions."${now}" select * from kept_${name}."${old}"`)
    }
    await client.query(
      `update sluice_store.datasets now set epoch = old.epoch, committed_at = old.committed_at, fence = old.fence
       from kept_${name}.datasets old where (now.tenant_id, now.domain, now.product, now.variant, now.endpoint)
         = (old.tenant_id, old.domain, old.product, old.variant, old.endpoint)`,
    )
  })
}

/** The one city of an answer, in whatever form rows come. */
const cityOf = ({ status, body }: Answer) => {
  const cities = JSON.stringify(body.data ?? body.rows ?? []).match(/foreign|older|right/g) ?? []
  return status === 200 ? [...new Set(cities)].join() : null
}

/** Right or refused, from the first read on; in the end right everywhere. Resolves to what was refused with. */
async function untilRight(wrongForMs = 0): Promise<ReadonlySet<string>> {
  const refused = new Set<string>()
  const wrongUntilMs = performance.now() + wrongForMs
  const last = new Map<string, string>()
  await until(`all stores are right again: ${[...last]}`, async () => {
    let right = 0
    for (const [type, read] of Object.entries(READS)) {
      const answer = await read(developer)
      last.set(type, JSON.stringify(answer.body))
      if (answer.status === 200) {
        // What was loaded before the change is kept for moments; whatever is loaded after it is right.
        if (cityOf(answer) !== 'right' && performance.now() < wrongUntilMs) return false
        assert.equal(cityOf(answer), 'right', `${type}: ${JSON.stringify(answer.body)}`)
      } else {
        assert.ok(answer.status < 500 || answer.status === 503, `${type}: ${JSON.stringify(answer.body)}`)
        refused.add(`${type} ${answer.body.code}`)
      }
      right += answer.status === 200 ? 1 : 0
    }
    return right === Object.keys(READS).length
  })
  // A store serves what it has been given again a moment before it is written down that it has it.
  await until('the product says that it is deployed and every endpoint ok', async () => {
    const { status, endpoints } = await ok(developer.get('/api/v1/products/people'))
    return [status, ...endpoints.map((one: Json) => one.state)].join() === 'deployed,ok,ok,ok,ok'
  })
  const readiness = async () =>
    ((await (await fetch(`${url}/readyz`)).json()) as Json).checks.find((one: Json) => one.name === 'copies').state
  await until('readiness says so', async () => (await readiness()) === 'ok')
  return refused
}

describe('stores that were changed behind the back of the runtime', () => {
  for (const what of ['emptied', 'older', 'foreign'] as const) {
    it(`before its start: ${what}`, async () => {
      await (what === 'emptied' ? emptyDatabase() : putBack(what))
      await runtime.stop()
      for (const path of Object.values(FOLDERS)) {
        await rm(join(data, path), { recursive: true })
        if (what !== 'emptied') await cp(join(folder, what, path), join(data, path), { recursive: true })
      }
      await start()
      // Of the first copy at least: whoever builds it anew looks at the product's others as well, and mends them unsaid.
      const told = until('it was told', () => runtime.output.includes('lost its copy'))
      await Promise.all([untilRight(), told])
    })

    it(`in its database, while it runs: ${what}`, async () => {
      await (what === 'emptied' ? emptyDatabase() : putBack(what))
      const refused = await untilRight()
      assert.match([...refused].join(), /lookup store_rebuilding/)
    })
  }

  it('the file of its realtime values cut off, before its start', async () => {
    await runtime.stop()
    const file = join(data, FOLDERS.realtime, 'lmdb/data/data.mdb')
    await truncate(file, Math.floor((await stat(file)).size / 2))
    await start()
    const told = until('it was told', () => /realtime store cannot be read; it is made anew/.test(runtime.output))
    await Promise.all([untilRight(), told])
  })

  it('the file of its realtime values emptied, while it runs', async () => {
    await truncate(join(data, FOLDERS.realtime, 'lmdb/data/data.mdb'), 0)
    const told = until('it was told', () => /realtime store was cut off.*; it is made anew/.test(runtime.output))
    await Promise.all([untilRight(), told])
    assert.ok(!runtime.isEnded)
  })

  it('a table of its database dropped, while it runs', async () => {
    await serving((client) => client.query('drop schema crm cascade'))
    assert.match([...(await untilRight())].join(), /store_rebuilding/)
  })

  it('a table of its database dropped, and a change written to it before anybody reads', async () => {
    await serving((client) => client.query('drop schema crm cascade'))
    await source.query(`UPDATE people SET at = at`)
    await ok(developer.post('/api/v1/connections/db/sync'))
    await untilRight()
  })

  it('registrations of files removed, while it runs', async () => {
    // It may write one into a folder that was just found empty.
    await rm(join(data, FOLDERS.analytics), { recursive: true, maxRetries: 50 })
    await untilRight()
  })

  it('the data folder moved', async () => {
    await runtime.stop()
    await rename(data, `${data}-moved`)
    data = `${data}-moved`
    await start()
    await untilRight()
    const past = await developer.get('/api/v1/products/people/snapshots')
    assert.ok(past.body.data.length >= 2)
    await source.query(`UPDATE people SET at = at`)
    await sync()
    await untilRight()
    await runtime.stop()
    await rename(data, `${data}-again`)
    data = `${data}-again`
    await start()
    await untilRight()
  })

  for (const state of ['emptied', 'foreign'] as const) {
    it(`the lake, before its start: ${state}`, async () => {
      const [bucket, away] = [join(data, 'lake/sluice-acme'), join(folder, `bucket-${state}`)]
      const code = `lake_${state}`
      const lakeOf = async () =>
        ((await (await fetch(`${url}/readyz`)).json()) as Json).checks.find((one: Json) => one.name === 'lake')
      await runtime.stop()
      await rename(bucket, away)
      if (state === 'foreign') {
        await mkdir(join(bucket, 'acme/crm/people/data'), { recursive: true })
        await writeFile(join(bucket, 'acme/crm/people/data/a.parquet'), 'of another installation')
        await writeFile(join(bucket, 'acme/owner.json'), JSON.stringify({ mark: randomUUID() }))
      }
      await start()
      await until('readiness says it', async () => (await lakeOf()).state === 'degraded')
      assert.equal((await lakeOf())[`${state}_buckets`], 1)
      assert.match(runtime.output, new RegExp(`${code}[^]*Put|put back`))
      const product = await ok(developer.get('/api/v1/products/people'))
      assert.deepEqual(
        product.notices.map((one: Json) => one.kind),
        [code],
      )
      const { data: listed } = await ok(developer.get('/api/v1/products'))
      assert.deepEqual(listed[0].notices, [code])
      assert.equal(cityOf(await READS.lookup(developer)), 'right', 'what stores have is served')
      for (const path of ['connections/db/sync', 'products/people/materialize']) {
        const run = await developer.untilEnded((await ok(developer.post(`/api/v1/${path}`))).id)
        assert.deepEqual([run.state, run.error?.code], ['failed', code], JSON.stringify(run))
      }
      if (state === 'foreign') assert.equal((await readdir(bucket, { recursive: true })).length, 6)
      await runtime.stop()
      await rm(bucket, { recursive: true, force: true })
      await rename(away, bucket)
      await start()
      await until('it is right again', async () => (await lakeOf()).state === 'ok')
      await sync()
      await untilRight()
    })
  }

  const TAKEN = {
    'realtime/lmdb': { kind: 'store_missing', check: 'products_without_store', deploy: 'manifests_invalid' },
    'connectors/postgresql': {
      kind: 'connector_missing',
      check: 'connections_without_connector',
      deploy: 'unknown_connector_type',
    },
  }
  for (const [plugin, { kind, check, deploy }] of Object.entries(TAKEN)) {
    it(`${plugin} taken out of the configuration`, async () => {
      const draft = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
      await ok(developer.upload('/api/v1/products/people/manifests', draft))
      await runtime.stop()
      const all = [
        'lookup/postgresql',
        'timeseries/postgresql',
        'analytics/duckdb',
        'realtime/lmdb',
        'connectors/postgresql',
      ]
      const left = all.filter((one) => one !== plugin)
      const stores = left.map((one) => one.split('/')).filter(([type]) => type !== 'connectors')
      const configFile = join(folder, 'without.yaml')
      await writeFile(
        configFile,
        JSON.stringify({
          plugins: left.map((one) => `@sluice/${one}`),
          serving: Object.fromEntries(stores.map(([type, driver]) => [type, { driver }])),
        }),
      )
      await start(configFile)
      assert.match(runtime.output, new RegExp(`${kind}[^]*under plugins`))
      const { checks } = (await (await fetch(`${url}/readyz`)).json()) as Json
      const ready = checks.find((one: Json) => one.name === 'plugins')
      assert.deepEqual([ready.state, ready[check]], ['degraded', 1])
      const product = await ok(developer.get('/api/v1/products/people'))
      assert.deepEqual(
        product.notices.map((one: Json) => one.kind),
        [kind],
      )
      assert.match(product.notices[0].message, kind === 'store_missing' ? /realtime/ : /postgresql/)
      assert.deepEqual((await ok(developer.get('/api/v1/products'))).data[0].notices, [kind])
      if (kind === 'store_missing') {
        const read = await READS.realtime(developer)
        assert.deepEqual([read.status, read.body.code], [409, kind])
        assert.match(read.body.remedy, /under plugins/)
        await keepsWhatItCannotRemove()
      } else {
        const run = await developer.untilEnded((await ok(developer.post('/api/v1/connections/db/sync'))).id)
        assert.deepEqual([run.state, run.error.code], ['failed', deploy])
        assert.match(run.error.remedy, /under plugins/)
      }
      assert.equal(cityOf(await READS.lookup(developer)), 'right')
      const refused = await developer.post('/api/v1/products/people/deploy', { version: '1.1.0', dry_run: false })
      assert.deepEqual([refused.status < 500, refused.body.code], [true, deploy], JSON.stringify(refused.body))
      await runtime.stop()
      await start()
      await sync()
      await untilRight()
    })
  }

  /** Rows in a store whose plugin is not loaded would stay there for ever. */
  async function keepsWhatItCannotRemove(): Promise<void> {
    const admin = await adminOf({ url, data })
    const removals = [
      await developer.send('/api/v1/products/people', { method: 'DELETE' }),
      await developer.send('/api/v1/products/people?abandon=realtime', { method: 'DELETE' }),
      await admin.send('/api/v1/tenants/acme?confirm=acme', { method: 'DELETE' }),
      await admin.send('/api/v1/tenants/acme?confirm=acme&abandon=lookup', { method: 'DELETE' }),
    ]
    assert.deepEqual(
      removals.map(({ status, body }) => [status, body.code]),
      [
        [409, 'store_missing'],
        [403, 'admin_required'],
        [409, 'store_missing'],
        [409, 'store_missing'],
      ],
    )
    assert.match(removals[0]?.body.remedy, /under plugins[^]*abandon=realtime/)
    assert.equal((await ok(admin.get('/api/v1/tenants/acme'))).status, 'active')
    const made = { name: 'left', namespace: 'crm', archetype: 'source_aligned', description: '' }
    await ok(developer.post('/api/v1/products', made))
    const gone = await developer.send('/api/v1/products/left', { method: 'DELETE' })
    assert.equal(gone.status, 204, 'it has no rows there')
    const { id } = await ok(developer.post('/api/v1/products', made))
    await withDatabase(data, 'sluice_registry', (client) =>
      client.query(
        `insert into endpoint_states (product_id, endpoint, variant, state) values ($1, 'realtime', 'clear', 'ok')`,
        [id],
      ),
    )
    const asked = { method: 'DELETE', headers: { 'X-Tenant-Id': 'acme' } }
    const answers = [
      await admin.send(`/api/v1/products/${id}`, asked),
      await admin.send(`/api/v1/products/${id}?abandon=realtime`, asked),
    ]
    assert.deepEqual(
      answers.map(({ status }) => status),
      [409, 204],
    )
  }

  describe('a registry that was put back from before an epoch', () => {
    const TABLES = ['materializations', 'product_fences', 'iceberg_tables', 'endpoint_states'] as const
    const registry = <T>(work: (client: pg.Client) => Promise<T>) => withDatabase(data, 'sluice_registry', work)
    const epochOf = async () =>
      (await developer.get('/api/v1/products/people')).body.last_materialization.epoch as number

    /** The tables that tell of epochs, as a dump has them; what came after it is in the lake alone. */
    async function dump(): Promise<void> {
      await registry(async (client) => {
        for (const table of TABLES) {
          await client.query(`drop table if exists public.dumped_${table}`)
          await client.query(`create table public.dumped_${table} as select * from ${table}`)
        }
      })
    }

    async function restore(): Promise<void> {
      await registry(async (client) => {
        for (const table of TABLES.toReversed()) await client.query(`delete from ${table}`)
        for (const table of TABLES) await client.query(`insert into ${table} select * from public.dumped_${table}`)
      })
    }

    /** What a follower of the changes is told from a place on, until an event of that kind, or the end of a second epoch. */
    async function followed(
      place: string | null,
      last: string,
    ): Promise<{ readonly kinds: string[]; readonly id: string }> {
      const ended = new AbortController()
      const headers = { accept: 'text/event-stream', ...(place === null ? {} : { 'last-event-id': place }) }
      const { body } = await developer.begin('/api/v1/products/people/changes', headers, ended.signal)
      let text = ''
      try {
        for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
          text += chunk
          const whole = text.slice(0, text.lastIndexOf('\n\n') + 1)
          const [kinds, ids] = ['event', 'id'].map((field) =>
            [...whole.matchAll(new RegExp(`^${field}: (.+)$`, 'gm'))].map(([, value]) => value as string),
          ) as [string[], string[]]
          const isEnd = kinds.at(-1) === last || kinds.filter((kind) => kind === 'epoch').length > 1
          if (isEnd) return { kinds, id: ids.at(-1) ?? '' }
        }
      } finally {
        ended.abort()
      }
      return assert.fail(text)
    }

    let lostPlace = ''

    async function outdated(right: string): Promise<number> {
      const before = await epochOf()
      await dump()
      await source.query('UPDATE people SET at = at')
      await sync()
      assert.equal(await epochOf(), before + 1)
      lostPlace = (await followed(null, 'epoch')).id
      await restore()
      if (right === 'lake') {
        const run = await developer.untilEnded((await ok(developer.post('/api/v1/products/people/materialize'))).id)
        assert.equal(run.state, 'failed', JSON.stringify(run))
      } else {
        await runtime.stop()
        await start()
      }
      const product = async () => ok(developer.get('/api/v1/products/people'))
      await until('it is said', async () => (await product()).paused?.reason === 'registry_outdated')
      assert.equal((await developer.post('/api/v1/products/people/materialize')).body.code, 'product_paused')
      assert.equal(await epochOf(), before, 'nothing was written')
      assert.equal((await developer.post('/api/v1/products/people/resume')).body.code, 'registry_outdated')
      return before
    }

    async function settle(right: string): Promise<void> {
      const { id } = await ok(developer.post(`/api/v1/products/people/resume?right=${right}`))
      const run = await developer.untilEnded(id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
      await untilRight(LOADED_FOR_MS)
    }

    it('is noticed before anything is written, and follows the lake where that is right', async () => {
      const before = await outdated('lake')
      await settle('lake')
      assert.equal(await epochOf(), before + 2, 'the epoch of the lake, and the one that the run has made')
    })

    it('goes on by itself where that is right', async () => {
      const before = await outdated('registry')
      await settle('registry')
      assert.equal(await epochOf(), before + 2, 'the number of the epoch that the lake had is not given again')
      await sync()
      assert.equal(await epochOf(), before + 3)
      const { kinds } = await followed(lostPlace, 'reset')
      assert.deepEqual(kinds, ['epoch', 'reset'], 'who has rows of that epoch begins anew')
    })
  })
})
