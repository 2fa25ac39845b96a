/** What the conformance suite does not ask: whose files a query may name, and what lies on disk. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import { type LakeWorkshop, openLakeWorkshop } from '@sluice/conformance/lake'
import {
  batchFromRows,
  type ChangeSet,
  type Commit,
  isSluiceError,
  type LakeQuery,
  type LakeSnapshot,
  openTenantScope,
  type Receipt,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import plugin from './index.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

const clock = new VirtualClock()
let lake: LakeWorkshop
let folder: string
let store: ServingStore

before(async () => {
  lake = await openLakeWorkshop()
})

after(() => lake.close())

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-analytics-'))
  store = await open()
})

afterEach(async () => {
  await store.close()
  await rm(folder, { recursive: true, force: true })
})

function open(): Promise<ServingStore> {
  const parts = { clock, logger: new RecordingLogger(), stateDirectory: folder, seed: 1, lakeEngine: lake.engine }
  return plugin.open({}, new TestHost(parts)) as Promise<ServingStore>
}

async function provisioned(tenant: string): Promise<Target> {
  const scope = openTenantScope(tenant)
  const target = { scope, domain: 'sales', product: 'orders', variant: 'clear', schema: SCHEMA, config: {} }
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
  return target
}

async function write(target: Target, epoch: number, rows: readonly Row[], by = store): Promise<LakeSnapshot> {
  const snapshot = await lake.write(target, rows)
  await register(target, epoch, snapshot, by)
  return snapshot
}

function register(target: Target, epoch: number, snapshot: LakeSnapshot, by = store): Promise<Receipt> {
  const changes: ChangeSet = {
    mode: 'full',
    schema: SCHEMA,
    upsertCount: 1,
    deleteCount: 0,
    async *upserts() {
      yield batchFromRows([], 2)
    },
    async *deletes() {},
    async *upsertsCsv() {},
    async *upsertsKeyed() {},
    async *deletesCsv() {},
    lake: snapshot,
  }
  const signal = AbortSignal.timeout(60_000)
  const commit: Commit = { epoch, previousEpoch: null, fence: 1n, committedAt: clock.nowText(), signal }
  return by.write(target, changes, commit)
}

function queryOver(files: readonly string[]): LakeQuery {
  const columns = SCHEMA.columns.map(({ name, type }, index) => ({ name, type, fieldId: index + 1 }))
  return {
    sql: 'SELECT name FROM sales.orders WHERE id = $1',
    parameters: [1],
    tables: [{ name: ['sales', 'orders'], files, columns }],
    limits: { maxRows: 10, timeoutMs: 10_000, memoryBytes: 1 << 28 },
    signal: AbortSignal.timeout(60_000),
  }
}

async function names(target: Target, files: readonly string[], deletes?: readonly string[]): Promise<string> {
  const query = queryOver(files)
  const tables = query.tables.map((table) => ({ ...table, ...(deletes === undefined ? {} : { deletes }) }))
  const result = await store.query?.(target.scope, { ...query, tables })
  return (await Array.fromAsync(result?.batches ?? [])).map(({ json }) => json).join()
}

function isUnregistered(error: unknown): boolean {
  return isSluiceError(error, 'PERMISSION') && error.code === 'file_not_registered'
}

test('a query reaches files of its tenant’s registrations and no others', async () => {
  const [acme, other] = [await provisioned('acme'), await provisioned('other')]
  const mine = await write(acme, 1, [[1n, 'mine']])
  const theirs = await write(other, 1, [[1n, 'theirs']])
  const loose = await lake.write(acme, [[1n, 'never registered']])
  assert.equal(await names(acme, mine.files), '[["mine"]]')
  for (const files of [theirs.files, loose.files, [...mine.files, ...theirs.files]]) {
    await assert.rejects(names(acme, files), isUnregistered)
  }
  // Nor as a list of rows that are gone.
  await assert.rejects(names(acme, mine.files, theirs.files), isUnregistered)
})

test('the former epoch’s files stay for queries that have begun, the one before goes', async () => {
  const acme = await provisioned('acme')
  const snapshots = []
  for (const epoch of [1, 2, 3]) snapshots.push(await write(acme, epoch, [[1n, `epoch ${epoch}`]]))
  const [first, second, third] = snapshots.map(({ files }) => files)
  await assert.rejects(names(acme, first ?? []), isUnregistered)
  assert.equal(await names(acme, second ?? []), '[["epoch 2"]]')
  assert.equal(await names(acme, third ?? []), '[["epoch 3"]]')
  await store.drop(acme, 'apply')
  await assert.rejects(names(acme, third ?? []), isUnregistered)
})

test('many writers of one dataset in several stores leave one epoch after the other', async () => {
  const acme = await provisioned('acme')
  const stores = await Promise.all([open(), open(), open()])
  const snapshot = await lake.write(acme, [[1n, 'x']])
  const outcomes = await Promise.allSettled(
    Array.from({ length: 24 }, (_, index) => register(acme, Math.floor(index / 3) + 1, snapshot, stores[index % 3])),
  )
  const applied = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' && outcome.value.outcome === 'applied' ? [outcome.value.epoch] : [],
  )
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') assert.ok(isSluiceError(outcome.reason), String(outcome.reason))
  assert.equal(new Set(applied).size, applied.length, 'no epoch is applied twice')
  assert.equal((await store.recover?.(acme))?.epoch, Math.max(...applied))
})

test('drafts of a writer that died are no registrations, and few states stay on disk', async () => {
  const acme = await provisioned('acme')
  for (const epoch of [1, 2, 3, 4]) await write(acme, epoch, [[1n, `epoch ${epoch}`]])
  const root = join(folder, 'registrations')
  const [tenant = ''] = await readdir(root)
  const [dataset = ''] = await readdir(join(root, tenant))
  await writeFile(join(root, tenant, dataset, 'half.draft'), '{"half')
  assert.equal((await store.recover?.(acme))?.epoch, 4)
  const snapshot = await write(acme, 5, [[1n, 'epoch 5']])
  assert.equal(await names(acme, snapshot.files), '[["epoch 5"]]')
  const states = (await readdir(join(root, tenant, dataset))).filter((name) => name.endsWith('.json'))
  assert.equal(states.length, 2)
})

test('a state that was cut off or is something else counts as none, and the next write makes it anew', async () => {
  const acme = await provisioned('acme')
  await write(acme, 1, [[1n, 'epoch 1']])
  const root = join(folder, 'registrations')
  const [tenant = ''] = await readdir(root)
  const [dataset = ''] = await readdir(join(root, tenant))
  for (const [index, text] of ['', '{"domain": "sa', '[]', 'null'].entries()) {
    const states = await readdir(join(root, tenant, dataset))
    for (const state of states) await writeFile(join(root, tenant, dataset, state), text)
    assert.equal(await store.recover?.(acme), null)
    await provisioned('acme')
    const snapshot = await write(acme, 2 + index, [[1n, `after ${text}`]])
    assert.equal(await names(acme, snapshot.files), JSON.stringify([[`after ${text}`]]))
  }
})
