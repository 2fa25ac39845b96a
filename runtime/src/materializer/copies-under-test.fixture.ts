/** Products with rows in a real lake, and copies of them in reference stores that can be made to lie. */
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { type ReferenceConfig, ReferenceMemory } from '@sluice/conformance/reference'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, startTestLake, type TestLake } from '@sluice/iceberg/testing'
import type { ServingPlugin, ServingStore, TableSchema } from '@sluice/sdk'
import type pg from 'pg'
import { DASHBOARD_MIGRATIONS } from '../dashboards/migrations.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { eventMigrations } from '../events/migrations.ts'
import { provisionTopics } from '../events/outbox.ts'
import { createDeployment } from '../registry/deployments.ts'
import { endpointPending, endpointStates } from '../registry/endpoint-states.ts'
import { registryMigrations } from '../registry/migrations.ts'
import { createProduct, findProduct, type Product } from '../registry/products.ts'
import { nextToCompare } from '../registry/store-comparisons.ts'
import { createTenant, setTenantStatus } from '../registry/tenants.ts'
import { ANN } from '../registry/testing.ts'
import { saveVersion } from '../registry/versions.ts'
import { type ComparisonDeps, type ComparisonEnd, type ComparisonSettings, compareOne } from './comparison-job.ts'
import { Pace } from './copy-rows.ts'
import type { SyncEndpointsDeps } from './sync-endpoints.ts'
import { syncEndpoints } from './sync-endpoints.ts'

export type Store = ServingStore<ReferenceConfig>

/** What the store says or does in place of the truth. */
export type Lies = { -readonly [Hook in keyof Store]?: Store[Hook] }

export interface Endpoint {
  readonly type: string
  readonly config: ReferenceConfig
}

export interface StoreUnderTest {
  readonly honest: Store
  readonly lies: Lies
  readonly memory: ReferenceMemory
  readonly serving: {
    readonly type: string
    readonly plugin: ServingPlugin<never, ReferenceConfig>
    readonly store: Store
  }
}

const SIGNAL = new AbortController().signal

const OUTPUT = [
  { name: 'id', type: 'integer', nullable: false, role: 'identity', classification: 'none', description: '' },
  { name: 'name', type: 'string', nullable: true, classification: 'pii.name', description: '' },
  { name: 'score', type: 'double', nullable: true, classification: 'none', description: '' },
]

export const SCHEMA: TableSchema = {
  columns: OUTPUT.map(({ name, type, nullable }) => ({ name, type, nullable })) as unknown as TableSchema['columns'],
  primaryKey: ['id'],
}

/** Rows 1 … `count`. */
export const rowsTo = (count: number, name = "'n' || i") =>
  `SELECT i::INTEGER AS id, ${name} AS name, if(i % 5 = 0, NULL, i / 3) AS score FROM range(1, ${count + 1}) t(i)`

export interface World extends AsyncDisposable {
  readonly pool: pg.Pool
  readonly lake: TestLake
  readonly logger: RecordingLogger
  /** What the comparisons of the world have ended with. */
  readonly ended: ComparisonEnd[]
  tenant(): Promise<string>
  product(endpoints: readonly Endpoint[], tenant?: string, name?: string): Promise<Product>
  version(product: Product, version: string, endpoints: readonly Endpoint[]): Promise<void>
  /** The lake's rows in clear, and with `name` hidden; the stores have them to come. */
  epoch(product: Product, epoch: number, select: string, version?: string): Promise<void>
  /** It was deployed by that plan. */
  deployment(product: Product, plan: unknown): Promise<void>
  openStore(type: string): Promise<StoreUnderTest>
  deps(...stores: readonly StoreUnderTest[]): ComparisonDeps & SyncEndpointsDeps
  sync(product: Product, ...stores: readonly StoreUnderTest[]): ReturnType<typeof syncEndpoints>
  /** Compares every copy of the product's tenant that is due, whatever was compared when. */
  compare(product: Product, ...stores: readonly StoreUnderTest[]): Promise<readonly ComparisonEnd[]>
}

const FAST: ComparisonSettings = { everyMs: 3_600_000, rowsPerSecond: 10_000_000, share: 1 }

/** @param classes of the column `name`: one that is masked gives a product two variants */
export async function startWorld(settings = FAST, classes = 'pii.name'): Promise<World> {
  const database = await (await startTestPostgres()).createDatabase({
    migrations: [registryMigrations, eventMigrations, DASHBOARD_MIGRATIONS],
  })
  const pool = database.pool({ maxConnections: 12 })
  const lake = await startTestLake()
  const logger = new RecordingLogger()
  const ended: ComparisonEnd[] = []
  const clock = new VirtualClock()
  let names = 0
  /** Tables by the statement that made them, and by their snapshot: products of the same rows share one. */
  const bySelect = new Map<string, string>()
  const bySnapshot = new Map<string, TableRef>()
  const snapshotOf = async (select: string): Promise<string> => {
    const known = bySelect.get(select)
    if (known !== undefined) return known
    const ref = { warehouse: 'acme', namespace: 'sales', table: `t${(names += 1)}` }
    await commitStep(lake, ref, { operation: 'replace', schema: SCHEMA, select })
    const snapshotId = String((await lake.lake.scan(ref)).snapshotId)
    bySelect.set(select, snapshotId)
    bySnapshot.set(snapshotId, ref)
    return snapshotId
  }
  const scan: TestLake['lake']['scan'] = (_, at, signal) =>
    lake.lake.scan(bySnapshot.get(String((at as { readonly snapshotId: string }).snapshotId)) as TableRef, at, signal)

  const world: World = {
    ...{ pool, lake, logger, ended },
    async tenant() {
      const slug = `t${(names += 1)}`
      await inTransaction(pool, async (tx) => {
        await createTenant(tx, { slug, displayName: slug, tier: 'standard' })
        await provisionTopics(tx, slug)
      })
      await setTenantStatus(pool, slug, 'active')
      return slug
    },
    async product(endpoints, tenant, name = `p${(names += 1)}`) {
      const slug = tenant ?? (await world.tenant())
      const wanted = { tenant: slug, domain: 'sales', name, archetype: 'aggregate', createdBy: ANN } as const
      const product = await inTransaction(pool, (tx) => createProduct(tx, wanted))
      await world.version(product, '1.0.0', endpoints)
      return product
    },
    async version(product, version, endpoints) {
      const columns = OUTPUT.map((column) => (column.name === 'name' ? { ...column, classification: classes } : column))
      const output = { columns, primaryKey: ['id'] }
      const normalised = { output, inputs: [], serving: { endpoints } }
      const kept = { productId: product.id, version, digest: version, manifests: {}, normalised, deployedBy: ANN }
      await inTransaction(pool, (tx) => saveVersion(tx, kept))
      await pool.query('update products set current_version = $2 where id = $1', [product.id, version])
    },
    async epoch(product, epoch, select, version = '1.0.0') {
      const hidden = `SELECT id, '***' AS name, score FROM (${select})`
      const clear = await snapshotOf(select)
      const snapshots = classes === 'none' ? { clear } : { clear, masked: await snapshotOf(hidden) }
      await pool.query(
        `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots,
           masked_columns, inputs, counts, committed_at)
         values ($1, $2, $3, $4, 'materialize', 'committed', $5, $5, $6, '{}', '{}', '{}', $7)`,
        [
          `mat_${product.id}_${epoch}`,
          product.tenant,
          product.id,
          epoch,
          version,
          snapshots,
          new Date(clock.nowMs() + epoch),
        ],
      )
      await pool.query('update product_fences set epoch = $2 where product_id = $1', [product.id, epoch])
      for (const { endpoint, variant } of await endpointStates(pool, product.id)) {
        await endpointPending(pool, { productId: product.id, endpoint, variant })
      }
    },
    async deployment({ tenant, id: productId }, plan) {
      const about = { tenant, productId, kind: 'deploy', version: '1.0.0', digest: '1.0.0', fence: 1n } as const
      await createDeployment(pool, { ...about, plan, createdBy: ANN })
    },
    async openStore(type) {
      const memory = new ReferenceMemory()
      const host = { clock, logger: new RecordingLogger(), stateDirectory: lake.dir, seed: 1 }
      const honest = await reference.open({ memory }, new TestHost(host))
      const lies: Lies = {}
      const store = new Proxy(honest, { get: (target, hook) => lies[hook as never] ?? target[hook as keyof Store] })
      return { honest, lies, memory, serving: { type, plugin: { ...reference, type } as never, store } }
    },
    deps(...stores) {
      const plugins = {
        serving: (type: string) => stores.find(({ serving }) => serving.type === type)?.serving,
        servingTypes: () => stores.map(({ serving }) => serving),
      }
      return {
        ...{ pool, lake: { scan }, engine: lake.engine, limits: LIMITS, scratchDirectory: lake.dir, logger, plugins },
        rules: { sensitive: ['pii.name'], strategies: {} },
        faultPoint: async () => undefined,
        grants: async () => [],
        nowMs: () => clock.nowMs(),
        onLost: () => undefined,
        onCompared: () => undefined,
      } as unknown as ComparisonDeps & SyncEndpointsDeps
    },
    async sync(product, ...stores) {
      const now = (await findProduct(pool, product.tenant, product.id)) as Product
      return syncEndpoints(now, SIGNAL, world.deps(...stores))
    },
    async compare(product, ...stores) {
      await pool.query('update store_comparisons set due_at = now() where product_id = $1', [product.id])
      const ends: ComparisonEnd[] = []
      for (;;) {
        const types = stores.map(({ serving }) => serving.type)
        const copy = await nextToCompare(pool, product.tenant, types)
        if (copy === null) return ends
        ends.push(await compareOne(copy, settings, new Pace(settings), world.deps(...stores), SIGNAL))
      }
    },
    async [Symbol.asyncDispose]() {
      await lake[Symbol.asyncDispose]()
      await database.drop()
    },
  }
  return world
}
