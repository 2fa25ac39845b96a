/** Whether a cluster can be reached and read, step by step. */
import type { CheckReport, ConnectorHost } from '@sluice/sdk'
import { CheckSteps, tlsMessage, Wanting } from '../server/check-steps.ts'
import type { Line } from '../server/line.ts'
import { openTcp } from '../server/line.ts'
import type { ClusterClient } from './cluster.ts'
import { readersOf } from './decoder.ts'
import { listedTopics } from './discover.ts'
import { kafkaFailure, quotedTopic } from './failure.ts'
import { type Address, loggedIn, type Place, protectedLine } from './login.ts'
import type { Registry } from './registry/schemas.ts'
import type { KafkaSource } from './settings.ts'

const STEP_MS = 15_000
const MAX_CHECKED = 20

export async function checked(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  host: ConnectorHost,
  signal: AbortSignal,
): Promise<CheckReport> {
  const startedMs = host.clock.nowMs()
  const steps = new CheckSteps(host.clock, signal, STEP_MS, (error, name) => kafkaFailure(error, `the step ${name}`))
  await all(source, client, registry, host, steps, signal)
  const { done } = steps
  return { ok: done.every(({ ok }) => ok), steps: done, latencyMs: Math.max(0, host.clock.nowMs() - startedMs) }
}

async function all(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  host: ConnectorHost,
  steps: CheckSteps,
  signal: AbortSignal,
): Promise<void> {
  const { cluster } = source
  const found = await steps.step(
    'dns',
    (hurry) =>
      firstOf(cluster.brokers, async (place) => ({
        place,
        to: await host.network.resolve(place.host, place.port, hurry),
      })),
    () => 'a broker resolves, and connections to it are allowed',
  )
  if (found === null) return
  const { place, to } = found
  const opened = await steps.step(
    'tcp',
    async (hurry) => (await openTcp(to, place.port, hurry)).destroy(),
    () => 'the port accepts connections',
  )
  if (opened === null) return
  if (cluster.tls) {
    const line = await steps.step('tls', (hurry) => lineTo(source, place, to, hurry), tlsMessage)
    line?.socket.destroy()
    if (line === null) return
  }
  if (cluster.login !== null) {
    const login = async (hurry: AbortSignal) => {
      const { line } = await loggedIn(cluster, await lineTo(source, place, to, hurry), host, hurry)
      line.close()
      return line
    }
    if ((await steps.step('auth', login, () => 'the brokers take the login')) === null) return
  }
  await steps.step(
    'privileges',
    (hurry) => readable(source, client, registry, AbortSignal.any([hurry, signal])),
    (count) => `${count} topics can be read`,
  )
}

const lineTo = ({ cluster }: KafkaSource, place: Place, to: Address, signal: AbortSignal): Promise<Line> =>
  protectedLine(cluster, place, to, signal)

/** The first that succeeds; the error of the first where none does. */
async function firstOf<T, Found>(items: readonly T[], look: (item: T) => Promise<Found>): Promise<Found> {
  let failure: unknown = null
  for (const item of items) {
    try {
      return await look(item)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

async function readable(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  signal: AbortSignal,
): Promise<number> {
  const names = await listedTopics(source, client, signal)
  if (names.length === 0)
    throw new Wanting(
      'there is no topic to read',
      'Name topics that there are, and give the login READ and DESCRIBE on them.',
    )
  for (const name of names.slice(0, MAX_CHECKED)) {
    const table = source.tableOf(name)
    if (table !== null) await readersOf(table, registry, signal)
    const topic = await client.topic(name, signal)
    for (const { partition, first, end } of (await client.ranges(topic, signal))
      .filter((range) => range.first < range.end)
      .slice(0, 1)) {
      const question = { topicId: topic.id, partition, offset: first, maxBytes: 1, maxWaitMs: 0 }
      const { records } = await client.fetch(name, question, signal)
      if (records.length === 0 && first < end - 1)
        throw new Wanting(`topic ${quotedTopic(name)} gives no records`, 'Look into the logs of the brokers.')
    }
  }
  return names.length
}
