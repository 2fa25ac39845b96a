/**
 * The composition root: the one place that knows the dependency container, and how everything is put together. What
 * needs starting is started through the lifecycle, then registered under its token.
 */
import { registryCatalog, storeAddresses } from './lake/registry-catalog.ts'
import 'reflect-metadata'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { TrinoClient, type TrinoSettings } from '@sluice/analytics/trino/statements'
import {
  bundleChild,
  bundleProgram,
  codeFolder,
  createEngine,
  type Engine,
  type EngineLimits,
  type PooledEngine,
  type WallName,
} from '@sluice/engine'
import {
  type ConnectorHost,
  type LakeEngine,
  type Logger,
  type ServingPlugin,
  SluiceError,
  tenantOf,
} from '@sluice/sdk'
import type pg from 'pg'
import { Registry as MetricsRegistry } from 'prom-client'
import { type DependencyContainer, container as root } from 'tsyringe'
import type { Confinement } from './assembly/confinement.ts'
import { openDashboardServer } from './assembly/dashboard-server.ts'
import type { Lifecycle } from './assembly/lifecycle.ts'
import { ownEndpoints } from './assembly/own-endpoints.ts'
import { type Databases, openDatabases, openObjectStore } from './assembly/storage.ts'
import { TOKENS } from './assembly/tokens.ts'
import { CatalogLogins } from './catalog/logins.ts'
import { ReachableFiles } from './catalog/reachable-files.ts'
import { Sandbox } from './catalog/sandbox.ts'
import { openSignedFiles, type SignedFiles } from './catalog/signed-files.ts'
import { DistributedCompute } from './compute/distributed.ts'
import type { Config } from './config.ts'
import { wishDashboards } from './dashboards/states.ts'
import { parseAddress } from './database/address.ts'
import { openListener } from './database/listener.ts'
import { type AppliedMigration, migrate } from './database/migrate.ts'
import { openPool } from './database/pools.ts'
import type { EventBus } from './events/bus.ts'
import { EventFeed } from './events/feed.ts'
import { openKafkaBus } from './events/kafka-bus.ts'
import { openKafkaChanges } from './events/kafka-changes.ts'
import type { KafkaSettings } from './events/kafka-client.ts'
import { appendEvent } from './events/outbox.ts'
import { EventRelay, type RelayOptions } from './events/relay.ts'
import { forgetRelays } from './events/relay-positions.ts'
import { faultPointsFrom } from './fault-points.ts'
import { createNetworkPolicy } from './ingestion/network.ts'
import { SourceReaders } from './ingestion/source-readers.ts'
import { namingBrokenFiles } from './lake/broken-files.ts'
import { Lake } from './lake/lake.ts'
import type { ObjectStore } from './lake/object-store.ts'
import type { ManifestSet } from './manifest/manifest-set.ts'
import { parsingIn } from './manifest/parsing.ts'
import { ChangeRelay } from './materializer/change-relay.ts'
import type { MaterializeDeps } from './materializer/materialize.ts'
import { changeMetrics } from './metrics/changes.ts'
import { cpuMetrics, slotMetrics } from './metrics/engine.ts'
import { MIGRATIONS } from './migrations.ts'
import type { Platform } from './operations/platform.ts'
import { openSight, seesCheck, shownQuality } from './operations/products/visible-quality.ts'
import { ServedProducts } from './operations/served/served-products.ts'
import { checkStorage } from './operations/tenants/tenants.ts'
import { ParseThreads } from './parsing/parse-threads.ts'
import { createClock, createHost } from './plugins/host.ts'
import type { LoadedPlugin } from './plugins/loader.ts'
import { PluginMetrics } from './plugins/plugin-metrics.ts'
import { openPlugins, type PluginSet } from './plugins/plugin-set.ts'
import type { NamingIssuer } from './policy/identity.ts'
import { withRaised } from './policy/raised.ts'
import { forgetChangeTopics } from './registry/change-topics.ts'
import { CpuAccounts, type CpuLedger } from './registry/cpu-accounts.ts'
import { chargeCpu, spentBudgets } from './registry/cpu-budgets.ts'
import { loseCopies } from './registry/endpoint-states.ts'
import { productGrants } from './registry/grants.ts'
import { openMasterKeyFile } from './registry/master-keys.ts'
import { POLICY_CHANNEL } from './registry/policy-versions.ts'
import type { Product } from './registry/products.ts'
import { blockingColumns } from './registry/raised-classes.ts'
import type { Queryable } from './registry/sql.ts'
import { maskKey, neededMasterKeys } from './registry/tenant-keys.ts'
import { hasHadTenants } from './registry/tenants.ts'
import { findVersion } from './registry/versions.ts'
import { replaceViolatingRows } from './registry/violating-rows.ts'

/** Less than requests have: they end by saying that the registry does not answer. */
const REGISTRY_STATEMENT_MS = 15_000

const MB = 1024 * 1024
const OWN_MEMORY_BYTES = 512 * MB
const SPILL_BYTES = 64 * 1024 * MB
const THREADS = 2

export interface Assembled {
  readonly container: DependencyContainer
  readonly databases: Databases
  readonly metrics: MetricsRegistry
  /** Makes ready what is needed soon, once the runtime serves. */
  warm(): void
}

export async function assemble(
  config: Config,
  logger: Logger,
  lifecycle: Lifecycle,
  issuers: readonly NamingIssuer[],
  { neededWalls, isConfined }: Confinement,
): Promise<Assembled> {
  const container = root.createChildContainer()
  const metrics = new MetricsRegistry()
  const pluginMetrics = new PluginMetrics(metrics)
  const faultPoint = faultPointsFrom(process.env['SLUICE_FAULT'])
  const databases = await lifecycle.start(
    'the databases',
    () => openDatabases(config),
    async ({ embedded }) => embedded?.stop(),
  )
  const pool = await lifecycle.start(
    'the registry',
    () =>
      openPool(databases.registry, {
        applicationName: 'sluice',
        maxConnections: 30,
        statementTimeoutMs: REGISTRY_STATEMENT_MS,
      }),
    (opened) => opened.end(),
  )
  const migrating = openPool(databases.registry, {
    applicationName: 'sluice',
    maxConnections: 1,
    statementTimeoutMs: 0,
  })
  await migrate(migrating, MIGRATIONS, { onNewer: (newer) => tellNewer(newer, logger) }).finally(() => migrating.end())
  const scratchDirectory = join(config.data_dir, 'scratch')
  await rm(scratchDirectory, { recursive: true, force: true })
  await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
  const accounts = new CpuAccounts({ ledger: cpuLedger(pool, config), logger, onUsed: cpuMetrics(metrics) })
  await lifecycle.start(
    'the accounts of CPU time',
    () => accounts.start(),
    () => accounts.stop(),
  )
  const bareEngine = await lifecycle.start(
    'the engine',
    () => openEngine(config, accounts, neededWalls, scratchDirectory, logger),
    (opened) => opened.close(),
  )
  const threads = await lifecycle.start(
    'the threads that parse',
    () => openThreads(config, logger),
    (opened) => opened.close(),
  )
  const objects = await lifecycle.start(
    'the object store',
    async () => openObjectStore(config, await storeAddresses(pool)),
    (opened) => opened.close(),
  )
  const { store } = objects
  if (config.object_store.type === 'folder') await checkLakeIsKnown(pool, store)
  const engine = namingBrokenFiles(objects.engineOver(bareEngine), store)
  const lake = new Lake({ store, catalog: registryCatalog(pool), engine })
  const rules = { sensitive: config.masking.sensitive, strategies: config.masking.strategies }
  const masters = openMasterKeyFile(join(config.secrets_dir, 'master-keys.json'), await neededMasterKeys(pool))
  const services = {
    logger,
    faultPoint,
    dataDirectory: config.data_dir,
    lakeEngine: lakeEngineOver(engine),
  }
  const sources = await lifecycle.start(
    'the readers of sources',
    async () => openSources(config, accounts, neededWalls),
    (opened) => opened.close(),
  )
  slotMetrics(metrics, { engine: () => bareEngine.load(), source: () => sources.load() })
  const plugins = await lifecycle.start(
    'the plugins',
    () =>
      openPlugins({
        specifiers: config.plugins,
        baseDirectory: process.cwd(),
        serving: config.serving,
        proof: {
          allowUnproved: config.allow_unproved,
          trustedKeys: config.certificates.trusted_keys,
          folder: config.certificates.folder ?? null,
        },
        wallConnector: (plugin, moduleUrl) => sources.wall(plugin, moduleUrl),
        onLoaded: (loaded) => tellProof(loaded, logger),
        defaultSettings: (plugin) => defaultSettings(plugin, databases),
        hostFor: (plugin) => createHost(`${plugin.type}-${plugin.name}`, services, pluginMetrics),
      }),
    (opened) => opened.close(),
  )
  if (objects.isMoved) await afterMove(pool, plugins, logger)
  await objects.keepPlace()
  const events = await lifecycle.start(
    'events',
    () => new EventFeed({ pool, address: databases.registry }),
    (feed) => feed.close(),
  )
  const bus = await openBus(config, { pool, address: databases.registry, logger }, lifecycle)
  const dashboards = await lifecycle.start(
    'dashboards',
    () => openDashboardServer(config, databases, logger),
    (opened) => opened?.close(),
  )
  const served: ServedProducts = new ServedProducts({
    pool,
    plugins,
    rules,
    logger,
    hearsChanges: () => news.isListening,
  })
  const news = await lifecycle.start(
    'policy news',
    () => listenForPolicies(databases, served),
    (listener) => listener.close(),
  )
  container.register(TOKENS.config, { useValue: config })
  container.register(TOKENS.logger, { useValue: logger })
  container.register(TOKENS.faultPoint, { useValue: faultPoint })
  container.register(TOKENS.pool, { useValue: pool })
  container.register(TOKENS.masters, { useValue: masters })
  container.register(TOKENS.engine, { useValue: engine })
  container.register(TOKENS.threads, { useValue: threads })
  container.register(TOKENS.lake, { useValue: lake })
  const distributed = distributedBy((config.compute.trino as TrinoSettings | undefined) ?? servingTrino(config))
  container.register(TOKENS.distributed, { useFactory: () => distributed })
  container.register(TOKENS.sandbox, { useValue: new Sandbox({ pool, store: objects.store, lake, nowMs: Date.now }) })
  container.register(TOKENS.reachable, { useValue: new ReachableFiles() })
  const signedFiles = await lifecycle.start(
    'signing for the object store',
    () => signedFilesOf(config),
    (opened) => opened?.relay.close(),
  )
  container.register(TOKENS.signedFiles, { useFactory: () => signedFiles })
  container.register(TOKENS.catalogLogins, { useValue: await openLogins(config, databases, pool) })
  container.register(TOKENS.rules, { useValue: rules })
  container.register(TOKENS.issuers, { useValue: issuers })
  container.register(TOKENS.plugins, { useValue: plugins })
  container.register(TOKENS.events, { useValue: events })
  container.register(TOKENS.bus, { useFactory: () => bus })
  container.register(TOKENS.served, { useValue: served })
  container.register(TOKENS.dashboards, { useFactory: () => dashboards })
  registerPlugins(container, plugins)
  const connectorHost = createConnectorHost(config, logger, databases, services, pluginMetrics)
  container.register(TOKENS.platform, {
    useFactory: (from) =>
      platformOf(from, { connectorHost, store, scratchDirectory, sources, mostTenants: isConfined ? 1 : null }),
  })
  container.register(TOKENS.materialize, { useFactory: (from) => materializeDeps(from, scratchDirectory) })
  await openChanges(container, config, databases, metrics, lifecycle)
  const warm = () => {
    threads.warm()
    sources.prepare(codeFolderOf(config)).catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error)
      logger.warn('the program that reads sources could not be bundled: its processes start slower', { message })
    })
  }
  return { container, databases, metrics, warm }
}

function tellNewer(newer: readonly AppliedMigration[], logger: Logger): void {
  const migrations = newer.map(({ list, id }) => `${list}/${id}`)
  logger.warn('a newer release has been on this registry; this one leaves alone what that added', { migrations })
}

/** A lake beside a registry that has never had a tenant has lost its own: a folder that was not put back, another database. */
async function checkLakeIsKnown(pool: pg.Pool, store: ObjectStore): Promise<void> {
  if (await hasHadTenants(pool)) return
  for await (const _ of store.list('')) {
    throw new SluiceError('CONFIG', 'the data folder holds a lake, and the registry has never had a tenant', {
      code: 'registry_lost',
      remedy:
        'Put back the registry that belongs to this lake (postgres in the data folder, or database.registry_url), or start on another data folder.',
    })
  }
}

/** What was registered with stores that read the lake's own files names them by where they lay. */
async function afterMove(pool: pg.Pool, plugins: PluginSet, logger: Logger): Promise<void> {
  const types = plugins.servingTypes().filter(({ plugin }) => plugin.capabilities.commit === 'lake')
  const copies = await loseCopies(
    pool,
    types.map(({ type }) => type),
  )
  logger.warn('the data folder lies elsewhere than before; what names its files is made anew', { copies })
}

/** The Trino that serves analytics, and so answers queries; undefined where none does. */
function servingTrino({ serving: { analytics } }: Config): TrinoSettings | undefined {
  return analytics?.driver === 'trino' ? (analytics.settings as unknown as TrinoSettings | undefined) : undefined
}

/** Says nothing to Trino yet: a runtime starts without it, and what needs it says so. */
function distributedBy(settings: TrinoSettings | undefined): DistributedCompute | null {
  return settings === undefined ? null : new DistributedCompute(new TrinoClient(settings), settings.catalog)
}

/** The bus, and the relay that carries events to it; null where none is configured. */
async function openBus(
  { events }: Config,
  registry: Pick<RelayOptions, 'pool' | 'address' | 'logger'>,
  lifecycle: Lifecycle,
): Promise<EventBus | null> {
  const { kafka } = events
  if (kafka === undefined) {
    await forgetRelays(registry.pool)
    await forgetChangeTopics(registry.pool)
    return null
  }
  const bus = await lifecycle.start(
    'the event bus',
    () => openKafkaBus(kafka as KafkaSettings),
    (opened) => opened.close(),
  )
  await lifecycle.start(
    'the relay of events',
    () => new EventRelay({ ...registry, bus }),
    (relay) => relay.close(),
  )
  return bus
}

/** What sends changed rows to the bus; it also removes their topics where they are switched off. */
async function openChanges(
  container: DependencyContainer,
  { events: { kafka } }: Config,
  { registry: address }: Databases,
  metrics: MetricsRegistry,
  lifecycle: Lifecycle,
): Promise<void> {
  if (kafka === undefined) return
  const settings = kafka as KafkaSettings
  const bus = await lifecycle.start(
    'change topics',
    () => openKafkaChanges(settings),
    (opened) => opened.close(),
  )
  const { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint } = container.resolve(
    TOKENS.materialize,
  )
  const deps = { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint }
  const principals = { reader: settings.reader_principal ?? null, cleared: settings.cleared_principal ?? null }
  const onSent = changeMetrics(metrics, pool)
  await lifecycle.start(
    'the relay of changes',
    () => new ChangeRelay({ ...deps, address, bus, principals, isOn: settings.change_topics, onSent }),
    (relay) => relay.close(),
  )
}

const codeFolderOf = ({ data_dir: dataDirectory }: Config) => codeFolder(join(dataDirectory, 'code-cache'))

/** The limit is one for all runtimes: what each has counted is added up in the registry. */
function cpuLedger(pool: pg.Pool, { limits: { cpu_seconds: limits } }: Config): CpuLedger {
  return {
    charge: (charges) => chargeCpu(pool, charges, limits),
    debts: () => spentBudgets(pool, limits),
  }
}

async function openEngine(
  config: Config,
  accounts: CpuAccounts,
  neededWalls: readonly WallName[],
  scratchDir: string,
  logger: Logger,
): Promise<PooledEngine> {
  const { engine_processes: processes } = config.limits
  const codeCacheDir = codeFolderOf(config)
  const childBundle = await bundleChild(codeCacheDir).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error)
    logger.warn('the program of engine processes could not be bundled: each starts slower than it could', { message })
    return undefined
  })
  return createEngine({
    scratchDir,
    codeCacheDir,
    ...(childBundle === undefined ? {} : { childBundle }),
    maxChildren: processes,
    warmChildren: Math.min(2, processes),
    maxQueued: 1000,
    neededWalls,
    accounts,
  })
}

const PARSE_PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './http/parse-tasks.ts' : './http/parse-tasks.js',
  import.meta.url,
)

/** As one file the program takes a third of the memory, and of the time to start, that its modules take one by one. */
function openThreads(config: Config, logger: Logger): ParseThreads {
  const dir = codeFolderOf(config)
  const options = { dir, name: 'parse-tasks', requiring: fileURLToPath(PARSE_PROGRAM) }
  return new ParseThreads({
    program: () =>
      bundleProgram(PARSE_PROGRAM, options).then(pathToFileURL, (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error)
        logger.warn('the program of the threads that parse could not be bundled: they start slower', { message })
        return PARSE_PROGRAM
      }),
  })
}

/** Connectors at work beside those of runs: tests of connections, and lists of their tables. */
const READERS_BESIDE_RUNS = 4

function openSources(config: Config, accounts: CpuAccounts, neededWalls: readonly WallName[]): SourceReaders {
  const { data_dir, secrets_dir, limits } = config
  return new SourceReaders({
    maxReaders: limits.workers + READERS_BESIDE_RUNS,
    memoryBytes: limits.source_memory_mb * MB,
    silenceMs: limits.source_silence_ms,
    callMs: limits.source_call_timeout_ms,
    readMs: limits.source_read_timeout_ms,
    codeCacheDir: codeFolderOf(config),
    privateFolders: [data_dir, secrets_dir, process.cwd()],
    neededWalls,
    accounts,
  })
}

/** What is not proved is said when the runtime starts, in the words that GET /plugins has too. */
function tellProof({ plugin, packageName, proof }: LoadedPlugin, logger: Logger): void {
  const name = plugin.kind === 'connector' ? `the connector ${plugin.name}` : `${plugin.type} (${plugin.name})`
  const line = `${name} of ${packageName}: ${proof.message}`
  if (proof.status === 'allowed' || proof.off.length > 0) logger.warn(line)
  else logger.debug(line)
}

async function openLogins(config: Config, { embedded, registry }: Databases, pool: pg.Pool): Promise<CatalogLogins> {
  const { catalog_admin_url: url } = config.database
  const admin = url === undefined ? (embedded?.address ?? null) : parseAddress(url)
  const logins = new CatalogLogins({
    pool,
    admin: admin === null ? null : { ...admin, database: registry.database },
    shown: { ...(embedded?.tcpAddress ?? registry), database: registry.database },
  })
  await logins.setSensitive(config.masking.sensitive)
  await logins.admitEngine()
  return logins
}

/** By kind and type, as plugins are found: `serving:lookup`, `connector:postgresql`. */
function registerPlugins(container: DependencyContainer, plugins: PluginSet): void {
  for (const { plugin } of plugins.loaded) container.register(`${plugin.kind}:${plugin.type}`, { useValue: plugin })
}

function defaultSettings(plugin: ServingPlugin, databases: Databases): Readonly<Record<string, unknown>> | undefined {
  const properties = plugin.settingsSchema.properties ?? {}
  return databases.serving && 'owner' in properties && 'reader' in properties ? databases.serving : undefined
}

function listenForPolicies(databases: Databases, served: ServedProducts) {
  return openListener(databases.registry, {
    applicationName: 'sluice-policy',
    channels: { [POLICY_CHANNEL]: (tenant) => served.drop(tenant) },
    onLost: () => served.dropAll(),
    onReady: () => served.dropAll(),
  })
}

function createConnectorHost(
  config: Config,
  logger: Logger,
  databases: Databases,
  services: Parameters<typeof createHost>[1],
  metrics: PluginMetrics,
): ConnectorHost {
  const isEmbedded = databases.embedded !== null
  const own = ownEndpoints(config, databases.embedded?.tcpAddress ?? null)
  const { network } = config
  return {
    clock: createClock(logger),
    logger,
    metrics: metrics.of('connectors'),
    randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    faultPoint: services.faultPoint,
    network: createNetworkPolicy({
      allow: network.allow,
      allowLoopback: network.allow_loopback ?? isEmbedded,
      allowCleartextPasswords: network.allow_cleartext_passwords ?? false,
      ownEndpoints: () => own,
    }),
  }
}

/** The owner of statements whose plugin does not say whose they are; no tenant is called so. */
const NOBODY = ''

/** What a plugin may ask of the engine: guarded SELECTs over files, as JSON. */
function lakeEngineOver(engine: Engine): LakeEngine {
  return {
    async query(query) {
      const tenant = query.scope === undefined ? NOBODY : tenantOf(query.scope)
      const run = await engine.run(
        {
          trust: 'tenant',
          tenant,
          tables: query.tables as NonNullable<Parameters<Engine['run']>[0]['tables']>,
          output: { kind: 'json-rows', sql: query.sql, parameters: query.parameters },
          limits: { ...query.limits, threads: THREADS },
        },
        query.signal,
      )
      return { columns: run.columns, batches: jsonBatches(run) }
    },
  }
}

/** The engine parts rows by ",\n", which no row contains. */
async function* jsonBatches(run: Awaited<ReturnType<Engine['run']>>) {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of run.output) {
    rest += decoder.decode(chunk, { stream: true })
    const end = rest.lastIndexOf(',\n')
    if (end < 0) continue
    const rows = rest.slice(0, end)
    yield { rowCount: rows.split(',\n').length, json: `[${rows}]` }
    rest = rest.slice(end + 2)
  }
  if (rest !== '') yield { rowCount: rest.split(',\n').length, json: `[${rest}]` }
  await run.finished
}

async function signedFilesOf({ catalog, object_store: store }: Config): Promise<SignedFiles | null> {
  if (catalog.file_access !== 'signed' || store.type !== 's3' || !store.path_style) return null
  return openSignedFiles(store.endpoint, store)
}

function platformOf(
  from: DependencyContainer,
  {
    connectorHost,
    store,
    scratchDirectory,
    sources,
    mostTenants,
  }: {
    readonly connectorHost: ConnectorHost
    readonly store: ObjectStore
    readonly scratchDirectory: string
    readonly sources: SourceReaders
    readonly mostTenants: number | null
  },
): Platform {
  return {
    config: from.resolve(TOKENS.config),
    pool: from.resolve(TOKENS.pool),
    masters: from.resolve(TOKENS.masters),
    lake: from.resolve(TOKENS.lake),
    sandbox: from.resolve(TOKENS.sandbox),
    catalogLogins: from.resolve(TOKENS.catalogLogins),
    reachable: from.resolve(TOKENS.reachable),
    signedFiles: from.resolve(TOKENS.signedFiles),
    engine: from.resolve(TOKENS.engine),
    distributed: from.resolve(TOKENS.distributed),
    distributedQueries: distributedBy(servingTrino(from.resolve(TOKENS.config))),
    plugins: from.resolve(TOKENS.plugins),
    rules: from.resolve(TOKENS.rules),
    issuers: from.resolve(TOKENS.issuers),
    events: from.resolve(TOKENS.events),
    bus: from.resolve(TOKENS.bus),
    served: from.resolve(TOKENS.served),
    parsing: parsingIn(from.resolve(TOKENS.threads)),
    dashboards: from.resolve(TOKENS.dashboards)?.support ?? null,
    logger: from.resolve(TOKENS.logger),
    connectorHost,
    scratchDirectory,
    sourceWalls: () => sources.walls(),
    mostTenants,
    bucketUri: (tenant) => store.uri(`sluice-${tenant}`),
  }
}

function materializeDeps(from: DependencyContainer, scratchDirectory: string): MaterializeDeps {
  const config = from.resolve(TOKENS.config)
  const pool = from.resolve(TOKENS.pool)
  const masters = from.resolve(TOKENS.masters)
  const platform = from.resolve(TOKENS.platform)
  /** What everybody may see of a version. */
  const sightOf = async (db: Queryable, product: Pick<Product, 'id' | 'tenant'>, version: string) => {
    const made = await findVersion<ManifestSet>(db, product.id, version)
    const raised = (await blockingColumns(db, product.id)).get(made?.digest ?? '')
    const columns = withRaised(made?.normalised.output.columns ?? [], raised, platform.rules)
    return openSight(db, product.tenant, columns, platform.rules)
  }
  return {
    pool,
    engine: from.resolve(TOKENS.engine),
    distributed: from.resolve(TOKENS.distributed),
    lake: from.resolve(TOKENS.lake),
    plugins: from.resolve(TOKENS.plugins),
    rules: from.resolve(TOKENS.rules),
    logger: from.resolve(TOKENS.logger),
    faultPoint: from.resolve(TOKENS.faultPoint),
    scratchDirectory,
    nowMs: Date.now,
    limits: ownLimits(config),
    transformLimits: {
      memoryBytes: config.limits.transform_memory_mb * MB,
      timeoutMs: config.limits.transform_timeout_ms,
      threads: THREADS,
    },
    grants: async (productId) => {
      const { rows } = await pool.query('select tenant from products where id = $1', [productId])
      const tenant = (rows[0] as { tenant: string } | undefined)?.tenant
      return tenant === undefined ? [] : productGrants(pool, tenant, productId)
    },
    maskSecret: (tenant, classification) => maskKey(pool, masters, tenant, classification),
    checkStorage: (tenant) => checkStorage(platform, tenant),
    openChecks: async (product, version, checks) => {
      const sight = await sightOf(pool, product, version)
      return checks.filter((check) => seesCheck(sight, check))
    },
    keepViolations: (tx, materialization, found) => replaceViolatingRows(tx, masters, materialization, found),
    async announce(tx, product, materialization) {
      const sight = await sightOf(tx, product, materialization.version)
      const { epoch, version, counts, qualityScore } = shownQuality(sight, materialization)
      const { rows, quarantined } = counts
      const data = { product: product.name, namespace: product.domain, version, epoch, rows, quarantined }
      await appendEvent(tx, {
        tenant: product.tenant,
        kind: 'materialization',
        name: 'committed',
        subject: product.id,
        data,
      })
      await appendEvent(tx, {
        tenant: product.tenant,
        kind: 'quality',
        name: 'checked',
        subject: product.id,
        data: { epoch, score: qualityScore },
      })
      await wishDashboards(tx, product.id)
    },
  }
}

/** Of the runtime's own jobs, which may spill to disk. */
export function ownLimits(config: Config): EngineLimits {
  return {
    memoryBytes: OWN_MEMORY_BYTES,
    timeoutMs: config.limits.transform_timeout_ms,
    threads: THREADS,
    tempBytes: SPILL_BYTES,
  }
}
