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
} from '../plugins/services.ts'

/** Throws CONFIG `unknown_driver`, `invalid_settings`, and what the plugin throws. */
export async function openBuckets(
  { object_store: { type, cache_mb: _, ...settings } }: Config,
  services: ServiceParts,
): Promise<OpenedService<Buckets>> {
  const plugin = await pluginOf(type, services)
  return openService(plugin, completeSettings<Settings>(plugin, settings, 'object_store'), services)
}

export interface OpenedDestinations {
  readonly destinations: Readonly<Record<string, ExportDestination>>
  close(): Promise<void>
}

/** Each store is opened when a file goes there. Throws as `openBuckets` does. */
export async function openDestinations(
  { exports: { destinations: configured } }: Config,
  services: ServiceParts,
): Promise<OpenedDestinations> {
  const hosts: AsyncDisposable[] = []
  const destinations: Record<string, ExportDestination> = {}
  for (const [name, { type = USUAL_OBJECT_STORE, bucket, prefix, tenants, ...rest }] of Object.entries(configured)) {
    const plugin = await pluginOf(type, services)
    const settingsSchema = plugin.destinationSchema ?? plugin.settingsSchema
    const settings: Settings = completeSettings({ settingsSchema }, rest, `exports.destinations.${name}`)
    const host = await services.hostFor(`export-destination-${name}`)
    hosts.push(host)
    const folder = prefix === undefined ? bucket : `${bucket}/${prefix}`
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

function pluginOf(type: string, services: ServiceParts): Promise<ObjectStorePlugin<Settings>> {
  return loadService('object-store', type, services)
}
