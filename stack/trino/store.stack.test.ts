/** The store against the real Trino, over tables that the lake has written. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import { commitStep } from '@sluice/iceberg/testing'
import {
  batchFromRows,
  type Filter,
  isSluiceError,
  openTenantScope,
  type ReadPlan,
  type Row,
  rowsOf,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { TrinoClient } from '../../plugins/analytics/trino/client.ts'
import plugin from '../../plugins/analytics/trino/index.ts'
import type { TrinoSettings } from '../../plugins/analytics/trino/settings.ts'
import { type RegistryLake, startRegistryLake } from '../../runtime/src/lake/testing.ts'
import { until } from '../../test/until.ts'
import { catalogProperties } from './catalog-properties.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'amount', type: 'decimal(38,10)', nullable: true },
    { name: 'ratio', type: 'double', nullable: true },
    { name: 'small', type: 'float', nullable: true },
    { name: 'at', type: 'timestamptz', nullable: true },
    { name: 'seen', type: 'timestamp', nullable: true },
    { name: 'day', type: 'date', nullable: true },
    { name: 'key', type: 'uuid', nullable: true },
    { name: 'bytes', type: 'binary', nullable: true },
    { name: 'name', type: 'string', nullable: true },
    { name: 'doc', type: 'json', nullable: true },
    { name: 'ok', type: 'boolean', nullable: true },
    { name: 'rank', type: 'integer', nullable: true },
  ],
  primaryKey: ['id'],
}

const NAMES = SCHEMA.columns.map(({ name }) => name)

const ROWS: readonly Row[] = [
  [
    -(2n ** 63n),
    '-9999999999999999999999999999.9999999999',
    // Written as −0, which the lake does not have.
    0,
    3.4028234663852886e38,
    '0001-01-01T00:00:00.000000Z',
    '9999-12-31T23:59:59.999999',
    '0001-01-01',
    '00000000-0000-0000-0000-00000000000a',
    Uint8Array.of(0, 255),
    "ä€😀'\n",
    '{"a": [1, 2.50]}',
    true,
    -2147483648,
  ],
  [9007199254740993n, null, Number.NaN, Number.NaN, null, null, null, null, null, '', 'null', false, 0],
  [
    2n ** 63n - 1n,
    '0.0000000001',
    Number.POSITIVE_INFINITY,
    0.1,
    '1969-12-31T23:59:59.999999Z',
    null,
    '9999-12-31',
    null,
    new Uint8Array(),
    null,
    null,
    null,
    7,
  ],
].map((row) =>
  row.map((value, at) => (NAMES[at] === 'small' && typeof value === 'number' ? Math.fround(value) : value)),
)

const SELECT = `SELECT * FROM (VALUES
  (CAST(-9223372036854775808 AS BIGINT), CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38,10)), CAST('-0.0' AS DOUBLE),
   CAST('3.4028234663852886e38' AS FLOAT), TIMESTAMPTZ '0001-01-01 00:00:00+00', TIMESTAMP '9999-12-31 23:59:59.999999',
   DATE '0001-01-01', CAST('00000000-0000-0000-0000-00000000000a' AS UUID), from_hex('00ff'), 'ä€😀''' || chr(10),
   '{"a": [1, 2.50]}', true, -2147483648),
  (9007199254740993, NULL, CAST('nan' AS DOUBLE), CAST('nan' AS FLOAT), NULL, NULL, NULL, NULL, NULL, '', 'null', false, 0),
  (9223372036854775807, CAST('0.0000000001' AS DECIMAL(38,10)), CAST('inf' AS DOUBLE), CAST('0.1' AS FLOAT),
   TIMESTAMPTZ '1969-12-31 23:59:59.999999+00', NULL, DATE '9999-12-31', NULL, from_hex(''), NULL, NULL, NULL, 7)
) AS v(${NAMES.map((name) => `"${name}"`).join(', ')})`

let lake: RegistryLake
let folder: string
let settings: TrinoSettings
let store: ServingStore
let target: Target

before(async () => {
  lake = await startRegistryLake()
  folder = await mkdtemp(join(tmpdir(), 'sluice-trino-'))
  settings = { url: process.env['SLUICE_TEST_TRINO_URL'] as string, catalog: await catalogProperties(lake) }
  const host = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory: folder, seed: 1 }
  store = (await plugin.open(settings, new TestHost(host))) as ServingStore
  target = await provisioned('trino-a')
  await registerNext(target, 1, SELECT)
})

after(async () => {
  for (const tenant of ['trino-a', 'trino-b']) await store?.dropTenant(openTenantScope(tenant))
  await store?.close()
  await lake?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

async function provisioned(tenant: string): Promise<Target> {
  const scope = openTenantScope(tenant)
  const made = { scope, domain: 'sales', product: 'orders', variant: 'clear', schema: SCHEMA, config: {} }
  await store.provision(made, 'apply')
  assert.deepEqual((await store.provision(made, 'plan')).steps, [])
  await store.rls.install(made, { version: '1', tenantIsolation: 'forced' })
  return made
}

/** Appends to the lake's table and tells the store of the snapshot. */
async function registerNext(of: Target, epoch: number, select: string): Promise<void> {
  const ref = { warehouse: of.scope.tenant, namespace: of.domain, table: of.product }
  const staged = await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select })
  const fieldIds = Object.fromEntries(NAMES.map((name, at) => [name, at + 1]))
  const changes = {
    mode: 'full',
    schema: SCHEMA,
    upsertCount: 1,
    deleteCount: 0,
    async *upserts() {
      yield batchFromRows([], NAMES.length)
    },
    async *deletes() {},
    async *upsertsCsv() {},
    async *upsertsKeyed() {},
    async *deletesCsv() {},
    lake: { snapshotId: staged.snapshotId as string, files: [], fieldIds },
  } as const
  const commit = { epoch, previousEpoch: null, fence: 1n, committedAt: '2026-01-01T00:00:00.000000Z' }
  await store.write(of, changes, { ...commit, signal: AbortSignal.timeout(600_000) })
}

function planOf(more: Partial<ReadPlan> = {}): ReadPlan {
  return {
    operation: 'scan',
    columns: NAMES,
    filters: [],
    orderBy: [],
    limit: 100,
    policy: { version: '1', rows: { op: 'all' }, claims: {}, visibleColumns: NAMES, maskedColumns: [] },
    timeoutMs: 60_000,
    signal: AbortSignal.timeout(600_000),
    encoding: 'columns',
    ...more,
  }
}

async function read(more: Partial<ReadPlan> = {}, of = target) {
  const [batch] = await Array.fromAsync(store.read(of, planOf(more)))
  assert.ok(batch !== undefined && 'columns' in batch)
  return { rows: [...rowsOf(batch)], epoch: batch.epoch, next: batch.next }
}

const ids = async (filter: Filter) => (await read({ columns: ['id'], filters: [filter] })).rows.flat()

describe('scans by Trino', () => {
  test('give every value of every type to the last digit', async () => {
    const { rows, epoch } = await read()
    assert.equal(epoch, 1)
    assert.deepEqual(rows, ROWS)
    const [batch] = await Array.fromAsync(store.read(target, planOf({ encoding: 'json', columns: ['id', 'doc'] })))
    assert.ok(batch !== undefined && 'json' in batch)
    assert.ok(batch.json.startsWith('[{"id":"-9223372036854775808","doc":{"a": [1, 2.50]}}'))
  })

  test('filter by values of every type, NaN above every number', async () => {
    const [lowest, middle, highest] = ROWS.map(([id]) => id)
    assert.deepEqual(await ids({ column: 'id', operator: 'eq', values: [9007199254740993n] }), [middle])
    assert.deepEqual(await ids({ column: 'ratio', operator: 'gt', values: [1] }), [middle, highest])
    assert.deepEqual(await ids({ column: 'ratio', operator: 'eq', values: [Number.NaN] }), [middle])
    assert.deepEqual(await ids({ column: 'ratio', operator: 'le', values: [Number.NaN] }), [lowest, middle, highest])
    assert.deepEqual(await ids({ column: 'amount', operator: 'lt', values: ['0.0000000000'] }), [lowest])
    assert.deepEqual(await ids({ column: 'at', operator: 'ge', values: ['1969-12-31T23:59:59.999999Z'] }), [highest])
    assert.deepEqual(await ids({ column: 'name', operator: 'in', values: ["ä€😀'\n", ''] }), [lowest, middle])
    assert.deepEqual(await ids({ column: 'name', operator: 'eq', values: ["' OR true OR '' = '"] }), [])
    assert.deepEqual(await ids({ column: 'bytes', operator: 'eq', values: [Uint8Array.of(0, 255)] }), [lowest])
    assert.deepEqual(await ids({ column: 'small', operator: 'eq', values: [Math.fround(0.1)] }), [highest])
    assert.deepEqual(await ids({ column: 'ok', operator: 'ne', values: [true] }), [middle])
  })

  test('page through a total order', async () => {
    const seen: unknown[] = []
    let page = await read({ columns: ['id'], orderBy: [{ column: 'rank', direction: 'desc' }], limit: 1 })
    for (;;) {
      seen.push(...page.rows.flat())
      if (page.next === undefined) break
      const orderBy = [{ column: 'rank', direction: 'desc' }] as const
      page = await read({ columns: ['id'], orderBy, limit: 1, after: page.next })
    }
    assert.deepEqual(seen, [ROWS[2]?.[0], ROWS[1]?.[0], ROWS[0]?.[0]])
  })

  test('read the snapshot of the epoch, whatever the table holds', async () => {
    const own = await provisioned('trino-b')
    await assert.rejects(read({}, own), (error) => isSluiceError(error) && error.code === 'not_materialized')
    await registerNext(own, 1, SELECT)
    const ref = { warehouse: 'trino-b', namespace: 'sales', table: 'orders' }
    const emptied = { operation: 'replace', schema: SCHEMA, select: `${SELECT} WHERE id = 0` } as const
    await commitStep(lake, ref, emptied)
    assert.equal((await read({ columns: ['id'] }, own)).rows.length, 3)
    await registerNext(own, 2, `${SELECT} WHERE id > 0`)
    const later = await read({ columns: ['id'] }, own)
    assert.deepEqual([later.epoch, later.rows.length], [2, 2])
  })

  test('keep no rows without a policy, and refuse names that Trino takes for others', async () => {
    const bare = { ...target, product: 'bare' }
    await store.provision(bare, 'apply')
    await registerNext(bare, 1, SELECT)
    assert.deepEqual((await read({}, bare)).rows, [])
    const upper = { ...target, product: 'Orders' }
    await assert.rejects(
      store.provision(upper, 'plan'),
      (error) => isSluiceError(error) && error.code === 'unusable_name',
    )
  })
})

describe('a statement that takes too long', () => {
  const client = () => new TrinoClient(settings)
  const sql = 'SELECT sum(sin(orderkey)) FROM trino_slow.sf1000.lineitem'

  before(() => client().rows({ sql: 'CREATE CATALOG trino_slow USING tpch', maxRows: 1, timeoutMs: 60_000 }))
  after(() => client().rows({ sql: 'DROP CATALOG trino_slow', maxRows: 1, timeoutMs: 60_000 }))

  test('ends at its time or when its caller goes, in Trino too', async () => {
    const states = `SELECT state FROM system.runtime.queries WHERE query = '${sql}'`
    const statesOf = async () => (await client().rows({ sql: states, maxRows: 100, timeoutMs: 300_000 })).flat()
    const late = client().rows({ sql, maxRows: 1, timeoutMs: 3_000 })
    await assert.rejects(late, (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'deadline_exceeded')
    const isFailed = (state: unknown) => state === 'FAILED'
    await until('Trino has ended what was late', async () => (await statesOf()).every(isFailed))
    const caller = new AbortController()
    const left = client().rows({ sql, maxRows: 1, timeoutMs: 600_000, signal: caller.signal })
    void until('the statement is there', async () => (await statesOf()).some((state) => !isFailed(state))).finally(() =>
      caller.abort(),
    )
    await assert.rejects(left, (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'aborted')
    await until('Trino has ended what nobody waits for', async () => {
      const found = await statesOf()
      return found.length > 0 && found.every(isFailed)
    })
  })
})
