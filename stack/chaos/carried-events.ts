/** What has come to Kafka, as a consumer reads it that comes late, held against the registry and the lake. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Consumer,
  GenericError,
  type Message,
  MessagesStreamModes,
  MultipleErrors,
  stringDeserializers,
} from '@platformatic/kafka'
import pg from 'pg'
import { Client } from '../../acceptance/client.ts'
import { heard } from '../../plugins/event-bus/kafka/client.ts'
import { type CloudEvent, EVENT_KINDS, topicName } from '../../runtime/src/events/envelope.ts'
import { allRows, shownColumns } from './equality.ts'
import type { Shown } from './judge.ts'
import type { LoadedFleet } from './loaded-fleet.ts'
import { PRODUCT, type Tenant } from './world.ts'

const ARRIVES_WITHIN_MS = 180_000
const POLL_MS = 200
const RETRY_DELAY_MS = 300
/** Of one call of a reader: a broker that was killed lets nobody join a group until it has read what it knows of groups. */
const RETRIES = 30

type Carried = Message<string, string, string, string>

export class CarriedEvents {
  readonly #loaded: LoadedFleet
  readonly #broker: URL

  constructor(loaded: LoadedFleet) {
    this.#loaded = loaded
    this.#broker = new URL(loaded.servers.engines.kafka as string)
  }

  /** Every event that the registry has now, each at least once and under one id, in the order of its topic. */
  async untilArrived(): Promise<readonly CloudEvent[]> {
    const wanted = (await this.#recorded()).map(({ id }) => id)
    const carried = await this.#read(this.#eventTopics(), (read) => {
      const known = new Set(read.map(({ value }) => eventIn(value).id))
      const missing = wanted.filter((id) => !known.has(id))
      return missing.length === 0 ? null : `${missing.length} of ${wanted.length} events did not arrive`
    })
    return withoutRepetitions(carried)
  }

  /** Once nothing is written any more: exactly the events of the registry, their numbers without gaps. */
  async assertComplete(): Promise<void> {
    const events = await this.untilArrived()
    const recorded = await this.#recorded()
    const byId = (left: Recorded, right: Recorded) => (left.id < right.id ? -1 : 1)
    assert.deepEqual(events.map(recordOf).toSorted(byId), recorded.toSorted(byId))
    for (const [of, numbers] of numbersOf(events)) {
      assert.deepEqual(
        numbers.toSorted((left, right) => left - right),
        Array.from({ length: numbers.length }, (_, index) => index + 1),
        `the numbers of ${of}`,
      )
    }
    console.log(`${events.length} events were carried`)
  }

  /** Whoever keeps the newest row of each key from the change topics has what queries give. */
  async assertChangesEqual(): Promise<void> {
    for (const tenant of this.#loaded.tenants) {
      const topics = await this.#changeTopics(tenant)
      assert.deepEqual(topics.map(({ variant }) => variant).toSorted(), ['clear', 'masked'])
      for (const { topic, variant } of topics) {
        const reader = tenant.people.find(({ seesClear }) => seesClear === (variant === 'clear'))
        const client = new Client(this.#loaded.fleet.front.url, reader?.token ?? null)
        const wanted = (await allRows(client, 'query')).map(shownColumns)
        const changes = await this.#read([topic], (read) =>
          JSON.stringify(folded(read)) === JSON.stringify(wanted) ? null : `${topic} is not what queries give`,
        )
        assert.deepEqual(folded(changes), wanted, topic)
      }
    }
  }

  /** Waits until each has the newest epoch. */
  async #changeTopics({ developer }: Tenant): Promise<readonly ChangeTopic[]> {
    for (const deadline = Date.now() + ARRIVES_WITHIN_MS; ; await sleep(POLL_MS)) {
      const { body } = await developer.get(`/api/v1/products/${PRODUCT}`)
      const topics: readonly ChangeTopic[] = body.change_topics
      if (topics.length > 0 && topics.every(({ state }) => state === 'ok')) return topics
      assert.ok(Date.now() < deadline, `changed rows wait: ${JSON.stringify(topics)}`)
    }
  }

  #eventTopics(): readonly string[] {
    return this.#loaded.tenants.flatMap(({ slug }) => EVENT_KINDS.map((kind) => topicName(slug, kind)))
  }

  async #recorded(): Promise<readonly Recorded[]> {
    const registry = new pg.Client({
      connectionString: this.#loaded.fleet.environment['SLUICE_DATABASE__REGISTRY_URL'],
    })
    await registry.connect()
    try {
      const { rows } = await registry.query<Recorded>(
        `select id, tenant, type, subject, sequence::text, product_sequence::text, data from events where tenant = any ($1)`,
        [this.#loaded.tenants.map(({ slug }) => slug)],
      )
      return rows
    } finally {
      await registry.end()
    }
  }

  /**
   * Reads from the beginning until nothing is missing; throws with what is. The client asks again where it knows the leader
   * of a partition to have been, so a reader that came while leaders changed never reads anything: another one begins anew.
   */
  async #read(
    topics: readonly string[],
    missing: (read: readonly Carried[]) => string | null,
  ): Promise<readonly Carried[]> {
    for (const deadline = Date.now() + ARRIVES_WITHIN_MS; ; await sleep(RETRY_DELAY_MS)) {
      try {
        return await this.#readOnce(topics, missing, deadline)
      } catch (error) {
        const mayPass = !(error instanceof assert.AssertionError) && !isFinal(error)
        if (!mayPass || Date.now() >= deadline) throw error
        console.log(`a reader begins anew: ${String(error)}`)
      }
    }
  }

  async #readOnce(
    topics: readonly string[],
    missing: (read: readonly Carried[]) => string | null,
    deadline: number,
  ): Promise<readonly Carried[]> {
    const { username, password, host } = this.#broker
    const consumer = heard(
      new Consumer({
        clientId: 'chaos',
        groupId: randomUUID(),
        bootstrapBrokers: [host],
        sasl: { mechanism: 'PLAIN', username, password },
        deserializers: stringDeserializers,
        retries: RETRIES,
        retryDelay: RETRY_DELAY_MS,
      }),
    )
    try {
      const read: Carried[] = []
      const stream = await consumer.consume({
        topics: [...topics],
        mode: MessagesStreamModes.EARLIEST,
        autocommit: false,
      })
      stream.on('data', (message) => read.push(message))
      const broken = new Promise<never>((_, reject) => stream.once('error', reject))
      // Told by the race below, where there is one.
      broken.catch(() => undefined)
      for (; ; await Promise.race([sleep(POLL_MS), broken])) {
        const why = missing(read)
        if (why === null) return read
        assert.ok(Date.now() < deadline, why)
      }
    } finally {
      // The broker forgets the group by itself, where it does not answer to a goodbye.
      await consumer.close(true).catch(() => undefined)
    }
  }
}

/** What asking again does not change: a login, a right, a topic that is not there. */
function isFinal(error: unknown): boolean {
  if (error instanceof MultipleErrors) return error.findBy('canRetry', false) !== null
  return error instanceof GenericError && error.findBy('canRetry', false) !== null
}

interface ChangeTopic {
  readonly topic: string
  readonly variant: 'masked' | 'clear'
  readonly state: string
}

/** An event as the registry has it. */
interface Recorded {
  readonly id: string
  readonly tenant: string
  readonly type: string
  readonly subject: string | null
  readonly sequence: string | null
  readonly product_sequence: string | null
  readonly data: unknown
}

const recordOf = ({ id, tenantid, type, subject, sequence, productsequence, data }: CloudEvent): Recorded => {
  return {
    id,
    tenant: tenantid,
    type,
    subject: subject ?? null,
    sequence,
    product_sequence: productsequence ?? null,
    data,
  }
}

const eventIn = (value: string): CloudEvent => JSON.parse(value) as CloudEvent

/** The first of each id, as they came. A repetition is the same event, and behind none that was told later of its topic. */
function withoutRepetitions(carried: readonly Carried[]): readonly CloudEvent[] {
  const first = new Map<string, string>()
  const last = new Map<string, number>()
  for (const { topic, value } of carried) {
    const { id, sequence } = eventIn(value)
    assert.equal(value, first.get(id) ?? value, `${topic} has two events ${id}`)
    if (first.has(id)) continue
    first.set(id, value)
    assert.ok(Number(sequence) > (last.get(topic) ?? 0), `${topic}: ${sequence} came behind ${last.get(topic)}`)
    last.set(topic, Number(sequence))
  }
  return [...first.values()].map(eventIn)
}

/** By whom they count: each tenant, and each of its products. */
function numbersOf(events: readonly CloudEvent[]): Map<string, readonly number[]> {
  const numbers = new Map<string, number[]>()
  const add = (of: string, number: string) => numbers.set(of, [...(numbers.get(of) ?? []), Number(number)])
  for (const { tenantid, subject, sequence, productsequence } of events) {
    add(tenantid, sequence)
    if (productsequence !== undefined) add(`${tenantid} ${subject}`, productsequence)
  }
  return numbers
}

/** In the order of their numbers. What a transaction left that was not ended says the same as the one that was. */
function folded(changes: readonly Carried[]): readonly Shown[] {
  const newest = new Map<string, { readonly epoch: number; readonly value: string }>()
  for (const { key, value, headers } of changes) {
    const epoch = Number(headers.get('ce_epoch'))
    if (epoch >= (newest.get(key)?.epoch ?? 0)) newest.set(key, { epoch, value })
  }
  const rows = [...newest.values()].filter(({ value }) => value).map(({ value }) => JSON.parse(value) as Shown)
  return rows.toSorted((left, right) => left.id - right.id).map(shownColumns)
}
