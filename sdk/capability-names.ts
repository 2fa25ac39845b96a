/** The lines of a capability table by name, so that each can be proved, switched off and spoken of by itself. */
import type { Capabilities } from './capabilities.ts'
import type { ConnectorPlugin, ServingPlugin } from './plugin.ts'

const HOOKS = ['recover', 'validate', 'activate', 'digest', 'jsonBatches', 'query'] as const

type ConnectorCapabilities = ConnectorPlugin['capabilities']

/** What a plugin declares, line by line: `commit atomic`, `operation get`, `declared search`, `filter eq`, `history type_2`, `mode full`. */
export function capabilityNames(plugin: Pick<ServingPlugin | ConnectorPlugin, 'kind' | 'capabilities'>): string[] {
  if (plugin.kind === 'connector') return connectorNames(plugin.capabilities as ConnectorCapabilities)
  const can = plugin.capabilities as Capabilities
  return [
    `commit ${can.commit}`,
    ...can.operations.map((name) => `operation ${name}`),
    ...can.filters.map((name) => `filter ${name}`),
    ...Object.keys(can.declared ?? {}).map((name) => `declared ${name}`),
    ...(can.histories ?? []).map((name) => `history ${name}`),
    ...(can.ttl === undefined ? [] : ['ttl']),
    ...HOOKS.filter((name) => can[name] === true),
  ]
}

function connectorNames(can: ConnectorCapabilities): string[] {
  return [...can.modes.map((mode) => `mode ${mode}`), ...(can.csv === true ? ['csv'] : [])]
}

/** The plugin with its table cut down to the lines named in `kept`. The commit class, types and limits always stay. */
export function withCapabilities<P extends ServingPlugin | ConnectorPlugin>(plugin: P, kept: ReadonlySet<string>): P {
  const capabilities =
    plugin.kind === 'connector'
      ? cutConnector((plugin as ConnectorPlugin).capabilities, kept)
      : cutStore((plugin as ServingPlugin).capabilities, kept)
  return { ...plugin, capabilities }
}

function cutConnector(can: ConnectorCapabilities, kept: ReadonlySet<string>): ConnectorCapabilities {
  const { csv: _, ...rest } = can
  const modes = can.modes.filter((mode) => kept.has(`mode ${mode}`))
  return { ...rest, modes, ...(can.csv === true && kept.has('csv') ? { csv: true } : {}) }
}

function cutStore(can: Capabilities, kept: ReadonlySet<string>): Capabilities {
  const { declared, histories, ttl, ...rest } = can
  const proved = Object.entries(declared ?? {}).filter(([name]) => kept.has(`declared ${name}`))
  const always = Object.fromEntries(
    Object.entries(rest).filter(([name]) => !(HOOKS as readonly string[]).includes(name) || kept.has(name)),
  ) as typeof rest
  return {
    ...always,
    operations: can.operations.filter((name) => kept.has(`operation ${name}`)),
    filters: can.filters.filter((name) => kept.has(`filter ${name}`)),
    ...(declared === undefined ? {} : { declared: Object.fromEntries(proved) }),
    ...(histories === undefined ? {} : { histories: histories.filter((name) => kept.has(`history ${name}`)) }),
    ...(ttl === undefined || !kept.has('ttl') ? {} : { ttl }),
  }
}
