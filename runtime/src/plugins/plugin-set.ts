/** The plugins of this runtime: loaded in the order of the configuration, opened where a driver is chosen. */
import {
  type ConnectorPlugin,
  type Host,
  isSluiceError,
  type ServingPlugin,
  type ServingStore,
  SluiceError,
} from '@sluice/sdk'
import { Compile } from 'typebox/compile'
import { faultWords } from '../parsing/schema-words.ts'
import { findPlugin, type LoadedPlugin, loadPlugin, type WallConnector } from './loader.ts'
import { isOwnPlugin } from './own-plugins.ts'
import type { ProofRules } from './proof-rules.ts'
import { isService } from './services.ts'

export interface ServingType {
  readonly type: string
  readonly plugin: ServingPlugin
  readonly store: ServingStore
}

export interface PluginSet {
  readonly loaded: readonly LoadedPlugin[]
  /** The store that serves an endpoint type; undefined where none is configured. */
  serving(type: string): ServingType | undefined
  servingTypes(): readonly ServingType[]
  connector(type: string): ConnectorPlugin | undefined
  connectorTypes(): readonly string[]
  close(): Promise<void>
}

export interface ServingChoice {
  readonly driver: string
  readonly settings?: Readonly<Record<string, unknown>>
}

export interface PluginSetOptions {
  readonly specifiers: readonly string[]
  /** Connectors that are the runtime's own, and no plugins. */
  readonly ownConnectors: readonly ConnectorPlugin[]
  readonly baseDirectory: string
  readonly serving: Readonly<Record<string, ServingChoice>>
  readonly proof: ProofRules
  readonly wallConnector: WallConnector
  /** Told of every plugin as it is loaded, before any of them is opened. */
  onLoaded(loaded: LoadedPlugin): void
  /** Settings that the runtime supplies where the configuration gives none (embedded mode). */
  defaultSettings(plugin: ServingPlugin): Readonly<Record<string, unknown>> | undefined
  hostFor(plugin: ServingPlugin): Promise<Host & AsyncDisposable>
  /** The store as another process of this runtime has it open, where one alone can. Absent in the process that is to have it. */
  storeElsewhere?(type: string): ServingStore
}

/** Loads every plugin, then opens the chosen stores; whatever fails names the plugin, and what was opened is closed. */
export async function openPlugins(options: PluginSetOptions): Promise<PluginSet> {
  const { loaded, chosen } = await choosePlugins(options)
  const opened = new Map<string, ServingType & { readonly host: AsyncDisposable }>()
  const close = async () => {
    const entries = [...opened.values()].reverse()
    opened.clear()
    await closeStores(entries)
  }
  try {
    for (const store of chosen) opened.set(store.type, await openServing(store, options))
  } catch (error) {
    await close()
    throw error
  }
  const connectors = new Map([
    ...loaded.flatMap(({ plugin, proof }) =>
      plugin.kind === 'connector' && proof.status !== 'unproved' ? [[plugin.type, plugin] as const] : [],
    ),
    // Nobody else's takes their place.
    ...options.ownConnectors.map((plugin) => [plugin.type, plugin] as const),
  ])
  return {
    loaded,
    serving: (type) => opened.get(type),
    servingTypes: () => [...opened.values()],
    connector: (type) => connectors.get(type),
    connectorTypes: () => [...connectors.keys()],
    close,
  }
}

interface ChosenStore {
  readonly type: string
  readonly plugin: ServingPlugin
  readonly settings: Readonly<Record<string, unknown>>
}

/** Every plugin loaded, and the stores that are to be opened. Throws CONFIG that names the plugin, or the store that has not what it needs. */
export async function choosePlugins(
  options: Omit<PluginSetOptions, 'ownConnectors' | 'hostFor'>,
): Promise<{ readonly loaded: readonly LoadedPlugin[]; readonly chosen: readonly ChosenStore[] }> {
  const loaded: LoadedPlugin[] = []
  for (const specifier of options.specifiers) {
    const { declared } = await findPlugin(specifier, options.baseDirectory)
    // One that brings a server is loaded where it is chosen.
    if (isService(declared)) continue
    const plugin = await loadPlugin(specifier, options.baseDirectory, options.proof, options.wallConnector)
    options.onLoaded(plugin)
    loaded.push(plugin)
  }
  const stores = Object.entries(options.serving).map(([type, choice]) => {
    const plugin = chosenPlugin(type, choice, loaded)
    return { type, plugin, settings: choice.settings ?? options.defaultSettings(plugin) ?? {} }
  })
  // Of a store of which nothing is proved not even its walls are known to stand: it gets no rows.
  const chosen = stores.filter(({ plugin }) => isUsable(plugin, loaded))
  for (const { plugin, settings } of chosen) checkSettings(plugin, settings)
  return { loaded, chosen }
}

/** One after the other; what fails of one keeps no other open. Throws the first failure. */
export async function closeStores(
  entries: readonly { readonly store: Pick<ServingStore, 'close'>; readonly host: AsyncDisposable }[],
): Promise<void> {
  const failures: unknown[] = []
  const failed = (error: unknown) => void failures.push(error)
  for (const { store, host } of entries) {
    await store.close().catch(failed)
    await Promise.resolve(host[Symbol.asyncDispose]()).catch(failed)
  }
  if (failures.length > 0) throw failures[0]
}

function chosenPlugin(type: string, choice: ServingChoice, loaded: readonly LoadedPlugin[]): ServingPlugin {
  const candidates = loaded.flatMap(({ plugin }) => (plugin.kind === 'serving' && plugin.type === type ? [plugin] : []))
  const plugin = candidates.find((candidate) => candidate.name === choice.driver)
  if (plugin) return plugin
  const names = candidates.map((candidate) => candidate.name).join(', ') || 'none'
  throw new SluiceError('CONFIG', `no loaded plugin serves ${type} with the driver "${choice.driver}"`, {
    code: 'unknown_driver',
    remedy: `Drivers loaded for ${type}: ${names}. ${wayTo(type, choice.driver)}`,
  })
}

/** A list under "plugins" is mostly written for what it adds: that it takes the others away comes unexpected. */
function wayTo(type: string, driver: string): string {
  const own = `@sluice/${type}/${driver}`
  const added = isOwnPlugin(own) ? `"${own}"` : 'its plugin'
  return `Add ${added} to "plugins", whose list takes the place of the default one, or leave ${type} out of "serving".`
}

function isUsable(plugin: ServingPlugin, loaded: readonly LoadedPlugin[]): boolean {
  return loaded.some((one) => one.plugin === plugin && one.proof.status !== 'unproved')
}

async function openServing(
  { type, plugin, settings }: ChosenStore,
  options: PluginSetOptions,
): Promise<ServingType & { readonly host: AsyncDisposable }> {
  const host = await options.hostFor(plugin)
  try {
    return { type, plugin, store: await plugin.open(settings, host), host }
  } catch (error) {
    if (isSluiceError(error) && error.code === 'store_in_use' && options.storeElsewhere !== undefined) {
      return { type, plugin, store: options.storeElsewhere(type), host }
    }
    await host[Symbol.asyncDispose]()
    throw error
  }
}

/** Values are never repeated: a setting may be a secret. */
function checkSettings(plugin: ServingPlugin, settings: unknown): void {
  const validator = Compile(plugin.settingsSchema as Parameters<typeof Compile>[0])
  if (validator.Check(settings)) return
  const where = validator
    .Errors(settings)
    .map((error) => `${error.instancePath || '/'} ${faultWords(error, plugin.settingsSchema)}`)
  throw new SluiceError(
    'CONFIG',
    `the settings of ${plugin.type} (${plugin.name}) are not valid: ${where.join('; ')}`,
    {
      code: 'invalid_settings',
      remedy: `Correct serving.${plugin.type}.settings.`,
    },
  )
}
