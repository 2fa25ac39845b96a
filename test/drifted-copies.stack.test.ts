/**
 * Rows that somebody changes in a store, behind the runtime's back: a start finds them, and the lake makes them right.
 * What nobody has touched is found to be in order in every store, whatever its values are.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Client as Source } from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { until } from './until.ts'

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: part, type: string, role: identity, nullable: false }
  - { name: at, type: timestamptz }
  - { name: who, type: string, classification: pii.name }
  - { name: flag, type: boolean }
  - { name: few, type: integer }
  - { name: single, type: float }
  - { name: twice, type: double }
  - { name: exact, type: "decimal(38,9)" }
  - { name: day, type: date }
  - { name: local, type: timestamp }
  - { name: mark, type: uuid }
  - { name: bytes, type: binary }
  - { name: document, type: json }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: at, continuous_aggregates: [{ interval: 1 day, columns: [few] }] }
  - type: realtime
    config: { key_template: "{id}/{part}", ttl: 48h }
`
const HISTORY = `  - type: lookup
    config: { history_mode: type_2, tracked_columns: [few] }
  - type: realtime
    config: { key_template: "{id}:{part}", include_columns: [id, part, few, document] }
`
const TABLE = `CREATE TABLE facts (id bigint, part text, at timestamptz, who text, flag boolean, few int, single real,
  twice float8, exact numeric(38,9), day date, local timestamp, mark uuid, bytes bytea, document jsonb, PRIMARY KEY (id, part))`
const ROWS = `INSERT INTO facts
  SELECT i, 'p' || i % 3, timestamptz '2024-01-01Z' + i * interval '1 hour', 'w' || i, i % 2 = 0, i, i / 7.0, i / 3.0,
    i / 9.0, date '2024-01-01' + i, timestamp '1969-12-31 23:59:59.999999' + i * interval '1 microsecond',
    md5(i::text)::uuid, decode(md5(i::text), 'hex'), jsonb_build_object('b', i, 'a', jsonb_build_array(1.50, null, 'x'))
  FROM generate_series(1, 1500) i`
const EXTREMES = `INSERT INTO facts VALUES
  (9223372036854775807, 'max', 'epoch', '', true, 2147483647, 'NaN', 'NaN', 99999999999999999999999999999.999999999,
    '9999-12-31', '1900-01-01 00:00:00.000001', '00000000-0000-0000-0000-000000000000', '', '{"n":12345678901234567890.10}'),
  (-9223372036854775808, 'Ä/:%{}"''😀', '1969-12-31T23:59:59.999999Z', NULL, false, -2147483648, '-0', '-0',
    -99999999999999999999999999999.999999999, '0001-01-01', NULL, NULL, '\\x00ff', '"text"'),
  (0, 'ÄÄ', NULL, 'no time', NULL, NULL, 'Infinity', '-Infinity', 0.000000001, NULL, NULL, NULL, NULL, 'null'),
  (0, 'Ää', '2024-02-01Z', 'nulls', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`

let folder: string
let data: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let developer: Client
let url: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-drift-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = server.tcpAddress
  source = new Source({ host, port, user, password, database: 'postgres' })
  await source.connect()
  for (const statement of [TABLE, ROWS, EXTREMES]) await source.query(statement)
  await start()
  await onboard('acme', developer)
  await makeProduct('facts', ENDPOINTS)
  await makeProduct('past', HISTORY)
  await sync()
  await source.query('UPDATE facts SET few = few + 1 WHERE id BETWEEN 10 AND 20')
  await source.query('DELETE FROM facts WHERE id = 30')
  await sync()
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<void> {
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, 'upkeep: { compare_minutes: 1440, compare_rows_per_second: 1000000, compare_share: 1 }\n')
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
}

async function onboard(slug: string, client: Client): Promise<void> {
  await makeTenant(await adminOf({ url, data }), slug)
  await connectSource(client, server.tcpAddress)
}

async function makeProduct(name: string, endpoints: string, client: Client = developer): Promise<void> {
  await registerProduct(client, name)
  const texts = manifests('public.facts', { endpoints, columns: COLUMNS })
  const files = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    quality: texts.quality.replace('[id]', '[id, part]'),
  }
  await ok(client.upload(`/api/v1/products/${name}/manifests`, files))
  const plan = await ok(client.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: true }))
  const wanted = { version: '1.0.0', dry_run: false, digest: plan.digest, stores_hash: plan.stores_hash }
  const other = await client.post(`/api/v1/products/${name}/deploy`, { ...wanted, stores_hash: 'of another plan' })
  assert.deepEqual([other.status, other.body.code], [409, 'plan_changed'])
  await ok(client.post(`/api/v1/products/${name}/deploy`, wanted))
}

async function sync(client: Client = developer): Promise<void> {
  const { id } = await ok(client.post('/api/v1/connections/db/sync'))
  const run = await client.untilEnded(id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

interface Compared {
  readonly copy: string
  readonly depth: string | null
  /** The newest: by what it was found. */
  readonly drift: string | null
}

const registry = <T>(work: (client: Source) => Promise<T>) =>
  withDatabase(data, 'sluice_registry', work as never) as Promise<T>
const serving = <T>(work: (client: Source) => Promise<T>) =>
  withDatabase(data, 'sluice_serving', work as never) as Promise<T>

function comparisons(): Promise<readonly Compared[]> {
  return registry(async (client) => {
    const { rows } = await client.query(
      `select p.name || ' ' || s.endpoint || ' ' || s.variant as copy, c.depth, c.drift
       from endpoint_states s join products p on p.id = s.product_id
         left join store_comparisons c on c.product_id = s.product_id and c.endpoint = s.endpoint
           and c.variant = s.variant
       order by 1`,
    )
    return rows
  })
}

async function restartAndCompare(): Promise<readonly Compared[]> {
  await registry((client) => client.query('update store_comparisons set compared_at = null'))
  await runtime.stop()
  await start()
  await until('every copy was compared', () =>
    registry(async (client) => {
      // A start leaves comparisons for later.
      await client.query('update store_comparisons set due_at = now() where compared_at is null')
      await client.query(`update jobs set due_at = now() where kind = 'stores.compare' and lease_until is null`)
      const { rows } = await client.query(
        `select count(*)::int as waiting from endpoint_states s left join store_comparisons c using (product_id, endpoint, variant)
         where c.compared_at is null or s.state <> 'ok'`,
      )
      return rows[0].waiting === 0
    }),
  )
  return comparisons()
}

const COPIES = ['facts lookup', 'facts realtime', 'facts timeseries', 'past lookup', 'past realtime'].flatMap(
  (copy) => [`${copy} clear`, `${copy} masked`],
)

it('finds every row of every type in order, in all stores and variants', async () => {
  const whole = COPIES.map((copy) => ({ copy, depth: 'rows', drift: null }))
  assert.deepEqual(await restartAndCompare(), whole)
  assert.deepEqual(await restartAndCompare(), whole, 'and so by their digests alone')
})

const PARTITION = `select partition from sluice_store.datasets
  where product = 'facts' and variant = 'clear' and endpoint = 'lookup'`

/** In the store's own table, of the rows in clear. */
function inStore<T>(statement: (table: string) => string): Promise<readonly T[]> {
  return serving(async (client) => {
    const { rows } = await client.query(PARTITION)
    const found = await client.query(statement(`sluice_partitions."${rows[0].partition}"`))
    return found.rows as T[]
  })
}

it('finds rows that somebody changed in PostgreSQL, and makes them right', async () => {
  await inStore((table) => `update ${table} set few = 4711 where id = 7`)
  const found = await restartAndCompare()
  assert.deepEqual(
    found.filter(({ drift }) => drift !== null).map(({ copy, drift }) => [copy, drift]),
    [['facts lookup clear', 'digest']],
  )
  assert.deepEqual(await inStore((table) => `select few from ${table} where id = 7`), [{ few: 7 }])
  const { notices } = await ok(developer.get('/api/v1/products/facts'))
  assert.deepEqual(
    notices.map(({ kind }: Json) => kind),
    ['store_drifted'],
  )
})

it('takes nothing from the readers of other tenants while a product of the same name is removed', async () => {
  const claims = { tenant: 'beta', groups: ['svc-developers'], user: 'bea' }
  const other = new Client(url, await issueToken(data, claims, { ttlS: 3600 }))
  await onboard('beta', other)
  await makeProduct('facts', ENDPOINTS, other)
  await sync(other)
  const copiesOf = (tenant: string) =>
    registry(async (client) => {
      const { rows } = await client.query(
        `select s.endpoint, s.variant, s.state, s.updated_at from endpoint_states s join products p on p.id = s.product_id
         where p.tenant = $1 and p.name = 'facts' order by 1, 2`,
        [tenant],
      )
      return rows as { readonly endpoint: string; readonly state: string }[]
    })
  const before = await copiesOf('acme')
  await serving(async (client) => {
    // The removal waits before it comes to the timeseries; what is in the lookup store goes before that.
    await client.query(`begin; select from sluice_store.datasets
      where tenant_id = 'beta' and starts_with(endpoint, 'timeseries') for update`)
    const removal = other.send('/api/v1/products/facts', { method: 'DELETE' })
    const isGone = `select from sluice_store.datasets where tenant_id = 'beta' and endpoint = 'lookup'`
    await until('the lookup store has none of it', async () => (await client.query(isGone)).rowCount === 0)
    assert.ok((await copiesOf('beta')).every(({ state }) => state === 'pending'))
    await compareTenants()
    assert.deepEqual(await copiesOf('acme'), before)
    await client.query('commit')
    assert.equal((await removal).status, 204)
  })
  assert.deepEqual(await copiesOf('acme'), before)
  assert.deepEqual(await copiesOf('beta'), [])
})

/** Every tenant has a turn, in which whatever is due is compared. */
async function compareTenants(): Promise<void> {
  const [{ at }] = await registry(async (client) => {
    await client.query('update store_comparisons set due_at = now()')
    return (await client.query('select clock_timestamp() as at')).rows as [{ readonly at: Date }]
  })
  await until('every tenant had a turn', () =>
    registry(async (client) => {
      const waiting = `from jobs where kind = 'stores.compare' and (finished_at is null or started_at < $1 or lease_until is not null)`
      await client.query(
        `update jobs set due_at = now() where (kind, key) in (select kind, key ${waiting} and lease_until is null)`,
        [at],
      )
      return (await client.query(`select ${waiting}`, [at])).rowCount === 0
    }),
  )
}
