/** Events and changed rows on their way to the bus, where one is configured. */
import type { Registry as MetricsRegistry } from 'prom-client'
import type { Config } from '../config.ts'
import type { EventBus } from '../events/bus.ts'
import { openKafkaBus } from '../events/kafka-bus.ts'
import { openKafkaChanges } from '../events/kafka-changes.ts'
import type { KafkaSettings } from '../events/kafka-client.ts'
import { EventRelay, type RelayOptions } from '../events/relay.ts'
import { forgetRelays } from '../events/relay-positions.ts'
import { ChangeRelay } from '../materializer/change-relay.ts'
import type { MaterializeDeps } from '../materializer/materialize.ts'
import { changeMetrics } from '../metrics/changes.ts'
import { forgetChangeTopics } from '../registry/change-topics.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Databases } from './storage.ts'

/** The bus, and the relay that carries events to it; null where none is configured. */
export async function openBus(
  { events }: Config,
  registry: Pick<RelayOptions, 'pool' | 'address' | 'logger'>,
  lifecycle: Lifecycle,
): Promise<EventBus | null> {
  const { kafka } = events
  if (kafka === undefined) {
    await forgetRelays(registry.pool)
    await forgetChangeTopics(registry.pool)
    return null
  }
  const bus = await lifecycle.start(
    'the event bus',
    () => openKafkaBus(kafka as KafkaSettings),
    (opened) => opened.close(),
  )
  await lifecycle.start(
    'the relay of events',
    () => new EventRelay({ ...registry, bus }),
    (relay) => relay.close(),
  )
  return bus
}

/** What sends changed rows to the bus; it also removes their topics where they are switched off. */
export async function openChanges(
  materializeDeps: MaterializeDeps,
  { events: { kafka } }: Config,
  { registry: address }: Databases,
  metrics: MetricsRegistry,
  lifecycle: Lifecycle,
): Promise<void> {
  if (kafka === undefined) return
  const settings = kafka as KafkaSettings
  const bus = await lifecycle.start(
    'change topics',
    () => openKafkaChanges(settings),
    (opened) => opened.close(),
  )
  const { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint } = materializeDeps
  const deps = { pool, lake, engine, limits, scratchDirectory, logger, rules, faultPoint }
  const principals = { reader: settings.reader_principal ?? null, cleared: settings.cleared_principal ?? null }
  const onSent = changeMetrics(metrics, pool)
  await lifecycle.start(
    'the relay of changes',
    () => new ChangeRelay({ ...deps, address, bus, principals, isOn: settings.change_topics, onSent }),
    (relay) => relay.close(),
  )
}
