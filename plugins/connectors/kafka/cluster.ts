/** The brokers of one cluster, as one call needs them: lines that are opened when they are asked for, and closed with it. */
import type { ConnectorHost, SluiceError } from '@sluice/sdk'
import { within } from '../server/deadline.ts'
import {
  changedMeanwhile,
  ERRORS,
  KafkaRefusal,
  kafkaFailure,
  MOVED,
  requestInvalid,
  stopIfAborted,
} from './failure.ts'
import { loggedIn, type Place, protectedLine } from './login.ts'
import type { Cluster } from './settings.ts'
import {
  type Api,
  EPOCH_ENDS,
  FETCH,
  type Fetched,
  type FetchQuestion,
  METADATA,
  type Metadata,
  OFFSETS,
  type PartitionOffset,
  type TopicPlaces,
} from './wire/answers.ts'
import { BrokenAnswer } from './wire/bytes.ts'
import type { BrokerLine } from './wire/line.ts'

const CONNECT_MS = 10_000
/** Where leaders move: how often they are looked for anew, and how long between. */
const TRIES = 20
const AGAIN_MS = 500
/** Of its login's life a line is used for so much. */
const LIFE_PART = 0.8
const MAX_BROKERS = 64

interface OpenLine {
  readonly line: BrokerLine
  readonly untilMs: number
}

export interface PartitionRange {
  readonly partition: number
  /** Of the first record that is still there. */
  readonly first: number
  /** What follows the last record that is committed. */
  readonly end: number
}

/** How far a partition was read, and in which epoch of its leader the last batch was written. */
export interface ReadPlace {
  readonly partition: number
  readonly offset: number
  readonly epoch: number
}

export class ClusterClient {
  readonly #cluster: Cluster
  readonly #host: ConnectorHost
  readonly #lines = new Map<string, OpenLine>()
  /** Where the brokers say that they are; each is asked for at the host's policy like those of the settings. */
  readonly #places = new Map<number, Place>()
  readonly #leaders = new Map<string, number>()

  constructor(cluster: Cluster, host: ConnectorHost) {
    this.#cluster = cluster
    this.#host = host
  }

  /** By the host's clock. */
  nowMs(): number {
    return this.#host.clock.nowMs()
  }

  close(): void {
    for (const { line } of this.#lines.values()) line.close()
    this.#lines.clear()
  }

  /** Topics by name; null: all that the login may see. Throws SluiceErrors only. */
  async topics(names: readonly string[] | null, signal: AbortSignal): Promise<readonly TopicPlaces[]> {
    const { topics } = await this.#metadata(names, signal)
    return topics
  }

  /** Throws INVALID_DATA where there is none of that name, or the login may not see it. */
  async topic(name: string, signal: AbortSignal): Promise<TopicPlaces> {
    for (let left = TRIES; ; left -= 1) {
      const [found] = (await this.topics([name], signal)).filter((topic) => topic.name === name)
      if (found === undefined || found.error === ERRORS.unknownTopic) throw requestInvalid('there is no such topic')
      if (found.error === ERRORS.topicUnauthorized)
        throw kafkaFailure(new KafkaRefusal(found.error, METADATA.name), 'reading the topic')
      const isLed = found.partitions.length > 0 && found.partitions.every(({ leader }) => leader >= 0)
      if (found.partitions.some(({ partition }, at) => partition !== at))
        throw kafkaFailure(
          new BrokenAnswer('the partitions of a topic are not numbered from 0 on'),
          'reading the topic',
        )
      if (found.error === 0 && isLed) return found
      if (left === 0) throw kafkaFailure(new KafkaRefusal(found.error, METADATA.name), 'reading the topic')
      await this.#pause(signal)
    }
  }

  /** Of every partition, in their order. */
  async ranges(topic: TopicPlaces, signal: AbortSignal): Promise<readonly PartitionRange[]> {
    const first = await this.#offsets(topic, 'first', signal)
    const end = await this.#offsets(topic, 'end', signal)
    return topic.partitions.map(({ partition }) => ({
      partition,
      first: first.get(partition) ?? 0,
      end: Math.max(end.get(partition) ?? 0, first.get(partition) ?? 0),
    }))
  }

  /** Whether a log was cut off before one of these places, and has gone on by other records since. */
  async isCut(topic: TopicPlaces, places: readonly ReadPlace[], signal: AbortSignal): Promise<boolean> {
    const epochs = new Map(places.map(({ partition, epoch }) => [partition, epoch]))
    const question = (partitions: readonly number[]) => ({
      topic: topic.name,
      partitions: partitions.map((partition) => ({ partition, epoch: epochs.get(partition) ?? 0 })),
    })
    const ends = await this.#ofEach(EPOCH_ENDS, topic, [...epochs.keys()], question, signal)
    return places.some(({ partition, offset }) => (ends.get(partition) ?? offset) < offset)
  }

  /** Finds the leader anew where it has moved. `error` of what comes is 0 or that of an offset out of range. */
  async fetch(topic: string, question: FetchQuestion, signal: AbortSignal): Promise<Fetched> {
    for (let left = TRIES; ; left -= 1) {
      const leader = this.#leaders.get(keyOf(topic, question.partition)) ?? -1
      const fetched =
        leader < 0 ? null : await this.#tried(leader, (line) => line.ask(FETCH, question, signal), signal, left)
      if (fetched !== null && (fetched.error === 0 || fetched.error === ERRORS.offsetOutOfRange)) return fetched
      const error = fetched?.error ?? 0
      if (error === ERRORS.unknownTopicId || error === ERRORS.otherTopicId)
        throw changedMeanwhile(topic, 'was deleted, or made anew,')
      const mayPass = fetched === null || MOVED.has(error) || error === ERRORS.unknownTopic
      if (!mayPass || left === 0) throw kafkaFailure(new KafkaRefusal(error, FETCH.name), 'reading the topic', signal)
      await this.#pause(signal)
      const { id } = await this.topic(topic, signal)
      if (id !== question.topicId) throw changedMeanwhile(topic, 'was made anew')
    }
  }

  #offsets(topic: TopicPlaces, which: 'first' | 'end', signal: AbortSignal): Promise<ReadonlyMap<number, number>> {
    const all = topic.partitions.map(({ partition }) => partition)
    return this.#ofEach(OFFSETS, topic, all, (partitions) => ({ topic: topic.name, partitions, which }), signal)
  }

  /** What the leaders of partitions say of them. */
  async #ofEach<Question>(
    api: Api<Question, readonly PartitionOffset[]>,
    topic: TopicPlaces,
    asked: readonly number[],
    questionOf: (partitions: readonly number[]) => Question,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<number, number>> {
    const found = new Map<number, number>()
    for (let left = TRIES; ; left -= 1) {
      const wanted = asked.filter((partition) => !found.has(partition))
      if (wanted.length === 0) return found
      let error = 0
      for (const [leader, partitions] of this.#byLeader(topic.name, wanted)) {
        const question = questionOf(partitions)
        const answers = await this.#tried(leader, (line) => line.ask(api, question, signal), signal, left)
        for (const answer of answers ?? []) {
          if (!partitions.includes(answer.partition)) continue
          if (answer.error === 0 && answer.offset >= 0) found.set(answer.partition, answer.offset)
          else error = answer.error
        }
      }
      if (found.size === asked.length) return found
      const mayPass = error === 0 || MOVED.has(error) || error === ERRORS.unknownTopic
      if (!mayPass || left === 0) throw kafkaFailure(new KafkaRefusal(error, api.name), 'reading the topic', signal)
      await this.#pause(signal)
      const { id } = await this.topic(topic.name, signal)
      if (id !== topic.id) throw changedMeanwhile(topic.name, 'was made anew')
    }
  }

  #byLeader(topic: string, partitions: readonly number[]): ReadonlyMap<number, number[]> {
    const by = new Map<number, number[]>()
    for (const partition of partitions) {
      const leader = this.#leaders.get(keyOf(topic, partition)) ?? -1
      by.set(leader, [...(by.get(leader) ?? []), partition])
    }
    return by
  }

  /** Null where the broker is away and may be back, or another leads. */
  async #tried<T>(
    broker: number,
    ask: (line: BrokerLine) => Promise<T>,
    signal: AbortSignal,
    left: number,
  ): Promise<T | null> {
    const place = this.#places.get(broker)
    if (place === undefined) return null
    try {
      return await ask(await this.#lineTo(place, signal))
    } catch (error) {
      const failure = kafkaFailure(error, 'reading the topic', signal)
      if (failure.kind !== 'TRANSIENT' || failure.code === 'aborted' || signal.aborted || left === 0) throw failure
      return null
    }
  }

  /** By whichever broker answers: those of the settings, and those that they have named. */
  async #metadata(names: readonly string[] | null, signal: AbortSignal): Promise<Metadata> {
    let failure: SluiceError | null = null
    for (const place of [...this.#places.values(), ...this.#cluster.brokers]) {
      stopIfAborted(signal)
      try {
        const line = await this.#lineTo(place, signal)
        const metadata = await line.ask(METADATA, names, signal)
        this.#remember(metadata)
        return metadata
      } catch (error) {
        failure = kafkaFailure(error, 'reading the cluster', signal)
        // Another broker would answer the same to a login that is wrong.
        if (failure.kind !== 'TRANSIENT' && failure.code !== 'address_refused') throw failure
        if (failure.code === 'aborted') throw failure
      }
    }
    throw failure ?? requestInvalid('there is no broker')
  }

  #remember({ brokers, topics }: Metadata): void {
    if (brokers.length > MAX_BROKERS)
      throw kafkaFailure(new BrokenAnswer(`the cluster has more than ${MAX_BROKERS} brokers`), 'reading the cluster')
    this.#places.clear()
    for (const { id, host, port } of brokers) if (port > 0 && port <= 65535) this.#places.set(id, { host, port })
    for (const { name, partitions } of topics)
      for (const { partition, leader } of partitions) this.#leaders.set(keyOf(name, partition), leader)
  }

  async #lineTo(place: Place, signal: AbortSignal): Promise<BrokerLine> {
    const key = `${place.host} ${place.port}`
    const known = this.#lines.get(key)
    if (known?.line.isOpen === true && this.#host.clock.nowMs() < known.untilMs) return known.line
    known?.line.close()
    this.#lines.delete(key)
    const opened = await within(this.#host.clock, signal, CONNECT_MS, async (hurry) => {
      const to = await this.#host.network.resolve(place.host, place.port, hurry)
      return loggedIn(this.#cluster, await protectedLine(this.#cluster, place, to, hurry), this.#host, hurry)
    })
    const { line, lifetimeMs } = opened
    const untilMs = lifetimeMs === null ? Number.POSITIVE_INFINITY : this.#host.clock.nowMs() + lifetimeMs * LIFE_PART
    this.#lines.set(key, { line, untilMs })
    return line
  }

  async #pause(signal: AbortSignal): Promise<void> {
    await pause(this.#host, AGAIN_MS, signal)
  }

  /** A broker that is asked too much says how long it is to be left alone. */
  pause(forMs: number, signal: AbortSignal): Promise<void> {
    return pause(this.#host, Math.min(forMs, 30_000), signal)
  }
}

async function pause({ clock }: ConnectorHost, forMs: number, signal: AbortSignal): Promise<void> {
  stopIfAborted(signal)
  const over = Promise.withResolvers<void>()
  const stop = clock.every(Math.max(1, forMs), over.resolve)
  const leave = () => over.resolve()
  signal.addEventListener('abort', leave, { once: true })
  await over.promise
  stop()
  signal.removeEventListener('abort', leave)
  stopIfAborted(signal)
}

const keyOf = (topic: string, partition: number) => `${topic} ${partition}`
