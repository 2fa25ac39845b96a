/** Events and changed rows on their way to the bus, where one is configured. */
import { type EventBus, type EventBusPlugin, SluiceError } from '@sluice/sdk'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { Settings } from '../config/services.ts'
import type { Config } from '../config.ts'
import { EventRelay, type RelayOptions } from '../events/relay.ts'
import { forgetRelays } from '../events/relay-positions.ts'
import { ChangeRelay } from '../materializer/change-relay.ts'
import type { MaterializeDeps } from '../materializer/deps.ts'
import { changeMetrics } from '../metrics/changes.ts'
import {
  completeSettings,
  loadService,
  openService,
  type ServiceParts,
  type ServiceSearch,
} from '../plugins/services.ts'
import { forgetChangeTopics } from '../registry/change-topics.ts'
import { findTenant } from '../registry/tenants.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Databases } from './storage.ts'

export interface ChosenBus {
  readonly name: string
  readonly plugin: EventBusPlugin<Settings>
  readonly settings: Settings
}

/** Null where none is configured. Throws CONFIG where there is no such bus, or it does not take what it is told. */
export async function chosenBus({ events }: Config, search: ServiceSearch): Promise<ChosenBus | null> {
  const [[name, settings] = []] = Object.entries(events)
  if (name === undefined || settings === undefined) return null
  const plugin = await loadService<EventBusPlugin<Settings>>('event-bus', name, search)
  if (!('change_topics' in (plugin.settingsSchema.properties ?? {})) && asksForChanges(settings))
    throw withoutChanges(name)
  return { name, plugin, settings: completeSettings<Settings>(plugin, settings, `events.${name}`) }
}

/** The bus, and, in a process that carries events to it, the relay that does; null where none is configured. */
export async function openBus(
  config: Config,
  { carries = true, ...registry }: Pick<RelayOptions, 'pool' | 'address' | 'logger'> & { readonly carries?: boolean },
  services: ServiceParts,
  lifecycle: Lifecycle,
): Promise<EventBus | null> {
  const { pool } = registry
  const chosen = await chosenBus(config, services)
  if (chosen === null) {
    if (!carries) return null
    await forgetRelays(pool, null)
    await forgetChangeTopics(pool)
    return null
  }
  const { name, plugin, settings } = chosen
  const { service: bus } = await lifecycle.start(
    'the event bus',
    () => openService(plugin, settings, services),
    (opened) => opened.close(),
  )
  if (!carries) return bus
  if (bus.changes === undefined) {
    if (asksForChanges(settings)) throw withoutChanges(name)
    await forgetChangeTopics(pool)
  }
  // Only now: of a name that was misspelt nothing is forgotten.
  await forgetRelays(pool, name)
  await lifecycle.start(
    'the relay of events',
    () => new EventRelay({ ...registry, name, bus, isActive: (tenant) => isActive(pool, tenant) }),
    (relay) => relay.close(),
  )
  return bus
}

const isActive = async (pool: RelayOptions['pool'], tenant: string) =>
  (await findTenant(pool, tenant))?.status === 'active'

/** Whose schema does not know the key is told what it means, too. */
const asksForChanges = ({ change_topics: asked }: Settings) => asked !== undefined && String(asked) !== 'false'

function withoutChanges(name: string): SluiceError {
  return new SluiceError('CONFIG', `the event bus ${name} carries events alone, and change topics are asked for`, {
    code: 'bus_without_changes',
    remedy: `Leave change_topics out of events.${name}, or name a bus that keeps readers and late writers from such topics.`,
  })
}

/** What sends changed rows to the bus; it also removes their topics where they are switched off. */
export async function openChanges(
  materializeDeps: MaterializeDeps,
  bus: EventBus | null,
  { events }: Config,
  { registry: address }: Databases,
  metrics: MetricsRegistry,
  lifecycle: Lifecycle,
): Promise<void> {
  if (bus?.changes === undefined) return
  const { changes } = bus
  const [busName = ''] = Object.keys(events)
  const { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint } = materializeDeps
  const deps = { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint }
  const onSent = changeMetrics(metrics, pool)
  await lifecycle.start(
    'the relay of changes',
    () => new ChangeRelay({ ...deps, address, busName, bus: changes, onSent }),
    (relay) => relay.close(),
  )
}
