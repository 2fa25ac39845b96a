/** What GET /plugins tells of each plugin that this runtime has loaded. */
import type { PluginSummary } from '../http/routes/plugins.ts'
import type { LoadedPlugin } from '../plugins/loader.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import type { ServiceState } from '../plugins/service-health.ts'
import type { LoadedService } from '../plugins/services.ts'

export function pluginSummaries(
  plugins: Pick<PluginSet, 'loaded' | 'serving'>,
  services: readonly LoadedService[],
  states: readonly ServiceState[],
): readonly PluginSummary[] {
  return [
    ...plugins.loaded.map((loaded) => pluginSummary(plugins, loaded)),
    ...services.map((loaded) => serviceSummary(loaded, states)),
  ]
}

function pluginSummary(plugins: Pick<PluginSet, 'serving'>, loaded: LoadedPlugin): PluginSummary {
  const { plugin, proof } = loaded
  const store = plugin.kind === 'serving' ? plugins.serving(plugin.type) : undefined
  const isChosen = store?.plugin === plugin
  return {
    ...named(loaded),
    type: plugin.kind === 'serving' ? plugin.type : 'connector',
    capabilities: plugin.capabilities as unknown as Readonly<Record<string, unknown>>,
    proof: {
      status: proof.status,
      levels: proof.levels,
      certificates: proof.certificates,
      off: proof.off,
      message: proof.message,
    },
    health: isChosen && store ? store.store.health() : { status: plugin.kind === 'connector' ? 'ok' : 'unused' },
  }
}

/** Of a destination of exports alone nothing is open that could be asked. */
function serviceSummary(loaded: LoadedService, states: readonly ServiceState[]): PluginSummary {
  const { kind, name } = loaded.plugin
  const state = states.find((one) => one.kind === kind && one.name === name)
  return {
    ...named(loaded),
    type: loaded.plugin.kind,
    capabilities: {},
    proof: { ...loaded.proof, levels: [], certificates: [], off: [] },
    health: state ? healthJson(state) : { status: 'unknown' },
  }
}

/** For everybody: no address, and nothing that a server said. */
export function healthJson({ status, since, message, remedy }: ServiceState): PluginSummary['health'] {
  const why = message === undefined || remedy === undefined ? {} : { message, remedy }
  return { status, ...(since === null ? {} : { since: since.toISOString() }), ...why }
}

function named({ plugin, packageName, packageVersion, sdkRange }: LoadedPlugin | LoadedService) {
  const { name, version, kind } = plugin
  return { name, version, kind, package: packageName, package_version: packageVersion, sdk: sdkRange }
}
