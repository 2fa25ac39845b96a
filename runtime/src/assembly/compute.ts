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
  type ServiceSearch,
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

export interface ChosenCompute {
  readonly plugin: ComputePlugin<never>
  readonly settings: never
}

/** Those of the configuration. Throws CONFIG where there is no such engine, or it does not take what it is told. */
export async function chosenComputes(config: Config, search: ServiceSearch): Promise<readonly ChosenCompute[]> {
  const [named] = Object.entries(config.compute)
  const own = named === undefined ? null : await chosenOf(named, search)
  return [own, await chosenForServing(config, search)].filter((one) => one !== null)
}

async function chosenOf([name, settings]: readonly [string, Settings], search: ServiceSearch): Promise<ChosenCompute> {
  const plugin = await loadService<ComputePlugin<never>>('compute', name, search)
  return { plugin, settings: completeSettings(plugin, settings, `compute.${name}`) }
}

async function openChosen(named: readonly [string, Settings], services: ServiceParts): Promise<OpenedCompute> {
  return opened(await chosenOf(named, services), services)
}

/** Null where the driver of analytics is no engine for whole statements. */
async function openServing(config: Config, services: ServiceParts): Promise<OpenedCompute | null> {
  const chosen = await chosenForServing(config, services)
  // Of its own, beside the one that is chosen for transforms, which may be the same plugin.
  const hostFor = (name: string) => services.hostFor(`serving-${name}`)
  return chosen === null ? null : opened(chosen, { ...services, hostFor })
}

async function chosenForServing(
  { serving: { analytics } }: Config,
  search: ServiceSearch,
): Promise<ChosenCompute | null> {
  if (analytics?.settings === undefined) return null
  const plugin = await loadService<ComputePlugin<never>>('compute', analytics.driver, search).catch(
    (error: unknown) => {
      if (isSluiceError(error) && error.code === 'unknown_driver') return null
      throw error
    },
  )
  if (plugin === null) return null
  // A store has settings beside, of what it keeps itself.
  const known = Object.entries(analytics.settings).filter(([key]) => plugin.settingsSchema.properties?.[key])
  return { plugin, settings: completeSettings<never>(plugin, Object.fromEntries(known), 'serving.analytics.settings') }
}

async function opened({ plugin, settings }: ChosenCompute, services: ServiceOpening): Promise<OpenedCompute> {
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
