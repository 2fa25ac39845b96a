/** Events and changed rows on their way to the bus, where one is configured. */
import { type EventBus, type EventBusPlugin, SluiceError } from '@sluice/sdk'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { Settings } from '../config/services.ts'
import type { Config } from '../config.ts'
import { EventRelay, type RelayOptions } from '../events/relay.ts'
import { forgetRelays } from '../events/relay-positions.ts'
import { ChangeRelay } from '../materializer/change-relay.ts'
import type { MaterializeDeps } from '../materializer/materialize.ts'
import { changeMetrics } from '../metrics/changes.ts'
import type { createHost } from '../plugins/host.ts'
import { completeSettings, loadService } from '../plugins/services.ts'
import { forgetChangeTopics } from '../registry/change-topics.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Databases } from './storage.ts'

/** What a plugin of this kind is given, by the name of its folder. */
type HostFor = (name: string) => ReturnType<typeof createHost>

/** The bus, and the relay that carries events to it; null where none is configured. */
export async function openBus(
  { events, plugins }: Config,
  registry: Pick<RelayOptions, 'pool' | 'address' | 'logger'>,
  hostFor: HostFor,
  lifecycle: Lifecycle,
): Promise<EventBus | null> {
  const { pool, logger } = registry
  const [[name, settings] = []] = Object.entries(events)
  if (name === undefined || settings === undefined) {
    await forgetRelays(pool, null)
    await forgetChangeTopics(pool)
    return null
  }
  const search = { specifiers: plugins, baseDirectory: process.cwd(), logger }
  const plugin = await loadService<EventBusPlugin<unknown>>('event-bus', name, search)
  if (!('change_topics' in (plugin.settingsSchema.properties ?? {})) && asksForChanges(settings))
    throw withoutChanges(name)
  const complete = completeSettings<Settings>(plugin, settings, `events.${name}`)
  const host = await hostFor(`event-bus-${name}`)
  const bus = await lifecycle.start(
    'the event bus',
    () => plugin.open(complete, host),
    async (opened) => {
      await opened.close()
      await host[Symbol.asyncDispose]()
    },
  )
  if (bus.changes === undefined) {
    if (asksForChanges(complete)) throw withoutChanges(name)
    await forgetChangeTopics(pool)
  }
  // Only now: of a name that was misspelt nothing is forgotten.
  await forgetRelays(pool, name)
  await lifecycle.start(
    'the relay of events',
    () => new EventRelay({ ...registry, name, bus }),
    (relay) => relay.close(),
  )
  return bus
}

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
