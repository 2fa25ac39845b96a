import assert from 'node:assert/strict'
import { after, afterEach, describe, it } from 'node:test'
import { Consumer, type Message, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka'
import plugin from '@sluice/event-bus/kafka'
import type { KafkaSettings } from '@sluice/event-bus/kafka/settings'
import type { BusMessage, EventBus, ServiceHost } from '@sluice/sdk'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { busTenant } from './bus-tenant.ts'
import type { CloudEvent } from './envelope.ts'
import { eventMigrations } from './migrations.ts'
import { appendEvent, dropTopics, numberEvents, provisionTopics, pruneEvents } from './outbox.ts'
import { EventRelay } from './relay.ts'

const url = new URL(process.env['SLUICE_TEST_KAFKA_URL'] ?? 'kafka://unset')
const database = await (await startTestPostgres()).createDatabase({ migrations: [eventMigrations] })
const pool = database.pool({ maxConnections: 8 })
const bus = await open()
after(async () => {
  await bus.close()
  await database.drop()
})

/** This driver asks nothing of its host. */
function open(parts: Partial<KafkaSettings> = {}): Promise<EventBus> {
  return plugin.open(settings(parts), {} as ServiceHost)
}

function settings(parts: Partial<KafkaSettings> = {}): KafkaSettings {
  return {
    brokers: [url.host],
    username: url.username,
    password: url.password,
    mechanism: 'PLAIN',
    tls: false,
    partitions: 1,
    replicas: 1,
    reader_principal: 'User:{tenant}',
    change_topics: false,
    ...parts,
  }
}

const logger = { debug() {}, info() {}, warn() {}, error() {} }

const relays: EventRelay[] = []
afterEach(async () => {
  for (const relay of relays.splice(0)) await relay.close()
})

function relayTo(target: EventBus, leaseMs = 60_000): EventRelay {
  const relay = new EventRelay({
    name: 'kafka',
    pool,
    address: database.address,
    bus: target,
    logger,
    isActive: async (tenant) => !leaving.has(tenant),
    leaseMs,
    pollMs: 100,
  })
  relays.push(relay)
  return relay
}

let tenants = 0
const nextSlug = () => `tenant-${Date.now()}-${tenants++}`
const leaving = new Set<string>()

async function newTenant(slug = nextSlug()): Promise<string> {
  const topics = await inTransaction(pool, (tx) => provisionTopics(tx, slug))
  await bus.provision(busTenant(slug), topics)
  return slug
}

async function removed(tenant: string): Promise<void> {
  await bus.drop(busTenant(tenant))
  await inTransaction(pool, (tx) => dropTopics(tx, tenant))
}

function say(tenant: string, name: string): Promise<void> {
  return inTransaction(pool, (tx) =>
    appendEvent(tx, { tenant, kind: 'ingestion', name, subject: 'run_1', data: { name } }),
  )
}

/** The number of the last event that the bus has; null before any. */
async function positionOf(tenant: string): Promise<number | null> {
  const statement = 'select sequence::int from event_relay_positions where tenant = $1'
  return (await pool.query(statement, [tenant])).rows[0]?.sequence ?? null
}

/** The first events of a topic, as a login sees them. */
async function take(topic: string, count: number, login: Partial<KafkaSettings> = {}): Promise<CloudEvent[]> {
  const { username = url.username, password = url.password } = login
  const consumer = new Consumer({
    clientId: 'reader',
    groupId: `${topic}.${Math.random()}`,
    bootstrapBrokers: [url.host],
    sasl: { mechanism: 'PLAIN', username, password },
    deserializers: stringDeserializers,
    // As long as a broker takes that begins, on a machine that is slow.
    retries: 400,
    retryDelay: 300,
  })
  try {
    const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST, autocommit: false })
    const taken: CloudEvent[] = []
    for await (const message of stream as AsyncIterable<Message<string, string, string, string>>) {
      assert.equal(message.headers.get('content-type'), 'application/cloudevents+json; charset=UTF-8')
      assert.equal(message.key, 'run_1')
      taken.push(JSON.parse(message.value) as CloudEvent)
      if (taken.length === count) break
    }
    return taken
  } finally {
    await consumer.close(true)
  }
}

/** Rights reach the brokers a little after they were given. */
async function persistently<T>(run: () => Promise<T>): Promise<T> {
  let result: T | null = null
  await until('the right is there', async () => {
    result = await run().catch(() => null)
    return result !== null
  })
  return result as T
}

const names = (events: readonly CloudEvent[]): unknown[] => events.map(({ data }) => data['name'])
const numbers = (count: number): string[] => Array.from({ length: count }, (_, index) => String(index + 1))

describe('the relay', { timeout: 600_000 }, () => {
  it('carries every event to the tenant’s topic, in order, as a CloudEvent', async () => {
    const tenant = await newTenant()
    for (const name of numbers(3)) await say(tenant, name)
    const relay = relayTo(bus)
    const coming = take(`sluice.${tenant}.ingestion`, 450)
    await inTransaction(pool, async (tx) => {
      for (const name of numbers(450).slice(3)) {
        await appendEvent(tx, { tenant, kind: 'ingestion', name, subject: 'run_1', data: { name } })
      }
    })
    const events = await coming
    assert.deepEqual(names(events), numbers(450))
    assert.deepEqual(
      events.map(({ sequence }) => sequence),
      numbers(450),
    )
    const [{ id, time, ...rest }] = events as [CloudEvent]
    assert.match(id, /^evt_/)
    assert.equal(new Date(time).toISOString(), time)
    assert.deepEqual(rest, {
      specversion: '1.0',
      source: `/tenants/${tenant}`,
      type: 'sluice.ingestion.1',
      subject: 'run_1',
      datacontenttype: 'application/json',
      tenantid: tenant,
      sequence: '1',
      data: { name: '1' },
    })
    await relay.close()
    await removed(tenant)
  })

  it('is one at a time, and another takes over where it ends', async () => {
    const tenant = await newTenant()
    const sent: (readonly [string, BusMessage])[] = []
    const watched = (who: string): EventBus => ({
      ...bus,
      publish: async (events) => {
        sent.push(...events.map((event) => [who, event] as const))
        await bus.publish(events)
      },
    })
    const first = relayTo(watched('first'))
    const topic = `sluice.${tenant}.ingestion`
    await say(tenant, '1')
    await take(topic, 1)
    const second = relayTo(watched('second'))
    for (const name of ['2', '3']) await say(tenant, name)
    await take(topic, 3)
    assert.deepEqual(new Set(sent.map(([who]) => who)), new Set(['first']))
    await first.close()
    for (const name of ['4', '5']) await say(tenant, name)
    assert.deepEqual(names(await take(topic, 5)), numbers(5))
    assert.equal(sent.at(-1)?.[0], 'second')
    assert.equal(sent.length, 5)
    await second.close()
    await removed(tenant)
  })

  it('sends again, under the same ids, what it cannot know to have arrived', async () => {
    const tenant = await newTenant()
    for (const name of numbers(3)) await say(tenant, name)
    let failures = 1
    const relay = relayTo({
      ...bus,
      publish: async (events) => {
        await bus.publish(events)
        if (failures-- > 0) throw new Error('the answer was lost')
      },
    })
    const events = await take(`sluice.${tenant}.ingestion`, 6)
    assert.deepEqual(names(events), [...numbers(3), ...numbers(3)])
    assert.equal(new Set(events.map(({ id }) => id)).size, 3)
    await relay.close()
    await removed(tenant)
  })

  it('keeps what was not sent while the bus is away, however old it is', async () => {
    const tenant = await newTenant()
    const away = await open({ brokers: ['127.0.0.1:1'] })
    const waiting = relayTo(away, 200)
    for (const name of numbers(3)) await say(tenant, name)
    await assert.rejects(away.provision(busTenant(tenant), []), { kind: 'TRANSIENT', code: 'bus_unavailable' })
    await waiting.close()
    await away.close()
    await inTransaction(pool, (tx) => numberEvents(tx, tenant))
    assert.equal(await inTransaction(pool, (tx) => pruneEvents(tx, tenant, { maxEvents: 0 })), 0)
    const relay = relayTo(bus)
    assert.deepEqual(names(await take(`sluice.${tenant}.ingestion`, 3)), numbers(3))
    await relay.close()
    assert.equal(await inTransaction(pool, (tx) => pruneEvents(tx, tenant, { maxEvents: 0 })), 3)
    await removed(tenant)
  })

  it('cannot move what another has taken over', async () => {
    const tenant = await newTenant()
    await say(tenant, '1')
    let sent = 0
    const slow = relayTo({
      ...bus,
      publish: async (events) => {
        sent += 1
        await pool.query(
          `update event_relays set token = token + 1, owner = 'another', lease_until = now() + interval '1 hour'`,
        )
        await bus.publish(events)
      },
    })
    await take(`sluice.${tenant}.ingestion`, 1)
    await slow.close()
    assert.equal(sent, 1)
    const { rows } = await pool.query('select sequence::int from event_relay_positions where tenant = $1', [tenant])
    assert.deepEqual(rows, [{ sequence: 0 }])
    await pool.query('delete from event_relays')
    await removed(tenant)
  })
})

describe('topics', { timeout: 600_000 }, () => {
  it('of tenants that are older than the bus are made before the first event goes there', async () => {
    const tenant = nextSlug()
    await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
    for (const name of numbers(2)) await say(tenant, name)
    let made = 0
    const provision: EventBus['provision'] = async (...given) => {
      made += 1
      await bus.provision(...given)
    }
    const relay = relayTo({ ...bus, provision })
    await until('the events have gone', async () => (await positionOf(tenant)) === 2)
    assert.deepEqual(names(await take(`sluice.${tenant}.ingestion`, 2)), numbers(2))
    await say(tenant, '3')
    assert.deepEqual(names(await take(`sluice.${tenant}.ingestion`, 3)), numbers(3))
    assert.equal(made, 1)
    await relay.close()
    await removed(tenant)
  })

  it('are not left behind by a relay that made them while the tenant was removed', async () => {
    const tenant = nextSlug()
    await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
    await say(tenant, '1')
    const dropped: string[] = []
    const relay = relayTo({
      ...bus,
      provision: async (...given) => {
        leaving.add(tenant)
        await bus.provision(...given)
      },
      drop: async (one) => {
        await bus.drop(one)
        dropped.push(one.slug)
      },
    })
    await until('they are gone again', () => dropped.includes(tenant))
    await relay.close()
    await removed(tenant)
  })

  it('are not made for a tenant whose login would read rows of another, and nobody waits for its events', async () => {
    const [refused, other] = [`a-${nextSlug()}`, nextSlug()]
    await inTransaction(pool, (tx) => provisionTopics(tx, refused))
    await newTenant(other)
    for (const tenant of [refused, other]) await say(tenant, '1')
    const made: string[] = []
    const provision: EventBus['provision'] = async (tenant, topics) => {
      made.push(tenant.slug)
      await bus.provision(tenant, topics)
    }
    const relay = relayTo({ ...bus, admits: (tenant) => tenant !== refused, provision })
    assert.deepEqual(names(await take(`sluice.${other}.ingestion`, 1)), ['1'])
    await until('its events are passed over', async () => (await positionOf(refused)) === 1)
    assert.ok(!made.includes(refused))
    await relay.close()
    for (const tenant of [refused, other]) await removed(tenant)
  })

  it('are made once, read by their tenant alone, and go with it', async () => {
    await newTenant('acme')
    await newTenant('acme')
    await say('acme', '1')
    const asAcme = { username: 'acme', password: 'of-acme' }
    const relay = relayTo(bus)
    const topic = 'sluice.acme.ingestion'
    assert.deepEqual(names(await persistently(() => take(topic, 1, asAcme))), ['1'])
    await assert.rejects(take(topic, 1, { username: 'other', password: 'of-other' }))
    await relay.close()
    await removed('acme')
    await removed('acme')
    await assert.rejects(take(topic, 1, asAcme))
  })
})
