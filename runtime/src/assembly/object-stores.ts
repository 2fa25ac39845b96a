/** Object stores that plugins bring: for the lake, and for exports. */
import type { Buckets, LentAccess, ObjectStorePlugin } from '@sluice/sdk'
import { type Settings, USUAL_OBJECT_STORE } from '../config/services.ts'
import type { Config } from '../config.ts'
import type { ExportDestination } from '../operations/exports/export-destinations.ts'
import {
  completeSettings,
  loadService,
  type OpenedService,
  openService,
  type ServiceParts,
  type ServiceSearch,
} from '../plugins/services.ts'

export interface ChosenStore {
  readonly plugin: ObjectStorePlugin<Settings>
  readonly settings: Settings
}

/** That of the lake, which is in no folder. Throws CONFIG `unknown_driver`, `invalid_settings`. */
export async function chosenStore(
  { object_store: { type, cache_mb: _, ...settings } }: Config,
  search: ServiceSearch,
): Promise<ChosenStore> {
  const plugin = await pluginOf(type, search)
  return { plugin, settings: completeSettings<Settings>(plugin, settings, 'object_store') }
}

/** Throws as `chosenStore` does, and what the plugin throws. */
export async function openBuckets(config: Config, services: ServiceParts): Promise<OpenedService<Buckets>> {
  const { plugin, settings } = await chosenStore(config, services)
  return openService(plugin, settings, services)
}

export interface OpenedDestinations {
  readonly destinations: Readonly<Record<string, ExportDestination>>
  close(): Promise<void>
}

type ChosenDestination = ChosenStore & Pick<ExportDestination, 'tenants' | 'folder'> & { readonly name: string }

/** Throws as `chosenStore` does. */
export async function chosenDestinations(
  { exports: { destinations } }: Config,
  search: ServiceSearch,
): Promise<readonly ChosenDestination[]> {
  const chosen: ChosenDestination[] = []
  for (const [name, { type = USUAL_OBJECT_STORE, bucket, prefix, tenants, ...rest }] of Object.entries(destinations)) {
    const plugin = await pluginOf(type, search)
    const settingsSchema = plugin.destinationSchema ?? plugin.settingsSchema
    const settings: Settings = completeSettings({ settingsSchema }, rest, `exports.destinations.${name}`)
    chosen.push({ name, plugin, settings, tenants, folder: prefix === undefined ? bucket : `${bucket}/${prefix}` })
  }
  return chosen
}

/** Each store is opened when a file goes there. Throws as `chosenStore` does. */
export async function openDestinations(config: Config, services: ServiceParts): Promise<OpenedDestinations> {
  const hosts: AsyncDisposable[] = []
  const destinations: Record<string, ExportDestination> = {}
  for (const { name, plugin, settings, tenants, folder } of await chosenDestinations(config, services)) {
    const host = await services.hostFor(`export-destination-${name}`)
    hosts.push(host)
    destinations[name] = { tenants, folder, open: () => plugin.open(settings, host) }
  }
  return {
    destinations,
    async close() {
      for (const host of hosts) await host[Symbol.asyncDispose]()
    },
  }
}

/** What clients of the catalogue without a key are lent; null where that is not configured, or the store cannot. */
export async function lentAccessOf({ catalog }: Config, buckets: Buckets | null): Promise<LentAccess | null> {
  return catalog.file_access === 'signed' ? ((await buckets?.lend?.()) ?? null) : null
}

function pluginOf(type: string, search: ServiceSearch): Promise<ObjectStorePlugin<Settings>> {
  return loadService('object-store', type, search)
}
