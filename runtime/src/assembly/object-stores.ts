/** Object stores that plugins bring: for the lake, and for exports. */
import type { Buckets, LentAccess, Logger, ObjectStorePlugin } from '@sluice/sdk'
import { type Settings, USUAL_OBJECT_STORE } from '../config/services.ts'
import type { Config } from '../config.ts'
import type { ExportDestination } from '../operations/exports/export-destinations.ts'
import { createHost, type HostServices } from '../plugins/host.ts'
import type { PluginMetrics } from '../plugins/plugin-metrics.ts'
import { completeSettings, loadService } from '../plugins/services.ts'

export interface StorePlugins {
  readonly services: Omit<HostServices, 'lakeEngine'>
  readonly metrics: PluginMetrics
}

/** Throws CONFIG `unknown_driver`, `invalid_settings`, and what the plugin throws. */
export async function openBuckets(
  { object_store: { type, cache_mb: _, ...settings }, plugins }: Config,
  { services, metrics }: StorePlugins,
): Promise<{ readonly buckets: Buckets; close(): Promise<void> }> {
  const plugin = await pluginOf(type, plugins, services.logger)
  const complete: Settings = completeSettings(plugin, settings, 'object_store')
  const host = await createHost(`object-store-${plugin.name}`, services, metrics)
  const buckets = await plugin.open(complete, host).catch(async (error: unknown) => {
    await host[Symbol.asyncDispose]()
    throw error
  })
  return {
    buckets,
    async close() {
      buckets.close()
      await host[Symbol.asyncDispose]()
    },
  }
}

export interface OpenedDestinations {
  readonly destinations: Readonly<Record<string, ExportDestination>>
  close(): Promise<void>
}

/** Each store is opened when a file goes there. Throws as `openBuckets` does. */
export async function openDestinations(
  { exports: { destinations: configured }, plugins }: Config,
  { services, metrics }: StorePlugins,
): Promise<OpenedDestinations> {
  const hosts: AsyncDisposable[] = []
  const destinations: Record<string, ExportDestination> = {}
  for (const [name, { type = USUAL_OBJECT_STORE, bucket, prefix, tenants, ...rest }] of Object.entries(configured)) {
    const plugin = await pluginOf(type, plugins, services.logger)
    const settingsSchema = plugin.destinationSchema ?? plugin.settingsSchema
    const settings: Settings = completeSettings({ settingsSchema }, rest, `exports.destinations.${name}`)
    const host = await createHost(`export-destination-${name}`, services, metrics)
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

function pluginOf(type: string, specifiers: readonly string[], logger: Logger): Promise<ObjectStorePlugin<Settings>> {
  return loadService('object-store', type, { specifiers, baseDirectory: process.cwd(), logger })
}
