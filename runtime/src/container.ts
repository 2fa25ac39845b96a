/**
 * The composition root: the one place that knows the dependency container, and how everything is put together. What
 * needs starting is started through the lifecycle, then registered under its token.
 */
import 'reflect-metadata'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ConnectorHost, LakeEngine, Logger, ServingPlugin } from '@sluice/sdk'
import { Registry as MetricsRegistry } from 'prom-client'
import { type DependencyContainer, container as root } from 'tsyringe'
import type { Config } from './config.ts'
import { openListener } from './database/listener.ts'
import { migrate } from './database/migrate.ts'
import { openPool } from './database/pools.ts'
import { createEngine, type Engine, type EngineLimits } from './engine/engine.ts'
import { EventFeed } from './events/feed.ts'
import { eventMigrations } from './events/migrations.ts'
import { appendEvent } from './events/outbox.ts'
import { faultPointsFrom } from './fault-points.ts'
import { createNetworkPolicy } from './ingestion/network.ts'
import { FolderStore } from './lake/folder-store.ts'
import { LAKE_MIGRATIONS, Lake } from './lake/lake.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { MaterializeDeps } from './materializer/materialize.ts'
import type { Platform } from './operations/platform.ts'
import { ServedProducts } from './operations/served-products.ts'
import { checkStorage } from './operations/tenants.ts'
import { createClock, createHost } from './plugins/host.ts'
import { openPlugins, type PluginSet } from './plugins/plugin-set.ts'
import { productGrants } from './registry/grants.ts'
import { openMasterKeyFile } from './registry/master-keys.ts'
import { registryMigrations } from './registry/migrations.ts'
import { POLICY_CHANNEL } from './registry/policy-versions.ts'
import { maskKey } from './registry/tenant-keys.ts'
import { type Databases, openDatabases } from './storage.ts'
import { TOKENS } from './tokens.ts'

const MB = 1024 * 1024
const OWN_MEMORY_BYTES = 512 * MB
const SPILL_BYTES = 64 * 1024 * MB
const THREADS = 2

export interface Assembled {
  readonly container: DependencyContainer
  readonly databases: Databases
  readonly metrics: MetricsRegistry
}

export async function assemble(config: Config, logger: Logger, lifecycle: Lifecycle): Promise<Assembled> {
  const container = root.createChildContainer()
  const metrics = new MetricsRegistry()
  const faultPoint = faultPointsFrom(process.env['SLUICE_FAULT'])
  const databases = await lifecycle.start(
    'the databases',
    () => openDatabases(config),
    async ({ embedded }) => embedded?.stop(),
  )
  const pool = await lifecycle.start(
    'the registry',
    () => openPool(databases.registry, { applicationName: 'sluice', maxConnections: 30 }),
    (opened) => opened.end(),
  )
  await migrate(pool, [registryMigrations, eventMigrations, LAKE_MIGRATIONS])
  const scratchDirectory = join(config.data_dir, 'scratch')
  await rm(scratchDirectory, { recursive: true, force: true })
  await mkdir(scratchDirectory, { recursive: true, mode: 0o700 })
  const engine = await lifecycle.start(
    'the engine',
    () => openEngine(config, scratchDirectory),
    (opened) => opened.close(),
  )
  const lakeFolder = join(config.data_dir, 'lake')
  const store = new FolderStore(lakeFolder)
  await store.recover()
  const lake = new Lake({ store, db: pool, engine })
  const rules = { sensitive: config.masking.sensitive, strategies: config.masking.strategies }
  const masters = openMasterKeyFile(join(config.data_dir, 'master-keys.json'))
  const services = {
    logger,
    metrics: { count: () => {}, observe: () => {} },
    faultPoint,
    dataDirectory: config.data_dir,
    lakeEngine: lakeEngineOver(engine),
  }
  const plugins = await lifecycle.start(
    'the plugins',
    () =>
      openPlugins({
        specifiers: config.plugins,
        baseDirectory: process.cwd(),
        serving: config.serving,
        defaultSettings: (plugin) => defaultSettings(plugin, databases),
        hostFor: (plugin) => createHost(`${plugin.type}-${plugin.name}`, services),
      }),
    (opened) => opened.close(),
  )
  const events = await lifecycle.start(
    'events',
    () => new EventFeed({ pool, address: databases.registry }),
    (feed) => feed.close(),
  )
  const served = new ServedProducts({ pool, plugins, rules })
  await lifecycle.start(
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
  container.register(TOKENS.lake, { useValue: lake })
  container.register(TOKENS.rules, { useValue: rules })
  container.register(TOKENS.plugins, { useValue: plugins })
  container.register(TOKENS.events, { useValue: events })
  container.register(TOKENS.served, { useValue: served })
  registerPlugins(container, plugins)
  const connectorHost = createConnectorHost(config, logger, databases, services)
  container.register(TOKENS.platform, { useFactory: (from) => platformOf(from, connectorHost, lakeFolder) })
  container.register(TOKENS.materialize, { useFactory: (from) => materializeDeps(from, scratchDirectory) })
  return { container, databases, metrics }
}

function openEngine(config: Config, scratchDir: string): Engine {
  const { engine_processes: processes } = config.limits
  return createEngine({
    scratchDir,
    codeCacheDir: join(config.data_dir, 'code-cache'),
    maxChildren: processes,
    warmChildren: Math.min(2, processes),
    maxQueued: 1000,
  })
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
): ConnectorHost {
  const isEmbedded = databases.embedded !== null
  const own = databases.embedded?.tcpAddress
  const { network } = config
  return {
    clock: createClock(logger),
    logger,
    metrics: services.metrics,
    randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    faultPoint: services.faultPoint,
    network: createNetworkPolicy({
      allow: network.allow,
      allowLoopback: network.allow_loopback ?? isEmbedded,
      allowCleartextPasswords: network.allow_cleartext_passwords ?? false,
      ownEndpoints: () => (own ? [{ address: own.host, port: own.port }] : []),
    }),
  }
}

/** What a plugin may ask of the engine: guarded SELECTs over files, as JSON. */
function lakeEngineOver(engine: Engine): LakeEngine {
  return {
    async query(query) {
      const run = await engine.run(
        {
          trust: 'tenant',
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

function platformOf(from: DependencyContainer, connectorHost: ConnectorHost, lakeFolder: string): Platform {
  return {
    config: from.resolve(TOKENS.config),
    pool: from.resolve(TOKENS.pool),
    masters: from.resolve(TOKENS.masters),
    lake: from.resolve(TOKENS.lake),
    engine: from.resolve(TOKENS.engine),
    plugins: from.resolve(TOKENS.plugins),
    rules: from.resolve(TOKENS.rules),
    events: from.resolve(TOKENS.events),
    served: from.resolve(TOKENS.served),
    logger: from.resolve(TOKENS.logger),
    connectorHost,
    bucketUri: (tenant) => pathToFileURL(join(lakeFolder, `sluice-${tenant}`)).href,
  }
}

function materializeDeps(from: DependencyContainer, scratchDirectory: string): MaterializeDeps {
  const config = from.resolve(TOKENS.config)
  const pool = from.resolve(TOKENS.pool)
  const masters = from.resolve(TOKENS.masters)
  const platform = from.resolve(TOKENS.platform)
  return {
    pool,
    engine: from.resolve(TOKENS.engine),
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
    async announce(tx, product, { epoch, version, counts, qualityScore }) {
      const data = { product: product.name, namespace: product.domain, version, epoch, ...counts }
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
