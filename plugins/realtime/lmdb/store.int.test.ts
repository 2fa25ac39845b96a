/** What the conformance suite cannot see from outside: what lies on disk, who owns it, how writers give way. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import {
  batchFromRows,
  type ChangeSet,
  type Commit,
  isSluiceError,
  openTenantScope,
  type ReadBatch,
  type ReadPlan,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { keyedTexts, keyPlan } from '../keyed-values/test-data.ts'
import { openEnvironment } from './environment.ts'
import plugin from './index.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
    { name: 'size', type: 'integer', nullable: true },
  ],
  primaryKey: ['id'],
}

let folder: string
let clock: VirtualClock
let host: TestHost
let store: ServingStore<RealtimeConfig>

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lmdb-'))
  clock = new VirtualClock()
  await open()
})

afterEach(async () => {
  await store.close()
  await rm(folder, { recursive: true, force: true })
})

async function open(): Promise<void> {
  host = new TestHost({ clock, logger: new RecordingLogger(), stateDirectory: folder, seed: 1 })
  store = await plugin.open({}, host)
}

function target(
  config: RealtimeConfig = { key_template: '{id}' },
  schema = SCHEMA,
  product = 'orders',
): Target<RealtimeConfig> {
  return { scope: openTenantScope('acme'), domain: 'sales', product, variant: 'clear', schema, config }
}

async function provisioned(...parts: Parameters<typeof target>): Promise<Target<RealtimeConfig>> {
  const made = target(...parts)
  await store.provision(made, 'apply')
  await store.rls.install(made, { version: '1', tenantIsolation: 'forced' })
  return made
}

function rows(from: number, count: number, name = 'n'): Row[] {
  return Array.from({ length: count }, (_, index) => [BigInt(from + index), `${name}${from + index}`, index])
}

function changes(
  mode: ChangeSet['mode'],
  upserts: readonly Row[],
  deletes: readonly Row[] = [],
  schema = SCHEMA,
): ChangeSet {
  return {
    mode,
    schema,
    upsertCount: upserts.length,
    deleteCount: deletes.length,
    async *upserts() {
      yield batchFromRows(upserts, schema.columns.length)
    },
    async *deletes() {
      yield batchFromRows(deletes, schema.primaryKey.length)
    },
    async *upsertsCsv() {},
    async *deletesCsv() {},
    upsertsKeyed: (template, columns) => keyedTexts(schema, upserts, template, columns),
    lake: { snapshotId: '1', files: [], fieldIds: {} },
  }
}

function commit(epoch: number, parts: Partial<Commit> = {}): Commit {
  return {
    epoch,
    previousEpoch: null,
    fence: 1n,
    committedAt: clock.nowText(),
    signal: AbortSignal.timeout(60_000),
    ...parts,
  }
}

async function read(
  of: Target<RealtimeConfig>,
  key: string,
  parts: Partial<ReadPlan> = {},
): Promise<ReadBatch & { readonly json: string }> {
  const columns = of.schema.columns.map(({ name }) => name)
  for await (const batch of store.read(of, keyPlan(key, columns, parts)))
    return batch as ReadBatch & { readonly json: string }
  throw new Error('no batch')
}

/** How many values lie on disk, counted by nobody but LMDB. The store is opened again afterwards. */
async function entriesOnDisk(): Promise<{
  readonly entries: number
  readonly places: number
  readonly markers: number
  readonly aborted: number
}> {
  await store.close()
  const environment = await openEnvironment(join(folder, 'lmdb'))
  const counts = {
    entries: environment.entries.getCount(),
    places: environment.places.getCount(),
    markers: environment.markers.all().length,
    aborted: environment.markers.all().reduce((count, [, marker]) => count + marker.aborted.length, 0),
  }
  await environment.close()
  await open()
  return counts
}

test('values expire on disk also when nobody reads them, and a delta is then refused', async () => {
  const orders = await provisioned({ key_template: '{id}', ttl: '1h' })
  await store.write(orders, changes('full', rows(1, 1200)), commit(1))
  assert.equal((await entriesOnDisk()).entries, 1200)
  await clock.advance(3_600_000)
  assert.equal((await entriesOnDisk()).entries, 0)
  await assert.rejects(
    store.write(orders, changes('delta', rows(1, 1)), commit(2, { previousEpoch: 1 })),
    (error) => isSluiceError(error, 'CONFLICT') && error.code === 'epoch_gap',
  )
  await store.write(orders, changes('full', rows(1, 2)), commit(2))
  assert.equal((await read(orders, '2')).json, '[{"id":2,"name":"n2","size":1}]')
})

test('what a full set replaced goes from disk with the next sweep', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 600)), commit(1))
  await store.write(orders, changes('full', rows(500, 200)), commit(2))
  assert.equal((await read(orders, '1')).rowCount, 0)
  assert.equal((await entriesOnDisk()).entries, 699)
  await clock.advance(60_000)
  assert.equal((await entriesOnDisk()).entries, 200)
})

test('a dropped dataset leaves nothing, and a drop that was interrupted is finished', async () => {
  const orders = await provisioned({ key_template: '{name}' })
  const items = await provisioned({ key_template: '{name}' }, SCHEMA, 'items')
  await store.write(orders, changes('full', rows(1, 700)), commit(1))
  await store.write(items, changes('full', rows(1, 3)), commit(1))
  // The turn is asked for again after each page; a store that closes then leaves the rest.
  const dropping = assert.rejects(store.drop(orders, 'apply'), (error) => isSluiceError(error, 'TRANSIENT'))
  await store.close()
  await dropping
  await open()
  await clock.advance(60_000)
  await store.drop(orders, 'apply')
  assert.deepEqual(await entriesOnDisk(), { entries: 3, places: 3, markers: 1, aborted: 0 })
})

test('writes that came to nothing are cleared up after', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 3)), commit(1))
  for (let attempt = 0; attempt < 70; attempt += 1) {
    const truncated = { ...changes('delta', rows(10 + attempt, 1)), upsertCount: 2 }
    await assert.rejects(store.write(orders, truncated, commit(2, { previousEpoch: 1 })))
  }
  await store.write(orders, changes('delta', rows(2, 1, 'new')), commit(2, { previousEpoch: 1 }))
  assert.equal((await read(orders, '10')).rowCount, 0)
  assert.equal((await read(orders, '2')).json, '[{"id":2,"name":"new2","size":0}]')
  const { aborted } = await entriesOnDisk()
  assert.ok(aborted > 0 && aborted <= 32, `${aborted} writes that came to nothing are still noted`)
  await clock.advance(60_000)
  assert.deepEqual(await entriesOnDisk(), { entries: 3, places: 0, markers: 1, aborted: 0 })
})

test('a newer writer sends an older one away in the middle of its write', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 3)), commit(1))
  const winner = Promise.withResolvers<unknown>()
  host.atEachPoint((point) => {
    if (point !== 'realtime.after-begin') return
    host.atEachPoint(null)
    store.write(orders, changes('full', rows(5, 1)), commit(2, { fence: 2n })).then(winner.resolve, winner.reject)
  })
  await assert.rejects(store.write(orders, changes('full', rows(1, 5000)), commit(2)), (error) =>
    isSluiceError(error, 'FENCED'),
  )
  await winner.promise
  assert.equal((await read(orders, '5')).rowCount, 1)
  assert.equal((await read(orders, '1')).rowCount, 0)
})

test('close ends a running write, and the next start takes it up', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 3)), commit(1))
  let closing: Promise<void> | null = null
  host.atEachPoint((point) => {
    if (point === 'realtime.after-begin') closing = store.close()
  })
  const full = changes('full', rows(1, 5000, 'late'))
  await assert.rejects(store.write(orders, full, commit(2)), (error) => isSluiceError(error, 'TRANSIENT'))
  await closing
  await open()
  assert.equal((await read(orders, '1')).json, '[{"id":1,"name":"n1","size":0}]')
  await store.write(orders, full, commit(2))
  assert.equal((await read(orders, '1')).json, '[{"id":1,"name":"late1","size":0}]')
})

test('another template, or other columns, begins anew with the same epoch', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 3)), commit(1))
  for (const config of [{ key_template: 'o:{id}' }, { key_template: 'o:{id}', include_columns: ['id', 'size'] }]) {
    const changed = target(config)
    const plan = await store.provision(changed, 'plan')
    assert.deepEqual(
      plan.steps.map(({ action }) => action),
      ['replace'],
    )
    await store.provision(changed, 'apply', plan.hash)
    await assert.rejects(read(changed, 'o:1'), (error) => isSluiceError(error, 'TRANSIENT'))
    await store.write(changed, changes('full', rows(1, 3)), commit(1))
    assert.equal((await read(changed, '1')).rowCount, 0)
    assert.equal((await read(changed, 'o:1')).rowCount, 1)
  }
  const stored = target({ key_template: 'o:{id}', include_columns: ['id', 'size'] })
  assert.equal((await read(stored, 'o:2')).json, '[{"id":2,"name":null,"size":1}]')
})

test('a row policy over a column that is not stored lets nothing pass', async () => {
  const orders = await provisioned({ key_template: '{id}', include_columns: ['id'] })
  await store.write(orders, changes('full', rows(1, 1)), commit(1))
  const visible = { version: '1', claims: {}, visibleColumns: ['id'], maskedColumns: [] }
  const under = (policy: ReadPlan['policy']) => read(orders, '1', { columns: ['id'], policy })
  assert.equal((await under({ ...visible, rows: { op: 'not', of: { op: 'is_null', column: 'id' } } })).rowCount, 1)
  assert.equal((await under({ ...visible, rows: { op: 'is_null', column: 'name' } })).rowCount, 0)
  assert.equal((await under({ ...visible, rows: { op: 'not', of: { op: 'is_null', column: 'name' } } })).rowCount, 0)
})

test('a column that is added is null in values from before', async () => {
  const orders = await provisioned()
  await store.write(orders, changes('full', rows(1, 2)), commit(1))
  const wider: TableSchema = {
    ...SCHEMA,
    columns: [...SCHEMA.columns, { name: 'more', type: 'string', nullable: true }],
  }
  const grown = await provisioned({ key_template: '{id}' }, wider)
  assert.equal((await read(grown, '1')).json, '[{"id":1,"name":"n1","size":0,"more":null}]')
  await store.write(grown, changes('delta', [[2n, 'n2', 1, 'x']], [], wider), commit(2, { previousEpoch: 1 }))
  assert.equal((await read(grown, '2')).json, '[{"id":2,"name":"n2","size":1,"more":"x"}]')
  await assert.rejects(
    store.provision(target({ key_template: '{id}' }, { ...SCHEMA, primaryKey: ['name'] }), 'plan'),
    (error) => isSluiceError(error, 'CONFLICT') && error.code === 'schema_conflict',
  )
})

test('a second store on the folder is refused, and a lock whose owner is gone is taken over', async () => {
  const second = new TestHost({ clock, logger: new RecordingLogger(), stateDirectory: folder, seed: 1 })
  await assert.rejects(
    plugin.open({}, second),
    (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'store_in_use',
  )
  await store.close()
  const index = new URL('./environment.ts', import.meta.url).href
  const script = `const { openEnvironment } = await import(${JSON.stringify(index)})
    await openEnvironment(${JSON.stringify(join(folder, 'lmdb'))}); console.log('open'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  await assert.rejects(open(), (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'store_in_use')
  child.kill('SIGKILL')
  await once(child, 'exit')
  await open()
  await provisioned()
})

test('a disk without space ends neither the process nor what is served', {
  skip: process.platform === 'win32',
}, async () => {
  const data = await mkdtemp(join(tmpdir(), 'sluice-lmdb-'))
  const script = join(import.meta.dirname, 'full-disk.test-data.ts')
  const child = spawn('sh', ['-c', 'ulimit -f 4096; exec "$0" "$1" "$2"', process.execPath, script, data], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const [code] = await once(child, 'close')
  await rm(data, { recursive: true, force: true })
  assert.equal(code, 0, said)
  const last = said.slice(said.indexOf('{"told"')).split('\n')[0] as string
  const failed = ['TRANSIENT', 'store_failed']
  assert.deepEqual(JSON.parse(last), { told: [failed, failed], served: '10', applied: 1 })
})

const LOST = ['TRANSIENT', 'store_lost']
const NOTHING = ['TRANSIENT', 'not_materialized']
const SPOILED = ['emptied', 'cut in half', 'overwritten', 'without its locks', 'removed']

for (const [how, when] of [...SPOILED.map((how) => [how, 'idle']), ['emptied', 'writing']] as const) {
  test(`a file that is ${how} beneath a store that is ${when} ends no process, and is made anew`, {
    skip: process.platform === 'win32',
  }, async () => {
    const data = await mkdtemp(join(tmpdir(), 'sluice-lmdb-'))
    const script = join(import.meta.dirname, 'spoiled-file.test-data.ts')
    const child = spawn(process.execPath, [script, data, how as string, when as string], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
    const end = await once(child, 'close')
    await rm(data, { recursive: true, force: true })
    assert.deepEqual(end, [0, null], said)
    const { after, ...told } = JSON.parse(said.split('\n').at(-2) as string)
    const inHand = when === 'writing' ? LOST : null
    assert.deepEqual(told, { before: '2000', inHand, renewed: [NOTHING, null], again: '10' })
    // It may be new by then.
    assert.ok(String(after) === String(LOST) || String(after) === String(NOTHING), String(after))
  })
}
