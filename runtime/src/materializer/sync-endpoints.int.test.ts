import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { type ReferenceConfig, ReferenceMemory } from '@sluice/conformance/reference'
import { openTenantScope, type ServingStore, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { type OutputManifest, outputSchema } from '../manifest/manifest-set.ts'
import { endpointApplied, endpointStates } from '../registry/endpoint-states.ts'
import { lockFence, passTokens, raiseFence } from '../registry/fences.ts'
import { findEpoch } from '../registry/materializations.ts'
import { createProduct, deleteProduct, type Product } from '../registry/products.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { saveVersion } from '../registry/versions.ts'
import { fullChangeSet } from './change-set.ts'
import type { MaterializeDeps } from './deps.ts'
import { withProductLock } from './product-lock.ts'
import { dropAllCopies } from './store-copies.ts'
import { catchUp, syncEndpoints } from './sync-endpoints.ts'

const registry = await startTestRegistry()
const { pool } = registry
const scratchDirectory = await mkdtemp(join(tmpdir(), 'sluice-sync-'))
after(async () => {
  await registry[Symbol.asyncDispose]()
  await rm(scratchDirectory, { recursive: true, force: true })
})

const SIGNAL = new AbortController().signal
const COLUMNS = [
  { name: 'id', type: 'integer', nullable: false, role: 'identity', classification: 'none', description: '' },
]

interface Endpoint {
  readonly type: string
  readonly config: Readonly<Record<string, unknown>>
}

async function newProduct(endpoints: readonly Endpoint[], former?: Product): Promise<Product> {
  const product = former === undefined ? await registry.product(await registry.tenant()) : await anew(former)
  await newVersion(product, '1.0.0', endpoints)
  return product
}

/** Under the name of one that was deleted. */
const anew = ({ tenant, domain, name, archetype }: Product) =>
  inTransaction(pool, (tx) => createProduct(tx, { tenant, domain, name, archetype, createdBy: ANN }))

async function newVersion(product: Product, version: string, endpoints: readonly Endpoint[]): Promise<void> {
  const normalised = { output: { columns: COLUMNS, primaryKey: ['id'] }, serving: { endpoints } }
  await inTransaction(pool, (tx) =>
    saveVersion(tx, { productId: product.id, version, digest: version, manifests: {}, normalised, deployedBy: ANN }),
  )
}

/** Epochs from `from` to `to`, a second apart; each of the snapshot with its number. */
async function commitEpochs(product: Product, from: number, to: number, version = '1.0.0'): Promise<void> {
  await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns,
       inputs, counts, committed_at)
     select 'mat_' || $2 || '_' || i, $1, $2, i, 'materialize', 'committed', $5, 'd', jsonb_build_object('clear', i::text),
       '{}', '{}', '{}', $6::timestamptz + make_interval(secs => i) from generate_series($3::int, $4::int) i`,
    [product.tenant, product.id, from, to, version, new Date(START)],
  )
  await pool.query('update product_fences set epoch = $2 where product_id = $1', [product.id, to])
}

const START = Date.parse('2024-01-01T00:00:00Z')
const committedAt = (epoch: number) => new Date(START + epoch * 1000).toISOString().replace('Z', '000Z')

const HOST = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory: scratchDirectory, seed: 1 }

/** The reference store, and what was done to it; its datasets have epochs and no rows here. */
async function openStore() {
  const store = await reference.open({ memory: new ReferenceMemory() }, new TestHost(HOST))
  const calls: string[] = []
  const seen = { dropFails: false }
  const watched: ServingStore<ReferenceConfig> = {
    ...store,
    async drop(target, mode) {
      if (seen.dropFails) throw new SluiceError('TRANSIENT', 'away', { code: 'store_unavailable' })
      if (mode === 'apply') calls.push(`drop ${target.product}/${target.variant}`)
      return store.drop(target, mode)
    },
    async write(target, changes, commit) {
      calls.push(`${changes.mode} ${commit.epoch}`)
      return store.write(target, changes, commit)
    },
  }
  return { calls, seen, store, serving: { plugin: reference, store: watched } }
}

type OpenStore = Awaited<ReturnType<typeof openStore>>

/** The store has the product, or one of its name before it, at that epoch. */
async function hadBefore(
  { store }: OpenStore,
  product: Product,
  { config }: Endpoint,
  epoch: number,
  instant: string,
  fence = 1n,
) {
  const schema = outputSchema({ columns: COLUMNS, primaryKey: ['id'] } as unknown as OutputManifest)
  const { tenant, domain, name } = product
  const target = { scope: openTenantScope(tenant), domain, product: name, variant: 'clear', schema, config } as const
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: 'd', tenantIsolation: 'forced' })
  const nothing = { snapshotId: '0', columns: [], primaryKey: ['id'], files: [], rowCount: 0 }
  const { changes } = fullChangeSet(nothing, {} as Parameters<typeof fullChangeSet>[1])
  await store.write(target, changes, { epoch, previousEpoch: null, fence, committedAt: instant, signal: SIGNAL })
}

/** @param oldest snapshots before it have expired */
function depsOf(stores: Readonly<Record<string, OpenStore>>, oldest = 1): MaterializeDeps {
  const schema = { schemaId: 0, fields: [{ ...COLUMNS[0], id: 1 }], identifierFieldIds: [1] }
  return {
    pool,
    scratchDirectory,
    plugins: {
      serving: (type: string) => {
        const serving = stores[type]?.serving
        return serving && { ...serving, plugin: { ...serving.plugin, type } }
      },
    },
    lake: {
      async scan(_ref: unknown, { snapshotId }: { readonly snapshotId: string }) {
        if (Number(snapshotId) >= oldest) return { snapshotId, schema, files: [], deletes: [], rows: 0 }
        throw new SluiceError('INVALID_DATA', 'expired', { code: 'snapshot_not_found' })
      },
    },
    engine: { open: async () => ({ results: [], close: async () => undefined }) },
    logger: { warn: () => undefined },
    rules: { sensitive: [], strategies: {} },
    faultPoint: async () => undefined,
    grants: async () => [],
  } as unknown as MaterializeDeps
}

/** Those that could not be brought up to date. */
async function failedEndpoints(...asked: Parameters<typeof syncEndpoints>): Promise<readonly string[]> {
  const stores = await syncEndpoints(...asked)
  return stores.filter(({ state }) => state === 'failed').map(({ endpoint }) => endpoint)
}

const LOOKUP = { type: 'lookup', config: {} }
const HISTORY = { type: 'lookup', config: { history_mode: 'type_2' } }
const lookupOf = (product: Product) => ({ productId: product.id, endpoint: 'lookup', variant: 'clear' })

test('a new store goes straight to the newest of however many epochs', async () => {
  const [product, store] = [await newProduct([LOOKUP]), await openStore()]
  await commitEpochs(product, 1, 10_050)
  const deps = depsOf({ lookup: store })
  assert.deepEqual(await failedEndpoints(product, SIGNAL, deps), [])
  assert.deepEqual(store.calls, ['full 10050'])
  await commitEpochs(product, 10_051, 10_060)
  assert.deepEqual(await failedEndpoints(product, SIGNAL, deps), [])
  assert.deepEqual(await failedEndpoints(product, SIGNAL, deps), [])
  assert.deepEqual(store.calls, ['full 10050', 'delta 10060'])
})

test('stores go to the newest epoch, also where another was published after the caller’s', async () => {
  for (const newest of [1, 2, 5]) {
    const [product, store] = [await newProduct([LOOKUP]), await openStore()]
    await commitEpochs(product, 1, 1)
    const made = await findEpoch(pool, product.id, 1)
    if (newest > 1) await commitEpochs(product, 2, newest)
    const stores = await syncEndpoints(product, SIGNAL, depsOf({ lookup: store }), () => undefined, made)
    assert.deepEqual([store.calls, stores.map(({ epoch }) => epoch)], [[`full ${newest}`], [newest]])
  }
})

test('whoever tries stores again says whether it was its turn', async () => {
  const product = await newProduct([LOOKUP])
  const deps = depsOf({ lookup: await openStore() })
  await commitEpochs(product, 1, 1)
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  const { promise: held, resolve: hold } = Promise.withResolvers<void>()
  const run = withProductLock(pool, product.id, SIGNAL, () => {
    hold()
    return over
  })
  await held
  assert.equal(await catchUp(product, SIGNAL, deps), false)
  end()
  await run
  assert.equal(await catchUp(product, SIGNAL, deps), true)
})

test('a history is folded from every epoch, however many there are', async () => {
  const [product, store] = [await newProduct([HISTORY]), await openStore()]
  await commitEpochs(product, 1, 10_050)
  assert.deepEqual(await failedEndpoints(product, SIGNAL, depsOf({ lookup: store })), [])
  const wanted = Array.from({ length: 10_050 }, (_, at) => `${at === 0 ? 'full' : 'delta'} ${at + 1}`)
  assert.deepEqual(store.calls, wanted)
  assert.equal((await endpointStates(pool, product.id))[0]?.appliedEpoch, 10_050)
})

test('where the snapshot of the store’s epoch has expired, it begins with a full set', async () => {
  const [current, history] = [await newProduct([LOOKUP]), await newProduct([HISTORY])]
  for (const product of [current, history]) {
    const store = await openStore()
    await commitEpochs(product, 1, 5)
    await hadBefore(store, product, product === current ? LOOKUP : HISTORY, 2, committedAt(2))
    assert.deepEqual(await failedEndpoints(product, SIGNAL, depsOf({ lookup: store }, 4)), [])
    const anew = [`drop ${product.name}/clear`, 'full 4', 'delta 5']
    assert.deepEqual(store.calls, product === current ? ['full 5'] : anew)
  }
})

test('where what the store has cannot be read in the lake any more, it begins with a full set; a history is left as it is', async () => {
  const broken = (code: string) => new SluiceError('INTERNAL', 'broken', { code })
  const scanOf = (deps: MaterializeDeps, files: readonly object[]): MaterializeDeps['lake'] => {
    const scan = async (ref: never, options: { readonly snapshotId: string }) => {
      const found = await deps.lake.scan(ref, options)
      if (options.snapshotId !== '2') return found
      if (files.length === 0) throw broken('lake_file_corrupted')
      return { ...found, files }
    }
    return { scan } as unknown as MaterializeDeps['lake']
  }
  const engine = {
    async open({ tables }: { readonly tables: readonly { readonly files: readonly string[] }[] }) {
      if (tables.some(({ files }) => files.length > 0)) throw broken('engine_io_failed')
      return { results: [], close: async () => undefined }
    },
  } as unknown as MaterializeDeps['engine']
  for (const endpoint of [LOOKUP, HISTORY]) {
    for (const files of [[], [{ localFile: '/gone.parquet', uri: 'file:///gone.parquet' }]]) {
      const [product, store] = [await newProduct([endpoint]), await openStore()]
      await commitEpochs(product, 1, 3)
      await hadBefore(store, product, endpoint, 2, committedAt(2))
      const deps = depsOf({ lookup: store })
      const isHistory = endpoint === HISTORY
      const failed = await failedEndpoints(product, SIGNAL, { ...deps, engine, lake: scanOf(deps, files) })
      assert.deepEqual([failed, store.calls], isHistory ? [['lookup'], []] : [[], ['full 3']])
    }
  }
})

test('without the newest snapshot no epoch is said to be applied', async () => {
  for (const endpoint of [LOOKUP, HISTORY]) {
    const [product, store] = [await newProduct([endpoint]), await openStore()]
    await commitEpochs(product, 1, 3)
    assert.deepEqual(await failedEndpoints(product, SIGNAL, depsOf({ lookup: store }, 4)), ['lookup'])
    const [state] = await endpointStates(pool, product.id)
    assert.deepEqual([state?.appliedEpoch, state?.error?.code], [null, 'snapshot_not_found'])
  }
})

test('what a former product of the same name has left in a store is dropped', async () => {
  const [own, sameNumber, unknown] = [committedAt(2), '2023-05-05T05:05:05.000000Z', committedAt(7)]
  for (const [epoch, instant] of [
    [2, own],
    [2, sameNumber],
    [3, sameNumber],
    [7, unknown],
  ] as const) {
    const [product, store] = [await newProduct([LOOKUP]), await openStore()]
    await commitEpochs(product, 1, 3)
    await hadBefore(store, product, LOOKUP, epoch, instant)
    assert.deepEqual(await failedEndpoints(product, SIGNAL, depsOf({ lookup: store })), [])
    assert.deepEqual(store.calls, instant === own ? ['delta 3'] : [`drop ${product.name}/clear`, 'full 3'])
  }
})

test('a writer of a former product of the same name, however late, writes nothing where the new one has written', async () => {
  const [former, store] = [await newProduct([LOOKUP]), await openStore()]
  await commitEpochs(former, 1, 3)
  const deps = depsOf({ lookup: store })
  await syncEndpoints(former, SIGNAL, deps)
  const { token } = await raiseFence(pool, former.id)
  await inTransaction(pool, (tx) => deleteProduct(tx, former.tenant, former.id))
  const product = await newProduct([LOOKUP], former)
  const { nextEpoch } = await inTransaction(pool, (tx) => lockFence(tx, product.id))
  await commitEpochs(product, nextEpoch, nextEpoch)
  await syncEndpoints(product, SIGNAL, deps)
  assert.deepEqual(store.calls, ['full 3', `drop ${product.name}/clear`, 'full 4'])
  const late = hadBefore(store, product, LOOKUP, 9, committedAt(9), token)
  await assert.rejects(late, { kind: 'FENCED', code: 'stale_fence' })
})

test('a store that has seen a newer writer than the registry, which was put back, is served again by the next attempt', async () => {
  const [product, store] = [await newProduct([LOOKUP]), await openStore()]
  await commitEpochs(product, 1, 2)
  const deps = depsOf({ lookup: store })
  await syncEndpoints(product, SIGNAL, deps)
  await commitEpochs(product, 3, 3)
  const { token } = await raiseFence(pool, product.id)
  await hadBefore(store, product, LOOKUP, 2, committedAt(2), token + 5000n)
  assert.deepEqual(await failedEndpoints(product, SIGNAL, deps), ['lookup'])
  assert.deepEqual(await failedEndpoints(product, SIGNAL, deps), [])
  const [state] = await endpointStates(pool, product.id)
  assert.deepEqual([state?.state, state?.appliedEpoch], ['ok', 3])
})

test('a writer whom another has overtaken passes nobody', async () => {
  const [product, store] = [await newProduct([LOOKUP]), await openStore()]
  await commitEpochs(product, 1, 1)
  const { token } = await raiseFence(pool, product.id)
  await passTokens(pool, product.id, token - 1n)
  assert.equal((await raiseFence(pool, product.id)).token, token + 1n)
  assert.deepEqual(store.calls, [])
})

test('an endpoint that a version has no more loses its copy, at once or when the store can', async () => {
  const [product, lookup, realtime] = [
    await newProduct([LOOKUP, { type: 'realtime', config: {} }]),
    await openStore(),
    await openStore(),
  ]
  const deps = depsOf({ lookup, realtime })
  await commitEpochs(product, 1, 1)
  await syncEndpoints(product, SIGNAL, deps)
  await newVersion(product, '2.0.0', [LOOKUP])
  await commitEpochs(product, 2, 2, '2.0.0')
  const kept = async () => {
    const state = (await endpointStates(pool, product.id)).find(({ endpoint }) => endpoint === 'realtime')
    return [state?.state, state?.attempts, state?.error?.code]
  }
  realtime.seen.dropFails = true
  await syncEndpoints(product, SIGNAL, deps)
  assert.deepEqual(await kept(), ['failed', 1, 'store_unavailable'])
  await syncEndpoints(product, SIGNAL, depsOf({ lookup }))
  assert.deepEqual(await kept(), ['failed', 2, 'store_missing'], 'a store whose plugin is not loaded cannot, either')
  realtime.seen.dropFails = false
  await syncEndpoints(product, SIGNAL, deps)
  assert.deepEqual(realtime.calls, ['full 1', `drop ${product.name}/clear`])
  assert.deepEqual(
    (await endpointStates(pool, product.id)).map(({ endpoint }) => endpoint),
    ['lookup'],
  )
  assert.deepEqual(lookup.calls, ['full 1', 'delta 2'])
})

test('a product leaves at every endpoint that it ever had no variant that it ever had', async () => {
  const [product, lookup, realtime] = [
    await newProduct([LOOKUP, { type: 'realtime', config: {} }]),
    await openStore(),
    await openStore(),
  ]
  await newVersion(product, '2.0.0', [LOOKUP])
  await commitEpochs(product, 1, 1)
  await endpointApplied(pool, { ...lookupOf(product), variant: 'masked' }, 1)
  await dropAllCopies(product, depsOf({ lookup, realtime }))
  const dropped = [`drop ${product.name}/clear`, `drop ${product.name}/masked`]
  assert.deepEqual([lookup.calls.sort(), realtime.calls.sort()], [dropped, dropped])
})

test('whoever writes a store stops where the product is being removed, however long the store would take', async () => {
  const store = await openStore()
  const product = await newProduct([{ type: 'lookup', config: {} }])
  await commitEpochs(product, 1, 1)
  const began = Promise.withResolvers<void>()
  const { serving } = store
  const endless: ServingStore<ReferenceConfig> = {
    ...serving.store,
    write(_target, _changes, { signal }) {
      began.resolve()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  }
  const deps = depsOf({ lookup: { ...store, serving: { ...serving, store: endless } } })
  const writing = syncEndpoints(product, SIGNAL, deps)
  await began.promise
  await pool.query('update product_fences set token = token + 1 where product_id = $1', [product.id])
  await assert.rejects(writing, { kind: 'FENCED' })
  const [state] = await endpointStates(pool, product.id)
  assert.equal(state?.error ?? null, null, 'no trouble of the store is noted')
})
