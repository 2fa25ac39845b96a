/** The event bus on Kafka: a topic for each kind of a tenant's events, CloudEvents 1.0 in structured mode. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Acl, Admin, Producer } from '@platformatic/kafka'
import type { BusEvent, EventBus } from './bus.ts'
import { changeTopicPrefix } from './change-message.ts'
import { topicPrefix } from './envelope.ts'
import { clientOptions, guarded, heard, type KafkaSettings, REQUEST_TIMEOUT_MS, within } from './kafka-client.ts'
import { groupRight, isAnothersClearedLogin, type Kafka, ofResource } from './kafka-rights.ts'

const CLOSE_TIMEOUT_MS = 5000
const KNOWN_POLL_MS = 50
const STRUCTURED = { 'content-type': 'application/cloudevents+json; charset=UTF-8' } as const

/** Does no I/O yet: a bus that is away stops nobody but the relay, and the making of tenants. */
export async function openKafkaBus(settings: KafkaSettings): Promise<EventBus> {
  const kafka = await import('@platformatic/kafka')
  const options = await clientOptions(settings)
  const admin = heard(new kafka.Admin(options))
  // Idempotent: a batch that is sent again after a lost answer is kept once, and in its order.
  const writing = { serializers: kafka.stringSerializers, idempotent: true, acks: -1 }
  const producer = heard(new kafka.Producer({ ...options, ...writing }))
  return {
    admits: (tenant) => !isAnothersClearedLogin(settings, tenant),
    provision: (tenant, topics) => guarded(() => provision(kafka, admin, settings, tenant, topics)),
    drop: (tenant) => guarded(() => drop(kafka, admin, settings, tenant)),
    publish: (events) => guarded(() => publish(producer, events)),
    async close() {
      const closing = () => Promise.allSettled([producer.close(true), admin.close()])
      // Nothing is sent any more; a broker that does not answer to a goodbye is left.
      await within(CLOSE_TIMEOUT_MS, closing).catch(() => undefined)
    },
  }
}

async function provision(
  kafka: Kafka,
  admin: Admin,
  settings: KafkaSettings,
  tenant: string,
  topics: readonly string[],
): Promise<void> {
  const known = new Set(await admin.listTopics({}))
  const missing = topics.filter((topic) => !known.has(topic))
  const { partitions, replicas } = settings
  if (missing.length > 0) await admin.createTopics({ topics: missing, partitions, replicas })
  const creations = rightsOf(kafka, settings, tenant)
  if (creations.length > 0) await admin.createAcls({ creations: [...creations] })
  await untilKnown(admin, (known) => topics.every((topic) => known.has(topic)))
}

/** Brokers learn of a topic, or of its end, a little after it was made. */
export async function untilKnown(admin: Admin, isDone: (known: ReadonlySet<string>) => boolean): Promise<void> {
  for (
    const deadline = performance.now() + REQUEST_TIMEOUT_MS;
    performance.now() < deadline;
    await sleep(KNOWN_POLL_MS)
  ) {
    if (isDone(new Set(await admin.listTopics({})))) return
  }
  throw new Error('the brokers do not know of the change in time')
}

async function drop(kafka: Kafka, admin: Admin, settings: KafkaSettings, tenant: string): Promise<void> {
  const prefixes = [topicPrefix(tenant), changeTopicPrefix(tenant)]
  const topics = (await admin.listTopics({})).filter((topic) => prefixes.some((prefix) => topic.startsWith(prefix)))
  const changes = topics.filter((topic) => topic.startsWith(changeTopicPrefix(tenant)))
  const groups = ofResource(kafka, kafka.ResourceTypes.GROUP, changeTopicPrefix(tenant), 'PREFIXED')
  const ofTopics = changes.map((topic) => ofResource(kafka, kafka.ResourceTypes.TOPIC, topic, 'LITERAL'))
  const filters = [...rightsOf(kafka, settings, tenant), groups, ...ofTopics]
  // Where the brokers keep no rules there are none to remove, and nobody's are asked for.
  if (settings.reader_principal !== undefined || settings.change_topics) await admin.deleteAcls({ filters })
  if (topics.length > 0) await admin.deleteTopics({ topics })
}

/** The tenant's login may read its topics, and come in groups whose names begin as its topics do. Nothing else. */
function rightsOf(kafka: Kafka, { reader_principal: pattern }: KafkaSettings, tenant: string): readonly Acl[] {
  if (pattern === undefined) return []
  const { AclOperations, AclPermissionTypes, ResourcePatternTypes, ResourceTypes } = kafka
  const principal = pattern.replaceAll('{tenant}', tenant)
  const right = (operation: Acl['operation']): Acl => ({
    resourceType: ResourceTypes.TOPIC,
    resourceName: topicPrefix(tenant),
    resourcePatternType: ResourcePatternTypes.PREFIXED,
    principal,
    host: '*',
    operation,
    permissionType: AclPermissionTypes.ALLOW,
  })
  return [right(AclOperations.READ), right(AclOperations.DESCRIBE), groupRight(kafka, principal, topicPrefix(tenant))]
}

/** What is told of one thing lies in one partition, and so stays in order. */
async function publish(producer: Producer<string, string, string, string>, events: readonly BusEvent[]): Promise<void> {
  if (events.length === 0) return
  const messages = events.map(({ topic, event }) => ({
    topic,
    key: event.subject ?? event.tenantid,
    value: JSON.stringify(event),
    headers: STRUCTURED,
  }))
  await producer.send({ messages })
}
