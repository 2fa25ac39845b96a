/** What GET /plugins tells of each plugin that this runtime has loaded. */
import type { PluginSummary } from '../http/routes/plugins.ts'
import type { LoadedPlugin } from '../plugins/loader.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import type { LoadedService } from '../plugins/services.ts'

export function pluginSummaries(
  plugins: Pick<PluginSet, 'loaded' | 'serving'>,
  services: readonly LoadedService[],
): readonly PluginSummary[] {
  return [...plugins.loaded.map((loaded) => pluginSummary(plugins, loaded)), ...services.map(serviceSummary)]
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

/** Whether its server answers, nobody asks for this: what needs it tells of that, and metrics do. */
function serviceSummary(loaded: LoadedService): PluginSummary {
  return {
    ...named(loaded),
    type: loaded.plugin.kind,
    capabilities: {},
    proof: { ...loaded.proof, levels: [], certificates: [], off: [] },
    health: { status: 'unknown' },
  }
}

function named({ plugin, packageName, packageVersion, sdkRange }: LoadedPlugin | LoadedService) {
  const { name, version, kind } = plugin
  return { name, version, kind, package: packageName, package_version: packageVersion, sdk: sdkRange }
}
