/** Plugins that say of themselves what is not so, or open what cannot be opened. */
import { stat } from 'node:fs'
import { type Host, type PluginManifest, SDK_VERSION } from '@sluice/sdk'
import { ReferenceMemory } from '../reference/index.ts'
import { type Saboteur, sabotagedPlugin, saboteur } from './wrap.ts'

const ENTRY = { kind: 'serving', type: 'reference', name: 'memory' } as const

function manifested(name: string, sdk: string, plugins: PluginManifest['plugins'] = { '.': ENTRY }): Saboteur {
  return { ...saboteur(name, [2], () => ({})), options: { manifest: { sdk, plugins } } }
}

/** The host with other ways out; what the store does not find here it finds in the host itself. */
function hostWith(host: Host, parts: Partial<Host>): Host {
  return Object.assign(Object.create(host) as Host, parts)
}

export const claimSaboteurs: readonly Saboteur[] = [
  sabotagedPlugin('has a schema with a pattern that is none', [1], (plugin) => ({
    ...plugin,
    settingsSchema: { ...plugin.settingsSchema, properties: { memory: { type: 'object', pattern: '(' } } },
  })),
  sabotagedPlugin('does not say what it is', [1], (plugin) => ({ ...plugin, description: '' })),
  manifested('asks for any version of the contract', '*'),
  manifested('asks for the next major version', '^2.0.0'),
  manifested('asks for one version alone', SDK_VERSION),
  manifested('lists no plugin', `^${SDK_VERSION}`, {}),
  sabotagedPlugin('takes any option', [3], (plugin) => ({
    ...plugin,
    configSchema: { ...plugin.configSchema, additionalProperties: true },
  })),
  sabotagedPlugin('does not look whether columns are there', [3], (plugin) => ({ ...plugin, checkConfig: () => [] })),
  sabotagedPlugin('opens with any settings', [5], (plugin) => ({
    ...plugin,
    settingsSchema: { type: 'object' },
    open: (settings, host) =>
      plugin.open(
        { memory: settings?.memory instanceof ReferenceMemory ? settings.memory : new ReferenceMemory() },
        host,
      ),
  })),
  sabotagedPlugin('opens what nobody answers for', [6], (plugin) => ({
    ...plugin,
    open: (settings, host) =>
      plugin.open(settings.memory.isReachable ? settings : { memory: new ReferenceMemory() }, host),
  })),
  saboteur('looks at the disk for its health', [7], (store) => ({
    health() {
      stat('.', () => undefined)
      return store.health()
    },
  })),
  saboteur('finds itself in order and does not say what it has looked at', [8], () => ({
    probe: async () => ({ ok: true, checks: [] }),
  })),
  saboteur('finds every login in order', [181], (store) => ({
    async probe(signal) {
      const { checks } = await store.probe(signal)
      return { ok: true, checks: checks.map((check) => ({ ...check, ok: true })) }
    },
  })),
  sabotagedPlugin('changes its table while it runs', [14], (plugin) => {
    let opens = 0
    return {
      ...plugin,
      get capabilities() {
        return { ...plugin.capabilities, limits: { ...plugin.capabilities.limits, maxRowBytes: 1_000_000 + opens } }
      },
      open(settings, host) {
        opens += 1
        return plugin.open(settings, host)
      },
    }
  }),
  sabotagedPlugin('declares aggregates without ranges', [15], (plugin) => ({
    ...plugin,
    capabilities: { ...plugin.capabilities, operations: ['get', 'scan', 'aggregate', 'key'] },
  })),
  sabotagedPlugin('labels metrics with values of rows', [123], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        async write(target, changes, commit) {
          for await (const { columns } of changes.upserts()) {
            host.metrics.count('rows_written', 1, { name: String(columns[2]?.[0]) })
          }
          return store.write(target, changes, commit)
        },
      }
    },
  })),
  sabotagedPlugin('writes without a trace', [60, 123], (plugin) => ({
    ...plugin,
    open: (settings, host) => plugin.open(settings, hostWith(host, { faultPoint: async () => undefined })),
  })),
  sabotagedPlugin('takes any interval', [111], (plugin) => ({
    ...plugin,
    checkConfig: (config, schema) =>
      (plugin.checkConfig?.(config, schema) ?? []).filter(({ pointer }) => !pointer.startsWith('/continuous')),
  })),
  sabotagedPlugin('clears away an old epoch that is served', [122], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        read(target, plan) {
          const stored = settings.memory.get(target)
          const newest = stored?.contents.at(-1)
          const ageMs = newest ? host.clock.nowMs() - Date.parse(newest.applied.committedAt) : 0
          if (stored && newest && ageMs > 6 * 3_600_000) stored.servedEpoch = newest.applied.epoch
          return store.read(target, plan)
        },
      }
    },
  })),
]
