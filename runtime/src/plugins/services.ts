/**
 * Plugins that bring a server beside the runtime. One is loaded where the configuration chooses it by name: among the
 * plugins that it lists, or of those that come with the runtime. No suite proves these kinds: the operator's choice stands.
 */
import {
  type DeclaredPlugin,
  type DeclaredService,
  type RunningService,
  SERVICE_KINDS,
  type ServiceHost,
  type ServiceKind,
  type ServicePlugin,
  SluiceError,
} from '@sluice/sdk'
import { Value } from 'typebox/value'
import { type Settings, settingsType } from '../config/services.ts'
import { faultWords } from '../parsing/schema-words.ts'
import { type FoundPlugin, findPlugin, moduleOf, refused } from './loader.ts'
import { ownPlugin } from './own-plugins.ts'
import { OF_THIS_RELEASE } from './proof.ts'
import type { ServiceHealth } from './service-health.ts'

export interface ServiceSearch {
  /** Those of the configuration. */
  readonly specifiers: readonly string[]
  readonly baseDirectory: string
  /** Told of one each time that it is loaded. */
  readonly onLoaded: (loaded: LoadedService) => void
}

export interface LoadedService {
  /** As the configuration names it, or the runtime. */
  readonly specifier: string
  readonly packageName: string
  readonly packageVersion: string
  readonly sdkRange: string
  readonly plugin: ServicePlugin<ServiceKind, never, unknown>
  /** Of one that comes with the runtime the tests of its release; of others nobody. */
  readonly proof: { readonly status: 'bundled' | 'allowed'; readonly message: string }
}

/** What one is opened with, by the name of its folder. */
export type ServiceHosts = (name: string) => Promise<ServiceHost & AsyncDisposable>

/** How a runtime comes by each of its services. */
export interface ServiceParts extends ServiceSearch, ServiceOpening {}

export interface ServiceOpening {
  readonly hostFor: ServiceHosts
  /** Is told of each that is open. */
  readonly health: ServiceHealth
}

export const isService = (declared: DeclaredPlugin | DeclaredService): declared is DeclaredService =>
  (SERVICE_KINDS as readonly string[]).includes(declared.kind)

/**
 * The plugin of the kind and name. Throws CONFIG `unknown_driver` where there is none, and as `loadPlugin` does.
 * @typeParam Plugin of that kind, as the SDK declares it
 */
export async function loadService<Plugin extends ServicePlugin<ServiceKind, never, unknown>>(
  kind: Plugin['kind'],
  name: string,
  { specifiers, baseDirectory, onLoaded }: ServiceSearch,
): Promise<Plugin> {
  const load = async (specifier: string, found: FoundPlugin) => {
    const loaded = await loadFound(specifier, found)
    onLoaded(loaded)
    return loaded.plugin as unknown as Plugin
  }
  const others: string[] = []
  for (const specifier of specifiers) {
    const found = await findPlugin(specifier, baseDirectory)
    if (found.declared.kind !== kind) continue
    if (found.declared.name === name) return load(specifier, found)
    others.push(found.declared.name)
  }
  const own = `@sluice/${kind}/${name}`
  if ((await ownPlugin(own)) !== null) return load(own, await findPlugin(own, baseDirectory))
  throw new SluiceError('CONFIG', `no plugin of kind ${kind} is called "${name}"`, {
    code: 'unknown_driver',
    remedy: `Of that kind are listed under "plugins": ${others.join(', ') || 'none'}. Add its package there, or choose another.`,
  })
}

/** The one at that place. Throws CONFIG `plugin_invalid`. */
export async function loadFound(
  specifier: string,
  { located, declared, sdkRange }: FoundPlugin,
): Promise<LoadedService> {
  const module = await moduleOf(specifier, located)
  const plugin = module.default as Partial<ServicePlugin<ServiceKind, never, unknown>> | null | undefined
  const isWhole = plugin && typeof plugin.open === 'function' && plugin.settingsSchema
  if (!isWhole) throw refused(specifier, 'plugin_invalid', 'its default export is no plugin object')
  if (plugin.kind !== declared.kind || plugin.name !== declared.name) {
    throw refused(specifier, 'plugin_invalid', 'its default export is not what its manifest declares')
  }
  const { name: packageName = specifier, version: packageVersion = '0.0.0' } = located.packageJson
  return {
    ...{ specifier, packageName, packageVersion, sdkRange },
    plugin: plugin as LoadedService['plugin'],
    proof: located.isBundled
      ? { status: 'bundled', message: OF_THIS_RELEASE }
      : { status: 'allowed', message: 'proved by nobody but you: no suite proves plugins of this kind' },
  }
}

export interface OpenedService<Service> {
  readonly service: Service
  close(): Promise<void>
}

/**
 * With a host of its own, which ends with it. Throws what the plugin throws; of one that does not open nothing stays.
 * @param settings complete
 */
export async function openService<Settings, Service extends RunningService>(
  plugin: ServicePlugin<ServiceKind, Settings, Service>,
  settings: Settings,
  { hostFor, health }: ServiceOpening,
): Promise<OpenedService<Service>> {
  const host = await hostFor(`${plugin.kind}-${plugin.name}`)
  const endHost = () => host[Symbol.asyncDispose]()
  try {
    const service = await plugin.open(settings, host)
    health.watch(plugin, service, host.clock)
    const close = async () => {
      health.forget(service)
      try {
        await service.close()
      } finally {
        await endHost()
      }
    }
    return { service, close }
  } catch (error) {
    await endHost()
    throw error
  }
}

/**
 * The settings as the plugin's schema says: texts of the environment converted, defaults filled in. Throws CONFIG
 * `invalid_settings` that names every fault and no value.
 * @param where in the configuration: `events`, a dot and its name
 */
export function completeSettings<Complete>(
  plugin: Pick<ServicePlugin<ServiceKind, never, unknown>, 'settingsSchema'>,
  settings: Settings,
  where: string,
): Complete {
  const schema = settingsType(plugin.settingsSchema)
  const complete = Value.Default(schema, Value.Convert(schema, listed(plugin, settings)))
  if (Value.Check(schema, complete)) return complete as Complete
  const faults = Value.Errors(schema, complete).flatMap((error) => {
    const path = [where, ...error.instancePath.split('/').slice(1)].join('.')
    if (error.keyword === 'boolean') return [`${path} is not known`]
    return error.keyword === 'additionalProperties' ? [] : [`${path} ${faultWords(error, schema)}`]
  })
  throw new SluiceError('CONFIG', `settings are not valid: ${faults.join('; ')}`, {
    code: 'invalid_settings',
    remedy: `Correct ${where} in the configuration.`,
  })
}

/** A list in the environment is one text, parted by commas. */
function listed(
  { settingsSchema }: { readonly settingsSchema: ServicePlugin<ServiceKind, never, unknown>['settingsSchema'] },
  settings: Settings,
): Settings {
  const isList = (key: string) => settingsSchema.properties?.[key]?.type === 'array'
  return Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [
      key,
      isList(key) && typeof value === 'string' ? value.split(',').filter(Boolean) : value,
    ]),
  )
}
