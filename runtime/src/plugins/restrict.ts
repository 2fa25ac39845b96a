/** A plugin that can no longer do what is switched off, whatever its own code would do. */
import {
  type Capabilities,
  type ConfigProblem,
  type Connector,
  type ConnectorPlugin,
  checkOperationPlan,
  checkReadPlan,
  type ReadEvent,
  type ReadRequest,
  type ServingPlugin,
  type ServingStore,
  unsupported,
  withCapabilities,
} from '@sluice/sdk'

/** The plugin with only those capabilities, by name; the same object where nothing is missing. */
export function restrictPlugin(
  plugin: ServingPlugin | ConnectorPlugin,
  on: readonly string[],
  off: readonly string[],
): ServingPlugin | ConnectorPlugin {
  if (off.length === 0) return plugin
  const kept = new Set(on)
  return plugin.kind === 'connector' ? restrictedConnector(plugin, kept) : restrictedServing(plugin, kept)
}

function restrictedConnector(plugin: ConnectorPlugin, kept: ReadonlySet<string>): ConnectorPlugin {
  const cut = withCapabilities(plugin, kept)
  return { ...cut, open: async (settings, host) => restrictConnector(await cut.open(settings, host), cut) }
}

function restrictedServing(plugin: ServingPlugin, kept: ReadonlySet<string>): ServingPlugin {
  const cut = withCapabilities(plugin, kept)
  return {
    ...cut,
    open: async (settings, host) => restrictStore(await cut.open(settings, host), cut.capabilities),
    checkConfig: (config, schema) => [...(cut.checkConfig?.(config, schema) ?? []), ...ttlProblems(config, cut)],
  }
}

/** Optional hooks that are off are not there, and plans that need what is off never reach the store. */
function restrictStore(store: ServingStore, can: Capabilities): ServingStore {
  const { operate, recover, validate, activate, digest, query } = store
  return {
    provision: (target, mode, expectedHash) => store.provision(target, mode, expectedHash),
    rls: store.rls,
    write: (target, changes, commit) => store.write(target, changes, commit),
    async *read(target, plan) {
      checkReadPlan(plan, can)
      yield* store.read(target, can.jsonBatches ? plan : { ...plan, encoding: 'columns' })
    },
    drop: (target, mode) => store.drop(target, mode),
    dropTenant: (scope) => store.dropTenant(scope),
    probe: (signal) => store.probe(signal),
    health: () => store.health(),
    close: () => store.close(),
    ...(can.declared && operate
      ? {
          async *operate(target, plan) {
            checkOperationPlan(plan, can)
            yield* operate.call(store, target, plan)
          },
        }
      : {}),
    ...(can.recover && recover ? { recover: recover.bind(store) } : {}),
    ...(can.validate && validate ? { validate: validate.bind(store) } : {}),
    ...(can.activate && activate ? { activate: activate.bind(store) } : {}),
    ...(can.digest && digest ? { digest: digest.bind(store) } : {}),
    ...(can.query && query ? { query: query.bind(store) } : {}),
  }
}

/** Rows that never expire would be kept longer than their owner was promised. */
function ttlProblems(config: unknown, { capabilities, configSchema }: ServingPlugin): readonly ConfigProblem[] {
  const asks =
    configSchema.properties?.['ttl'] !== undefined && (config as { readonly ttl?: unknown }).ttl !== undefined
  return capabilities.ttl === undefined && asks
    ? [{ pointer: '/ttl', message: 'the store has not been proved to let rows expire, so ttl is switched off' }]
    : []
}

function restrictConnector(connector: Connector, { capabilities }: ConnectorPlugin): Connector {
  return {
    check: (signal) => connector.check(signal),
    discover: (page, signal) => connector.discover(page, signal),
    read: (request) => restrictedRead(connector, request, capabilities),
    ack: (request, state) => connector.ack(request, state),
    close: () => connector.close(),
    ...(capabilities.modes.includes('cdc') && connector.changes ? { changes: connector.changes } : {}),
  }
}

async function* restrictedRead(
  connector: Connector,
  request: ReadRequest,
  can: ConnectorPlugin['capabilities'],
): AsyncGenerator<ReadEvent> {
  if (!can.modes.includes(request.mode)) throw unsupported(`reading in mode ${request.mode}`)
  for await (const event of connector.read(request)) {
    if (event.kind === 'csv' && can.csv !== true) throw unsupported('rows as CSV')
    yield event
  }
}
