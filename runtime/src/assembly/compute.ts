/** Engines outside of the runtime that the configuration chooses: for transforms of products, and for queries of readers. */
import { type Compute, type ComputePlugin, isSluiceError, type PolicyProtocol } from '@sluice/sdk'
import type { QueryEngine } from '../compute/query-engine.ts'
import type { Settings } from '../config/services.ts'
import type { Config } from '../config.ts'
import type { WatchedEngine } from '../operations/catalog/statement-watch.ts'
import {
  completeSettings,
  loadService,
  openService,
  type ServiceOpening,
  type ServiceParts,
} from '../plugins/services.ts'
import type { Lifecycle } from './lifecycle.ts'

export interface OpenedCompute {
  readonly name: string
  readonly compute: Compute
  /** Null where it asks nothing. */
  readonly policy: PolicyProtocol | null
  close(): Promise<void>
}

export interface Computes {
  /** Null where there is none. */
  readonly transforms: OpenedCompute | null
  readonly queries: QueryEngine | null
  readonly all: readonly OpenedCompute[]
}

/**
 * The one that `compute` names runs transforms. A server that serves analytics and is such an engine, too, answers queries,
 * and runs transforms where no other is named. Nothing is said to either yet.
 */
export async function openComputes(config: Config, services: ServiceParts, lifecycle: Lifecycle): Promise<Computes> {
  const [chosen] = Object.entries(config.compute)
  const start = (open: () => Promise<OpenedCompute | null>) =>
    lifecycle.start('an engine outside', open, (opened) => opened?.close())
  const own = chosen === undefined ? null : await start(() => openChosen(chosen, services))
  const serving = await start(() => openServing(config, services))
  const query = serving?.compute.query
  return {
    transforms: own ?? serving,
    queries: serving && query ? { name: serving.name, query: query.bind(serving.compute) } : null,
    all: [own, serving].filter((one) => one !== null),
  }
}

async function openChosen(
  [name, settings]: readonly [string, Settings],
  services: ServiceParts,
): Promise<OpenedCompute> {
  const plugin = await loadService<ComputePlugin<never>>('compute', name, services)
  return opened(plugin, completeSettings(plugin, settings, `compute.${name}`), services)
}

/** Null where the driver of analytics is no engine for whole statements. */
async function openServing({ serving: { analytics } }: Config, services: ServiceParts): Promise<OpenedCompute | null> {
  if (analytics?.settings === undefined) return null
  const plugin = await loadService<ComputePlugin<never>>('compute', analytics.driver, services).catch(
    (error: unknown) => {
      if (isSluiceError(error) && error.code === 'unknown_driver') return null
      throw error
    },
  )
  if (plugin === null) return null
  // A store has settings beside, of what it keeps itself.
  const known = Object.entries(analytics.settings).filter(([key]) => plugin.settingsSchema.properties?.[key])
  // Of its own, beside the one that is chosen for transforms, which may be the same plugin.
  const hostFor = (name: string) => services.hostFor(`serving-${name}`)
  const settings = completeSettings<never>(plugin, Object.fromEntries(known), 'serving.analytics.settings')
  return opened(plugin, settings, { ...services, hostFor })
}

async function opened(plugin: ComputePlugin<never>, settings: never, services: ServiceOpening): Promise<OpenedCompute> {
  const { service: compute, close } = await openService(plugin, settings, services)
  return { name: plugin.name, compute, policy: plugin.policy ?? null, close }
}

/** Each server once, whose statements can be looked at. */
export function watchedEngines({ all }: Computes): readonly WatchedEngine[] {
  const watched = all.flatMap(({ name, compute: { statements } }) => (statements ? [{ name, statements }] : []))
  const isFirst = ({ statements: { server } }: WatchedEngine, at: number) =>
    watched.findIndex(({ statements }) => statements.server === server) === at
  return watched.filter(isFirst)
}
