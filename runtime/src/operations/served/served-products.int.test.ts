/** What readers cost while stores are given an epoch, and that they are told all the same of what has become another. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { type ReferenceConfig, ReferenceMemory } from '@sluice/conformance/reference'
import { openTenantScope, type ServingStore } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { type OutputManifest, outputSchema } from '../../manifest/manifest-set.ts'
import { fullChangeSet } from '../../materializer/change-set.ts'
import { endpointApplied, endpointFailed, endpointsPending, lostCopy } from '../../registry/endpoint-states.ts'
import { grantProduct } from '../../registry/grants.ts'
import type { Product } from '../../registry/products.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import { saveVersion } from '../../registry/versions.ts'
import { ServedProducts } from './served-products.ts'

const registry = await startTestRegistry()
const stateDirectory = await mkdtemp(join(tmpdir(), 'sluice-served-'))
after(async () => {
  await registry[Symbol.asyncDispose]()
  await rm(stateDirectory, { recursive: true, force: true })
})

const TYPES = ['lookup', 'timeseries'] as const
type Type = (typeof TYPES)[number]
const OUTPUT = {
  columns: [
    { name: 'id', type: 'integer', nullable: false, role: 'identity', classification: 'none', description: '' },
  ],
  primaryKey: ['id'],
}
const NORMALISED = {
  product: { classification: 'internal' },
  output: OUTPUT,
  serving: { endpoints: TYPES.map((type) => ({ type, config: {} })) },
}
const START_MS = Date.parse('2024-01-01T00:00:00Z')
const instantOf = (epoch: number) => new Date(START_MS + epoch * 1000).toISOString().replace('Z', '000Z')

let statements = 0
const pool = new Proxy(registry.pool, {
  get(target, name) {
    if (name === 'query') statements += 1
    const value: unknown = Reflect.get(target, name)
    return typeof value === 'function' ? value.bind(target) : value
  },
})
/** Stores that were asked what they have. */
let asked: Type[] = []
const stores = new Map<string, { readonly plugin: typeof reference; readonly store: ServingStore<ReferenceConfig> }>()
for (const type of TYPES) {
  const host = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory, seed: 1 }
  const store = await reference.open({ memory: new ReferenceMemory() }, new TestHost(host))
  const watched = {
    ...store,
    async recover(target: Parameters<NonNullable<typeof store.recover>>[0]) {
      asked.push(type)
      return (await store.recover?.(target)) ?? null
    },
  }
  stores.set(type, { plugin: reference, store: watched as typeof store })
}

let product: Product
let isListening = true
let served: ServedProducts

beforeEach(async () => {
  isListening = true
  const deps = {
    ...{ pool, rules: { sensitive: [], strategies: {} }, logger: new RecordingLogger() },
    ...{ plugins: { serving: (type: string) => stores.get(type) }, noteMasks: async () => 'noted' },
    hearsChanges: () => isListening,
  }
  served = new ServedProducts(deps as unknown as ConstructorParameters<typeof ServedProducts>[0])
  product = await registry.product(await registry.tenant())
  const version = { productId: product.id, version: '1.0.0', digest: 'd', manifests: {}, normalised: NORMALISED }
  await inTransaction(registry.pool, (tx) => saveVersion(tx, { ...version, deployedBy: ANN }))
  await registry.pool.query("update products set current_version = '1.0.0' where id = $1", [product.id])
  await commit(1)
  for (const type of TYPES) await write(type, 1)
})

/** As a run does: stores have it to come. */
async function commit(epoch: number): Promise<void> {
  await inTransaction(registry.pool, async (tx) => {
    await tx.query('update product_fences set epoch = $2 where product_id = $1', [product.id, epoch])
    await tx.query(
      `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, masks,
         inputs, counts, committed_at)
       values ($1, $2, $3, $4, 'materialize', 'committed', '1.0.0', 'd', '{"clear": "1"}', '{}', '{"clear": {}}', '{}', '{}', $5)`,
      [`${product.id}-${epoch}`, product.tenant, product.id, epoch, instantOf(epoch)],
    )
    const copies = TYPES.map((endpoint) => ({ endpoint, variant: 'clear' }))
    await endpointsPending(tx, product.id, copies)
  })
}

/** By whatever runtime: this one is not told. */
async function write(type: Type, epoch: number): Promise<void> {
  const { store } = stores.get(type) as { readonly store: ServingStore<ReferenceConfig> }
  const schema = outputSchema(OUTPUT as unknown as OutputManifest)
  const { tenant, domain, name } = product
  const target = {
    scope: openTenantScope(tenant),
    domain,
    product: name,
    variant: 'clear',
    schema,
    config: {},
  } as const
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: 'd', tenantIsolation: 'forced' })
  const nothing = { snapshotId: '0', columns: [], primaryKey: ['id'], files: [], rowCount: 0 }
  const { changes } = fullChangeSet(nothing, {} as Parameters<typeof fullChangeSet>[1])
  const { signal } = new AbortController()
  const at = { epoch, previousEpoch: null, fence: BigInt(epoch), committedAt: instantOf(epoch), signal }
  await store.write(target, changes, at)
  await endpointApplied(registry.pool, keyOf(type), epoch)
}

const keyOf = (endpoint: Type) => ({ productId: product.id, endpoint, variant: 'clear' })

/** What a read finds, what it asked the registry, and which stores. */
async function look() {
  statements = 0
  asked = []
  const found = await served.find(product.tenant, product.id)
  // What is kept of it is decided right after.
  await new Promise((resolve) => setImmediate(resolve))
  const epochs = TYPES.map((type) => found.endpoints.get(type)?.targets.get('clear')?.epoch)
  return { found, epochs, statements, asked: asked.toSorted() }
}

/** An epoch is committed and told, and the first read has loaded all of the product. */
async function whileWritten(epoch = 2) {
  await commit(epoch)
  served.drop(product.tenant)
  return look()
}

test('while stores are given an epoch, reads look whether copies have come, and ask of nothing else', async () => {
  const whole = await look()
  assert.deepEqual([whole.epochs, whole.asked], [[1, 1], [...TYPES]])
  assert.equal((await look()).statements, 0)
  const first = await whileWritten()
  assert.equal(first.statements, whole.statements + 1, 'the epoch that stores still have')
  for (let read = 0; read < 5; read += 1) {
    const { found, statements: spent, asked: stores } = await look()
    assert.deepEqual([found, spent, stores], [first.found, 1, []])
  }
  await write('lookup', 2)
  const { epochs, statements: spent, asked: stores } = await look()
  assert.deepEqual([epochs, spent, stores], [[2, 1], 1, ['lookup']])
  await write('timeseries', 2)
  assert.deepEqual((await look()).epochs, [2, 2])
  assert.equal((await look()).statements, 0)
})

test('reads at once are one', async () => {
  await whileWritten()
  statements = 0
  await Promise.all(Array.from({ length: 10 }, () => served.find(product.tenant, product.id)))
  assert.equal(statements, 1)
})

test('what is told meanwhile is seen', async () => {
  await whileWritten()
  const grant = { tenant: product.tenant, productId: product.id, may: 'read', classes: [], grantedBy: ANN } as const
  const to = { subjectType: 'user', subject: 'ben', issuer: ANN.issuer } as const
  await inTransaction(registry.pool, (tx) => grantProduct(tx, { ...grant, ...to }))
  served.drop(product.tenant)
  const { found } = await look()
  assert.deepEqual(
    found.grants.map(({ subject }) => subject),
    ['ben'],
  )
  const { found: later } = await whileWritten(3)
  assert.equal(later.variants.get('clear')?.epoch, 3)
})

test('what is told while a read is under way is seen by the next', async () => {
  await whileWritten()
  const underWay = served.find(product.tenant, product.id)
  await commit(3)
  served.drop(product.tenant)
  await underWay
  assert.equal((await look()).found.variants.get('clear')?.epoch, 3)
})

test('a copy of an epoch that nobody has told of yet has the product loaded anew', async () => {
  await whileWritten()
  await commit(3)
  await write('lookup', 3)
  const { found, epochs } = await look()
  assert.deepEqual([epochs, found.variants.get('clear')?.epoch], [[3, 1], 3])
})

test('a copy that is lost is seen, and nothing is kept until it is there again', async () => {
  await whileWritten()
  await endpointFailed(registry.pool, keyOf('lookup'), lostCopy('emptied'), 60_000)
  const { found } = await look()
  assert.deepEqual([...(found.endpoints.get('lookup')?.rebuilding ?? [])], ['clear'])
  assert.ok((await look()).statements > 5)
  await write('lookup', 2)
  assert.deepEqual((await look()).epochs, [2, 1])
})

test('while changes are not heard of, each read loads all', async () => {
  isListening = false
  const first = await whileWritten()
  assert.equal((await look()).statements, first.statements)
})
