/**
 * Tables of one tenant that an operator damages by hand, beside those of another tenant with a product of the same name and
 * shape. Readers get the right rows or none, what is lost is built anew, and the neighbour's copies are neither taken from
 * its readers nor written again.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client as Source } from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import {
  adminOf,
  connectSource,
  makeTenant,
  personOf,
  registerProduct,
  servedAt,
  uploadAndDeploy,
} from './first-steps.ts'
import { until } from './until.ts'

const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: at }
`
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: at, type: timestamptz, role: time, nullable: false }
  - { name: city, type: string }
`
const READS = [
  (client: Client) => client.get('/api/v1/products/people/latest?filter=id:7'),
  (client: Client) => client.get('/api/v1/products/people/latest?limit=50'),
  (client: Client) => client.get('/api/v1/products/people/timeseries?from=2024-01-07&to=2024-01-07T12:00:00Z'),
]
const TENANTS = ['acme', 'beta'] as const
type Tenant = (typeof TENANTS)[number]

let folder: string
let data: string
let server: EmbeddedServer
let runtime: RuntimeProcess
const people = new Map<Tenant, Client>()
const person = (tenant: Tenant) => people.get(tenant) as Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tables-'))
  data = join(folder, 'data')
  server = await startCopiedServer(join(folder, 'source'))
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0)
  const place = { url: await servedAt(runtime), data }
  const admin = await adminOf(place)
  for (const tenant of TENANTS) {
    await makeTenant(admin, tenant)
    await fillSource(tenant)
    const client = await personOf(place, 'dora', { tenant })
    people.set(tenant, client)
    await connectSource(client, server.tcpAddress, tenant)
    await registerProduct(client, 'people')
    const files = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
    const { run_id: run } = await uploadAndDeploy(client, 'people', files)
    if (run) await client.untilEnded(run)
    const synced = await client.untilEnded((await ok(client.post('/api/v1/connections/db/sync'))).id)
    assert.equal(synced.state, 'succeeded', JSON.stringify(synced))
  }
  for (const tenant of TENANTS) await untilRight(tenant)
})

after(async () => {
  await runtime?.stop()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function fillSource(database: Tenant): Promise<void> {
  const source = async (name: string, statement: string) => {
    const client = new Source({ ...server.tcpAddress, database: name })
    await client.connect()
    await client.query(statement).finally(() => client.end())
  }
  await source('postgres', `CREATE DATABASE ${database}`)
  await source(
    database,
    `CREATE TABLE people AS SELECT i AS id, timestamptz '2024-01-01Z' + (i - 1) * interval '1 day' AS at,
      '${database}' AS city FROM generate_series(1, 20) i; ALTER TABLE people ADD PRIMARY KEY (id)`,
  )
}

/** How many reads were answered with rows; each of those with the tenant's own, and with all that it asked for. */
async function rightReads(tenant: Tenant): Promise<number> {
  let right = 0
  for (const [index, read] of READS.entries()) {
    const { status, body } = await read(person(tenant))
    if (status !== 200) {
      assert.deepEqual([status, body.code], [503, 'store_rebuilding'], JSON.stringify(body))
      continue
    }
    const cities = (body.data as Json[]).map((row) => row.city)
    assert.deepEqual(cities, Array(index === 1 ? 20 : 1).fill(tenant), `read ${index}: ${JSON.stringify(body)}`)
    right += 1
  }
  return right
}

async function untilRight(tenant: Tenant): Promise<void> {
  await until(`${tenant} reads its rows`, async () => (await rightReads(tenant)) === READS.length)
  await until(`${tenant} is told that all is in order`, async () => {
    const { status, endpoints } = await ok(person(tenant).get('/api/v1/products/people'))
    return [status, ...endpoints.map((one: Json) => one.state)].join() === 'deployed,ok,ok'
  })
}

interface Table {
  readonly parent: string
  readonly own: string
}

const serving = <T>(work: (client: Source) => Promise<T>) => withDatabase(data, 'sluice_serving', work)

/** Tables of the tenant's copies, by endpoint. */
async function tablesOf(tenant: Tenant): Promise<ReadonlyMap<string, Table>> {
  const { rows } = await serving((client) =>
    client.query(
      `select endpoint, format('%I.%I', domain, relation) as parent, format('sluice_partitions.%I', partition) as own
       from sluice_store.datasets where tenant_id = $1 order by endpoint`,
      [tenant],
    ),
  )
  return new Map(rows.map(({ endpoint, parent, own }) => [endpoint, { parent, own }]))
}

/** What is written down of the tenant's copies; each change of one changes it. */
async function notesOf(tenant: Tenant): Promise<readonly unknown[]> {
  const { rows } = await withDatabase(data, 'sluice_registry', (client) =>
    client.query(
      `select s.endpoint, s.variant, s.applied_epoch, s.state, s.attempts, s.updated_at::text
       from endpoint_states s join products p on p.id = s.product_id where p.tenant = $1 order by 1, 2`,
      [tenant],
    ),
  )
  return rows
}

const ofOne: Readonly<Record<string, (table: Table) => string>> = {
  'its partition dropped': ({ own }) => `drop table ${own}`,
  'its partition detached': ({ own, parent }) => `alter table ${parent} detach partition ${own}`,
}

describe('tables of a store that are damaged by hand', () => {
  for (const endpoint of ['lookup', 'timeseries']) {
    for (const [what, statement] of Object.entries(ofOne)) {
      it(`${endpoint}, ${what}: the copy of that tenant alone is built anew`, async () => {
        const [own, beside, notes] = [await tablesOf('acme'), await tablesOf('beta'), await notesOf('beta')]
        const table = own.get(endpoint) as Table
        assert.equal(beside.get(endpoint)?.parent, table.parent, 'tenants share it')
        await serving((client) => client.query(statement(table)))
        assert.ok((await rightReads('acme')) < READS.length)
        assert.equal(await rightReads('beta'), READS.length)
        await untilRight('acme')
        assert.notEqual((await tablesOf('acme')).get(endpoint)?.own, table.own)
        assert.equal(await rightReads('beta'), READS.length)
        assert.deepEqual([await tablesOf('beta'), await notesOf('beta')], [beside, notes])
      })
    }
  }

  it('lookup, its partition made anew and empty', async () => {
    const [own, beside, notes] = [await tablesOf('acme'), await tablesOf('beta'), await notesOf('beta')]
    const table = own.get('lookup') as Table
    await serving((client) =>
      client.query(
        `drop table ${table.own}; create table ${table.own} partition of ${table.parent} for values in ('acme')`,
      ),
    )
    await serving((client) =>
      client.query(
        `do $$ begin execute format('alter table ${table.own} owner to %I',
           (select pg_get_userbyid(relowner) from pg_class where oid = '${table.parent}'::regclass)); end $$`,
      ),
    )
    assert.ok((await rightReads('acme')) < READS.length)
    await untilRight('acme')
    assert.deepEqual([await tablesOf('beta'), await notesOf('beta')], [beside, notes])
  })

  it('the parent of both tenants dropped: both copies at that endpoint are built anew, and no others', async () => {
    const before = new Map<Tenant, ReadonlyMap<string, Table>>()
    for (const tenant of TENANTS) before.set(tenant, await tablesOf(tenant))
    await serving((client) => client.query(`drop table ${before.get('acme')?.get('lookup')?.parent} cascade`))
    for (const tenant of TENANTS) assert.ok((await rightReads(tenant)) < READS.length)
    for (const tenant of TENANTS) {
      await untilRight(tenant)
      const now = await tablesOf(tenant)
      assert.notEqual(now.get('lookup')?.own, before.get(tenant)?.get('lookup')?.own)
      assert.deepEqual(now.get('timeseries'), before.get(tenant)?.get('timeseries'))
    }
  })
})
