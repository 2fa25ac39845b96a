import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { SnapshotInfo, TableRef } from '@sluice/iceberg'
import { loadConfig } from '../config.ts'
import { inTransaction } from '../database/pools.ts'
import { endpointApplied } from '../registry/endpoint-states.ts'
import { raiseFence } from '../registry/fences.ts'
import { type NewMaterialization, recordEpoch, reserveEpoch } from '../registry/materializations.ts'
import { findProduct, type Product, updateProduct } from '../registry/products.ts'
import { enqueueRun } from '../registry/runs.ts'
import { setSchedule } from '../registry/schedules.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { saveVersion } from '../registry/versions.ts'
import { expirableOf } from './expirable-snapshots.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const platform = { pool, config: loadConfig({ environment: {}, flags: {} }) } as Parameters<typeof expirableOf>[0]
const HOUR_MS = 3_600_000

/** Snapshots `s1` … of the epochs 1 …, one a day, the newest of them two hours old. */
function history(count: number, tagged: readonly string[] = []): readonly SnapshotInfo[] {
  return Array.from({ length: count }, (_, at) => ({
    snapshotId: `${at + 1}`,
    parentId: null,
    committedAtMs: Date.now() - (count - 1 - at) * 24 * HOUR_MS - 2 * HOUR_MS,
    summary: {},
    refs: tagged.includes(`${at + 1}`) ? ['v1'] : [],
  }))
}

async function newProduct(
  epochs: number,
  config: Readonly<Record<string, unknown>> = {},
  more: Readonly<Record<string, unknown>> = {},
  tenant?: string,
): Promise<Product> {
  tenant ??= await registry.tenant()
  const product = await registry.product(tenant)
  const normalised = {
    output: { retention: { maxAgeMs: null, keepLast: 2 } },
    serving: { endpoints: [{ type: 'lookup', config }] },
    ...more,
  }
  await inTransaction(pool, (tx) =>
    saveVersion(tx, {
      productId: product.id,
      version: '1.0.0',
      digest: 'd',
      manifests: {},
      normalised,
      deployedBy: ANN,
    }),
  )
  await updateProduct(pool, tenant, product.id, { currentVersion: '1.0.0', status: 'deployed' })
  for (let epoch = 1; epoch <= epochs; epoch += 1) await commitEpoch(product, String(epoch))
  return (await findProduct(pool, tenant, product.id)) as Product
}

async function commitEpoch(product: Product, snapshot: string): Promise<void> {
  const record: NewMaterialization = {
    tenant: product.tenant,
    productId: product.id,
    kind: 'materialize',
    runId: null,
    version: '1.0.0',
    digest: 'd',
    maskedColumns: {},
    inputs: { orders: { snapshot_id: `raw-${snapshot}` } },
    counts: {},
    quality: null,
    qualityScore: null,
  }
  await inTransaction(pool, async (tx) => {
    const fence = await raiseFence(tx, product.id)
    const epoch = await reserveEpoch(tx, product.id, fence.token)
    return recordEpoch(tx, epoch, { ...record, snapshots: { clear: snapshot } })
  })
}

const refOf = (product: Product): TableRef => ({ warehouse: product.tenant, namespace: 'sales', table: product.name })
const expirable = (product: Product, snapshots = history(5)) =>
  expirableOf(platform, product, refOf(product), snapshots, snapshots.at(-1)?.snapshotId ?? null)

test('retention lets go what no store and no tag has a claim to', async () => {
  const product = await newProduct(5)
  assert.deepEqual(await expirable(product), ['1', '2', '3'])
  assert.deepEqual(await expirable(product, history(5, ['2'])), ['1', '3'])
})

test('a store that is behind keeps every snapshot from its epoch on', async () => {
  const product = await newProduct(5)
  await endpointApplied(pool, { productId: product.id, endpoint: 'lookup', variant: 'clear' }, 2)
  assert.deepEqual(await expirable(product), ['1'])
  await endpointApplied(pool, { productId: product.id, endpoint: 'lookup', variant: 'clear' }, 5)
  assert.deepEqual(await expirable(product), ['1', '2', '3'])
})

test('a store that keeps a history is folded from all of them', async () => {
  assert.deepEqual(await expirable(await newProduct(5, { history_mode: 'type_2' })), [])
})

test('what was current when a running run began stays', async () => {
  const product = await newProduct(5)
  const run = await enqueueRun(pool, {
    tenant: product.tenant,
    kind: 'materialization',
    productId: product.id,
    trigger: 'manual',
    createdBy: ANN,
  })
  await pool.query(
    `update runs set state = 'running', worker_id = 'w', lease_until = now() + interval '1 hour',
       started_at = now() - interval '60 hours' where id = $1`,
    [run.id],
  )
  assert.deepEqual(await expirable(product), ['1'], 'the second was current until 50 hours ago')
})

test('raw tables keep what the configuration says, and what the newest epochs were made of', async () => {
  const product = await newProduct(1)
  const ref: TableRef = { warehouse: product.tenant, namespace: 'raw_db', table: 'orders' }
  const old = history(14).map((snapshot) => ({ ...snapshot, snapshotId: `raw-${snapshot.snapshotId}` }))
  assert.deepEqual(await expirableOf(platform, null, ref, old, 'raw-14'), ['raw-2', 'raw-3', 'raw-4'])
})

test('tables of nobody that the platform knows are kept whole', async () => {
  const tenant = await registry.tenant()
  assert.deepEqual(
    await expirableOf(platform, null, { warehouse: tenant, namespace: 'sandbox', table: 't' }, history(50), '50'),
    [],
  )
})

/** One every ten seconds, for so long; the newest is a second old. */
function seconds(count: number): readonly SnapshotInfo[] {
  const now = Date.now() - 1_000
  return Array.from({ length: count }, (_, at) => ({
    snapshotId: `${at + 1}`,
    parentId: null,
    committedAtMs: now - (count - 1 - at) * 10_000,
    summary: {},
    refs: at === 1 ? ['v1'] : [],
  }))
}

async function followedConnection(tenant: string): Promise<string> {
  const { id, name } = await registry.connection(tenant)
  const setter = { ...ANN, tokenIssuedAtMs: 0 }
  const schedule = { catchUp: 'one', maxDelay: '1s', maxDelayMs: 1_000 } as const
  const at = { since: new Date(), nextRunAt: new Date() }
  await inTransaction(pool, (tx) =>
    setSchedule(tx, { id, tenant, connectionId: id, productId: null, schedule, setter, ...at }),
  )
  return name
}

test('what is written as changes come is kept by a ladder, unless it says otherwise, and nothing that is needed goes', async () => {
  const tenant = await registry.tenant()
  const connection = await followedConnection(tenant)
  const compute = { trigger: 'on_ingestion' }
  const made = (inputs: readonly object[], output: object = {}, own: object = compute) =>
    newProduct(3, {}, { inputs, output, compute: own }, tenant)
  const direct = await made([{ connection, table: 'public.orders' }])
  const table = `${direct.domain}.${direct.name}`
  const indirect = await made([{ connection: '#products', table }])
  const snapshots = seconds(200)
  const kept = async (product: Product) => {
    const gone = new Set(await expirable(product, snapshots))
    return snapshots.filter(({ snapshotId }) => !gone.has(snapshotId)).map(({ snapshotId }) => Number(snapshotId))
  }
  for (const product of [direct, indirect]) {
    const left = await kept(product)
    // A minute of every ten seconds, half an hour of minutes; the tagged one, and the newest epoch's.
    assert.ok(left.length >= 36 && left.length <= 44, `${left}`)
    assert.ok(
      [2, 3, 195, 196, 197, 198, 199, 200].every((id) => left.includes(id)),
      `${left}`,
    )
  }
  for (const [output, own] of [
    [{ retention: 'all' }, compute],
    [{}, { ...compute, schedule: { every: '1d' } }],
    [{}, { trigger: 'manual' }],
  ] as const) {
    assert.equal((await kept(await made([{ connection, table: 'public.orders' }], output, own))).length, 200)
  }
  const other = await registry.connection(tenant)
  assert.equal((await kept(await made([{ connection: other.name, table: 'public.orders' }]))).length, 200)
  const raw = { warehouse: tenant, namespace: `raw_${connection}`, table: 'orders' }
  assert.ok((await expirableOf(platform, null, raw, snapshots, '200')).length > 150)

  await pool.query(
    `insert into webhooks (id, tenant, product_id, name, host, key_version, sealed, application_key, created_by, state, place)
     values ($1, $2, $3, 'w', 'h', 1, '', 'k', '{}', 'active', '{"shape": "s", "epoch": 1, "target": null, "offset": 0}')`,
    [`whk_${direct.id}`, tenant, direct.id],
  )
  assert.ok((await kept(direct)).includes(1), 'a receiver is there')
})
