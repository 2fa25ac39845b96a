/**
 * The composition root: the one place that knows the dependency container, and how everything is put together. What
 * needs starting is started through the lifecycle, then registered under its token.
 */
import 'reflect-metadata'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Lake, namingBrokenFiles, type ObjectStore, ReachableFiles } from '@sluice/iceberg'
import type { ConnectorHost, Logger, ServingStore } from '@sluice/sdk'
import { Registry as MetricsRegistry } from 'prom-client'
import { type DependencyContainer, container as root } from 'tsyringe'
import { openLogins } from './assembly/catalog.ts'
import { openComputes } from './assembly/compute.ts'
import type { Confinement } from './assembly/confinement.ts'
import { openDashboards } from './assembly/dashboard-server.ts'
import { openBus, openChanges } from './assembly/event-bus.ts'
import { afterMove, checkLakeIsKnown, tellAbsent } from './assembly/lake-place.ts'
import type { Lifecycle } from './assembly/lifecycle.ts'
import { materializeDeps, openChangeSpools } from './assembly/materialization.ts'
import { MIGRATIONS } from './assembly/migrations.ts'
import { lentAccessOf, type OpenedDestinations, openDestinations } from './assembly/object-stores.ts'
import type { Platform } from './assembly/platform.ts'
import { createConnectorHost, defaultSettings, lakeEngineOver, servicesOf, tellProof } from './assembly/plugin-host.ts'
import { foldersOf, ONLY_PROCESS, type ProcessPlace } from './assembly/process-shares.ts'
import { codeFolderOf, cpuLedger, openEngine, openSources, openThreads } from './assembly/processes.ts'
import { type Databases, openDatabases, openObjectStore, tellSessions } from './assembly/storage.ts'
import { TOKENS } from './assembly/tokens.ts'
import { Sandbox } from './catalog/sandbox.ts'
import type { Config } from './config.ts'
import { openListener } from './database/listener.ts'
import { type AppliedMigration, migrate } from './database/migrate.ts'
import { openPool } from './database/pools.ts'
import { EventFeed } from './events/feed.ts'
import { faultPointsFrom } from './fault-points.ts'
import { PushIntake, type PushLimits } from './ingestion/push/intake.ts'
import { pushPlugin } from './ingestion/push/plugin.ts'
import type { SourceReaders } from './ingestion/source-readers.ts'
import { ExportFiles } from './lake/export-files.ts'
import { registryCatalog, storeAddresses } from './lake/registry-catalog.ts'
import { scratchOfTenants } from './lake/tenant-layout.ts'
import { parsingIn } from './manifest/parsing.ts'
import type { ChangeSpools } from './materializer/change-spools.ts'
import { noteFormerMasks, noteMasksOf } from './materializer/former-masks.ts'
import { cpuMetrics, slotMetrics } from './metrics/engine.ts'
import { TenantTurns } from './operations/deploy/tenant-turns.ts'
import { ExportDestinations } from './operations/exports/export-destinations.ts'
import { ServedProducts } from './operations/served/served-products.ts'
import { createHost } from './plugins/host.ts'
import { PluginMetrics } from './plugins/plugin-metrics.ts'
import { openPlugins, type PluginSet } from './plugins/plugin-set.ts'
import { proofRules } from './plugins/proof-rules.ts'
import type { NamingIssuer } from './policy/identity.ts'
import { CpuAccounts } from './registry/cpu-accounts.ts'
import { openMasterKeyFile } from './registry/master-keys.ts'
import { EPOCHS_CHANNEL } from './registry/materializations.ts'
import { POLICY_CHANNEL } from './registry/policy-versions.ts'
import { checkMasterKeys, neededMasterKeys } from './registry/tenant-keys.ts'

/** Less than requests have: they end by saying that the registry does not answer. */
const REGISTRY_STATEMENT_MS = 15_000

export interface Assembled {
  readonly container: DependencyContainer
  readonly databases: Databases
  readonly metrics: MetricsRegistry
  /** What this process has on disk of the tenant's files, which lie in buckets, goes; what is read just now, when it has been. */
  forgetCopies(tenant: string): Promise<void>
  /** Makes ready what is needed soon, once the runtime serves. */
  warm(): void
}

/** What a further process of the runtime has of the first one, which has begun: it migrates, recovers and moves nothing. */
export interface Beside {
  readonly databases: Databases
  /** For a store that one process alone can open. */
  readonly storeOf: (type: string) => ServingStore
}

/** @param beside null in the first process, which may be the only one */
export async function assemble(
  config: Config,
  logger: Logger,
  lifecycle: Lifecycle,
  issuers: readonly NamingIssuer[],
  { neededWalls, isConfined }: Confinement,
  { place, beside }: { readonly place: ProcessPlace; readonly beside: Beside | null } = {
    place: ONLY_PROCESS,
    beside: null,
  },
): Promise<Assembled> {
  const container = root.createChildContainer()
  const metrics = new MetricsRegistry()
  if (place.of > 1) metrics.setDefaultLabels({ http_process: String(place.index) })
  const pluginMetrics = new PluginMetrics(metrics)
  const faultPoint = faultPointsFrom(process.env['SLUICE_FAULT'])
  const databases =
    beside?.databases ??
    (await lifecycle.start(
      'the databases',
      () => openDatabases(config, logger),
      async ({ embedded }) => embedded?.stop(),
    ))
  // The embedded one is asked itself.
  if (databases.embedded === null && beside === null) {
    await lifecycle.during('the sessions of the registry', () => tellSessions(databases.registry, logger))
  }
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
  const masterKeyFile = join(config.secrets_dir, 'master-keys.json')
  // Before anything is written: by the right file the registry can still be opened as it was.
  await lifecycle.during('the master keys', () => checkMasterKeys(pool, masterKeyFile))
  if (beside === null) {
    await lifecycle.during('changes of the registry that this release brings', () => migrateRegistry(databases, logger))
  }
  const folders = foldersOf(config, place)
  const scratchDirectory = folders.scratch
  await lifecycle.start(
    'the scratch folder',
    async () => {
      await rm(scratchDirectory, { recursive: true, force: true })
      await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
    },
    // Empty by now, but for the folders themselves. That of a further process is its own, and goes with it.
    () => rm(beside === null ? scratchOfTenants(scratchDirectory) : scratchDirectory, { recursive: true, force: true }),
  )
  const accounts = new CpuAccounts({ ledger: cpuLedger(pool, config), logger, onUsed: cpuMetrics(metrics) })
  await lifecycle.start(
    'the accounts of CPU time',
    () => accounts.start(),
    () => accounts.stop(),
  )
  const bareEngine = await lifecycle.start(
    'the engine',
    () => openEngine(config, accounts, neededWalls, folders, logger),
    (opened) => opened.close(),
  )
  const threads = await lifecycle.start(
    'the threads that parse',
    () => openThreads(config, logger),
    (opened) => opened.close(),
  )
  const ofPlugins = { logger, faultPoint, dataDirectory: config.data_dir, isBeside: beside !== null }
  const services = servicesOf(config, ofPlugins, pluginMetrics)
  const objects = await lifecycle.start(
    'the object store',
    async () => openObjectStore(config, await storeAddresses(pool), services, { folders, isFirst: beside === null }),
    (opened) => opened.close(),
  )
  const { store } = objects
  if (config.object_store.type === 'folder' && beside === null) await checkLakeIsKnown(pool, store)
  const engine = namingBrokenFiles(objects.engineOver(bareEngine), store)
  const lake = new Lake({ store, catalog: registryCatalog(pool), engine })
  const rules = { sensitive: config.masking.sensitive, strategies: config.masking.strategies }
  const masters = openMasterKeyFile(masterKeyFile, await neededMasterKeys(pool))
  const ofStores = { ...ofPlugins, lakeEngine: lakeEngineOver(engine) }
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
        ownConnectors: [pushPlugin],
        baseDirectory: process.cwd(),
        serving: config.serving,
        proof: proofRules(config),
        wallConnector: (plugin, moduleUrl) => sources.wall(plugin, moduleUrl),
        onLoaded: (loaded) => tellProof(loaded, logger),
        defaultSettings: (plugin) => defaultSettings(plugin, databases),
        hostFor: (plugin) => createHost(`${plugin.type}-${plugin.name}`, ofStores, pluginMetrics),
        ...(beside === null ? {} : { storeElsewhere: beside.storeOf }),
      }),
    (opened) => opened.close(),
  )
  if (beside === null) {
    if (objects.place === 'moved') await afterMove(pool, plugins, logger)
    if (objects.place === 'absent') tellAbsent(logger)
    await objects.keepPlace()
  }
  const events = await lifecycle.start(
    'events',
    () => new EventFeed({ pool, address: databases.registry }),
    (feed) => feed.close(),
  )
  const carries = beside === null
  const bus = await openBus(config, { pool, address: databases.registry, logger, carries }, services, lifecycle)
  const dashboards = await lifecycle.start(
    'dashboards',
    () => openDashboards(config, { services, databases, logger }),
    (opened) => opened?.close(),
  )
  const formerMasks = { pool, lake, rules, logger }
  const served: ServedProducts = new ServedProducts({
    pool,
    plugins,
    rules,
    logger,
    noteMasks: (productId) => noteMasksOf(formerMasks, productId),
    hearsChanges: () => news.isListening,
    processes: place.of,
  })
  const news = await lifecycle.start(
    'policy news',
    () => listenForChanges(databases, served),
    (listener) => listener.close(),
  )
  const changeSpools = await lifecycle.start(
    'differences for followers of changes',
    () => openChangeSpools(engine, config, scratchDirectory, metrics),
    (opened) => opened.close(),
  )
  container.register(TOKENS.config, { useValue: config })
  container.register(TOKENS.logger, { useValue: logger })
  container.register(TOKENS.faultPoint, { useValue: faultPoint })
  container.register(TOKENS.pool, { useValue: pool })
  container.register(TOKENS.masters, { useValue: masters })
  container.register(TOKENS.engine, { useValue: engine })
  container.register(TOKENS.threads, { useValue: threads })
  container.register(TOKENS.lake, { useValue: lake })
  container.register(TOKENS.services, { useValue: services })
  container.register(TOKENS.computes, { useValue: await openComputes(config, services, lifecycle) })
  container.register(TOKENS.sandbox, { useValue: new Sandbox({ pool, store: objects.store, lake, nowMs: Date.now }) })
  container.register(TOKENS.reachable, { useValue: new ReachableFiles() })
  const lentAccess = await lifecycle.start(
    'signing for the object store',
    () => lentAccessOf(config, objects.buckets),
    (opened) => opened?.close(),
  )
  container.register(TOKENS.lentAccess, { useFactory: () => lentAccess })
  const { destinations } = await lifecycle.start(
    'destinations of exports',
    () => openDestinations(config, services),
    (opened) => opened.close(),
  )
  if (beside === null) await lifecycle.during('masks of before', () => noteFormerMasks(formerMasks))
  container.register(TOKENS.catalogLogins, { useValue: await openLogins(config, databases, pool) })
  container.register(TOKENS.rules, { useValue: rules })
  container.register(TOKENS.issuers, { useValue: issuers })
  container.register(TOKENS.plugins, { useValue: plugins })
  container.register(TOKENS.events, { useValue: events })
  container.register(TOKENS.bus, { useFactory: () => bus })
  container.register(TOKENS.served, { useValue: served })
  container.register(TOKENS.dashboards, { useFactory: () => dashboards })
  registerPlugins(container, plugins)
  const connectorHost = createConnectorHost(config, logger, databases, ofStores, pluginMetrics)
  container.register(TOKENS.platform, {
    useFactory: (from) =>
      platformOf(from, {
        connectorHost,
        store,
        destinations,
        scratchDirectory,
        sources,
        accounts,
        changeSpools,
        mostTenants: isConfined ? 1 : null,
      }),
  })
  container.register(TOKENS.materialize, {
    useFactory: (from) => materializeDeps(from.resolve(TOKENS.platform), faultPoint),
  })
  if (beside === null) {
    await openChanges(container.resolve(TOKENS.materialize), bus, config, databases, metrics, lifecycle)
  }
  const warm = () => {
    threads.warm()
    sources.prepare(codeFolderOf(config)).catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error)
      logger.warn('the program that reads sources could not be bundled: its processes start slower', { message })
    })
  }
  return { container, databases, metrics, forgetCopies: objects.forgetCopies, warm }
}

async function migrateRegistry({ registry }: Databases, logger: Logger): Promise<void> {
  const migrating = openPool(registry, { applicationName: 'sluice', maxConnections: 1, statementTimeoutMs: 0 })
  try {
    await migrate(migrating, MIGRATIONS, { onNewer: (newer) => tellNewer(newer, logger) })
  } finally {
    await migrating.end()
  }
}

function tellNewer(newer: readonly AppliedMigration[], logger: Logger): void {
  const migrations = newer.map(({ list, id }) => `${list}/${id}`)
  logger.warn('a newer release has been on this registry; this one leaves alone what that added', { migrations })
}

/** By kind and type, as plugins are found: `serving:lookup`, `connector:postgresql`. */
function registerPlugins(container: DependencyContainer, plugins: PluginSet): void {
  for (const { plugin } of plugins.loaded) container.register(`${plugin.kind}:${plugin.type}`, { useValue: plugin })
}

function listenForChanges(databases: Databases, served: ServedProducts) {
  const drop = (tenant: string) => served.drop(tenant)
  return openListener(databases.registry, {
    applicationName: 'sluice-changes',
    channels: { [POLICY_CHANNEL]: drop, [EPOCHS_CHANNEL]: drop },
    onLost: () => served.dropAll(),
    onReady: () => served.dropAll(),
  })
}

function pushLimits({ push }: Config): PushLimits {
  const { rows, bytes, keys, key_hours: keyHours, sync_after_ms: syncAfterMs } = push
  return { rows, bytes, keys, keepKeysMs: keyHours * 3_600_000, syncAfterMs }
}

function platformOf(
  from: DependencyContainer,
  {
    connectorHost,
    store,
    destinations,
    scratchDirectory,
    sources,
    accounts,
    changeSpools,
    mostTenants,
  }: {
    readonly connectorHost: ConnectorHost
    readonly store: ObjectStore
    readonly destinations: OpenedDestinations['destinations']
    readonly scratchDirectory: string
    readonly sources: SourceReaders
    readonly accounts: CpuAccounts
    readonly changeSpools: ChangeSpools
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
    lentAccess: from.resolve(TOKENS.lentAccess),
    engine: from.resolve(TOKENS.engine),
    cpu: accounts,
    counts: new TenantTurns(),
    distributed: from.resolve(TOKENS.computes).transforms?.compute ?? null,
    distributedQueries: from.resolve(TOKENS.computes).queries,
    plugins: from.resolve(TOKENS.plugins),
    rules: from.resolve(TOKENS.rules),
    issuers: from.resolve(TOKENS.issuers),
    events: from.resolve(TOKENS.events),
    bus: from.resolve(TOKENS.bus),
    served: from.resolve(TOKENS.served),
    changeSpools,
    exportDestinations: new ExportDestinations(destinations),
    exportFiles: new ExportFiles({ store, pool: from.resolve(TOKENS.pool), masters: from.resolve(TOKENS.masters) }),
    parsing: parsingIn(from.resolve(TOKENS.threads)),
    pushes: new PushIntake({
      pool: from.resolve(TOKENS.pool),
      masters: from.resolve(TOKENS.masters),
      limits: pushLimits(from.resolve(TOKENS.config)),
      faultPoint: from.resolve(TOKENS.faultPoint),
    }),
    dashboards: from.resolve(TOKENS.dashboards)?.support ?? null,
    logger: from.resolve(TOKENS.logger),
    connectorHost,
    scratchDirectory,
    sourceWalls: () => sources.walls(),
    mostTenants,
    bucketUri: (tenant) => store.uri(`sluice-${tenant}`),
  }
}
