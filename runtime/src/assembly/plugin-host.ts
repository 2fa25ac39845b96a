/** What plugins are given, and what is said of them when they are opened. */
import type { Engine } from '@sluice/engine'
import { type ConnectorHost, type LakeEngine, type Logger, type ServingPlugin, tenantOf } from '@sluice/sdk'
import type { Config } from '../config.ts'
import { createNetworkPolicy } from '../ingestion/network.ts'
import { createClock, createHost, type HostServices } from '../plugins/host.ts'
import type { LoadedPlugin } from '../plugins/loader.ts'
import type { PluginMetrics } from '../plugins/plugin-metrics.ts'
import { ServiceHealth } from '../plugins/service-health.ts'
import type { LoadedService, ServiceParts } from '../plugins/services.ts'
import { ownEndpoints } from './own-endpoints.ts'
import type { Databases } from './storage.ts'

const THREADS = 2

/** What is not proved is said when the runtime starts, in the words that GET /plugins has too. */
export function tellProof({ plugin, packageName, proof }: LoadedPlugin, logger: Logger): void {
  const name = plugin.kind === 'connector' ? `the connector ${plugin.name}` : `${plugin.type} (${plugin.name})`
  const line = `${name} of ${packageName}: ${proof.message}`
  if (proof.status === 'allowed' || proof.off.length > 0) logger.warn(line)
  else logger.debug(line)
}

export interface Services extends ServiceParts {
  /** Those that were loaded until now, each once. */
  loaded(): readonly LoadedService[]
}

/** How this runtime comes by its services. What nobody has proved is said once. */
export function servicesOf(
  { plugins: specifiers }: Pick<Config, 'plugins'>,
  host: Omit<HostServices, 'lakeEngine'>,
  metrics: PluginMetrics,
): Services {
  const loaded = new Map<string, LoadedService>()
  return {
    ...{ specifiers, baseDirectory: process.cwd() },
    hostFor: (name) => createHost(name, host, metrics),
    health: new ServiceHealth(),
    onLoaded(service) {
      if (loaded.has(service.specifier)) return
      loaded.set(service.specifier, service)
      tellService(service, host.logger)
    },
    loaded: () => [...loaded.values()],
  }
}

function tellService({ specifier, plugin, proof }: LoadedService, logger: Logger): void {
  const line = `${plugin.kind} (${plugin.name}) of ${specifier}: ${proof.message}`
  if (proof.status === 'allowed') logger.warn(line)
  else logger.debug(line)
}

export function defaultSettings(
  plugin: ServingPlugin,
  databases: Pick<Databases, 'serving'>,
): Readonly<Record<string, unknown>> | undefined {
  const properties = plugin.settingsSchema.properties ?? {}
  return databases.serving && 'owner' in properties && 'reader' in properties ? databases.serving : undefined
}

export function createConnectorHost(
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
export function lakeEngineOver(engine: Engine): LakeEngine {
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
