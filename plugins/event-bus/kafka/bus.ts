/** Events on Kafka: a topic for each kind of a tenant's events. */
import type { Acl, Admin, Producer } from '@platformatic/kafka'
import type { BusMessage, BusTenant, EventBus } from '@sluice/sdk'
import { untilKnown } from './brokers.ts'
import { openKafkaChanges } from './changes.ts'
import { asSent, clientOptions, guarded, heard, within } from './client.ts'
import { groupRight, isAnothersClearedLogin, type Kafka, ofResource } from './rights.ts'
import type { KafkaSettings } from './settings.ts'

const CLOSE_TIMEOUT_MS = 5000

/** Does no I/O yet: a bus that is away stops nobody but the relay, and the making of tenants. */
export async function openKafkaBus(settings: KafkaSettings): Promise<EventBus> {
  const kafka = await import('@platformatic/kafka')
  const options = await clientOptions(settings)
  const admin = heard(new kafka.Admin(options))
  const { close: closeChanges, ...changes } = await openKafkaChanges(settings)
  // Idempotent: a batch that is sent again after a lost answer is kept once, and in its order.
  const writing = { serializers: kafka.stringSerializers, idempotent: true, acks: -1 }
  const producer = heard(new kafka.Producer({ ...options, ...writing }))
  return {
    admits: (tenant) => !isAnothersClearedLogin(settings, tenant),
    provision: (tenant, topics) => guarded(() => provision(kafka, admin, settings, tenant, topics)),
    drop: (tenant) => guarded(() => drop(kafka, admin, settings, tenant)),
    publish: (messages) => guarded(() => publish(producer, messages)),
    changes,
    // Or else the client answers with what it heard at first, for ever.
    ping: () => guarded(async () => void (await admin.metadata({ topics: [], forceUpdate: true }))),
    async close() {
      const closing = () => Promise.allSettled([producer.close(true), admin.close(), closeChanges()])
      // Nothing is sent any more; a broker that does not answer to a goodbye is left.
      await within(CLOSE_TIMEOUT_MS, closing).catch(() => undefined)
    },
  }
}

async function provision(
  kafka: Kafka,
  admin: Admin,
  settings: KafkaSettings,
  tenant: BusTenant,
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

async function drop(kafka: Kafka, admin: Admin, settings: KafkaSettings, tenant: BusTenant): Promise<void> {
  const prefixes = [tenant.events, tenant.changes]
  const topics = (await admin.listTopics({})).filter((topic) => prefixes.some((prefix) => topic.startsWith(prefix)))
  const changes = topics.filter((topic) => topic.startsWith(tenant.changes))
  const groups = ofResource(kafka, kafka.ResourceTypes.GROUP, tenant.changes, 'PREFIXED')
  const ofTopics = changes.map((topic) => ofResource(kafka, kafka.ResourceTypes.TOPIC, topic, 'LITERAL'))
  const filters = [...rightsOf(kafka, settings, tenant), groups, ...ofTopics]
  // Where the brokers keep no rules there are none to remove, and nobody's are asked for.
  if (settings.reader_principal !== undefined || settings.change_topics) await admin.deleteAcls({ filters })
  if (topics.length > 0) await admin.deleteTopics({ topics })
}

/** The tenant's login may read its topics, and come in groups whose names begin as its topics do. Nothing else. */
function rightsOf(
  kafka: Kafka,
  { reader_principal: pattern }: KafkaSettings,
  { slug, events }: BusTenant,
): readonly Acl[] {
  if (pattern === undefined) return []
  const { AclOperations, AclPermissionTypes, ResourcePatternTypes, ResourceTypes } = kafka
  const principal = pattern.replaceAll('{tenant}', slug)
  const right = (operation: Acl['operation']): Acl => ({
    resourceType: ResourceTypes.TOPIC,
    resourceName: events,
    resourcePatternType: ResourcePatternTypes.PREFIXED,
    principal,
    host: '*',
    operation,
    permissionType: AclPermissionTypes.ALLOW,
  })
  return [right(AclOperations.READ), right(AclOperations.DESCRIBE), groupRight(kafka, principal, events)]
}

/** What is told of one key lies in one partition, and so stays in order. */
async function publish(
  producer: Producer<string, string, string, string>,
  given: readonly BusMessage[],
): Promise<void> {
  if (given.length > 0) await producer.send({ messages: given.map(asSent) })
}
