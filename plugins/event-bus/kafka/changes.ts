/**
 * Changed rows on Kafka: compacted topics, so that what a topic holds of a product is bounded by the product, and whoever
 * comes late still gets every row. Each batch is a transaction under one id for all processes, so a process that has
 * lost its turn without knowing it can add nothing.
 */
import type { Acl, Admin, Producer } from '@platformatic/kafka'
import type { BusMessage, ChangeBus, ChangeTopic, ChangeWriter } from '@sluice/sdk'
import { untilKnown } from './brokers.ts'
import { asSent, clientOptions, guarded, heard, unguarded, within } from './client.ts'
import { groupRight, type Kafka, ofResource, topicRight } from './rights.ts'
import type { KafkaSettings } from './settings.ts'

const TRANSACTIONAL_ID = 'sluice-changes'
const CLOSE_TIMEOUT_MS = 5000
/** Without it the client says that it is producer 0 at epoch 0, and the brokers take a second one for its repetition. */
const NEW_PRODUCER = { producerId: -1n, producerEpoch: -1 } as const
const TO_THE_END = -1n
const WEEK_MS = 7 * 24 * 60 * 60 * 1000

/** Deletion only ever by ours (`empty`): by age or size nothing goes. */
const CONFIGS = {
  'cleanup.policy': 'compact,delete',
  'retention.ms': '-1',
  'retention.bytes': '-1',
  // Whoever reads within a week sees every change and every end of a row.
  'min.compaction.lag.ms': String(WEEK_MS),
  'delete.retention.ms': String(WEEK_MS),
  'max.message.bytes': String(8 * 1024 * 1024),
} as const

/** Does no I/O yet. */
export async function openKafkaChanges(settings: KafkaSettings): Promise<ChangeBus & { close(): Promise<void> }> {
  const kafka = await import('@platformatic/kafka')
  const options = await clientOptions(settings)
  const admin = heard(new kafka.Admin(options))
  return {
    isOn: settings.change_topics,
    readers: { reader: settings.reader_principal ?? null, cleared: settings.cleared_principal ?? null },
    ensure: (topic) => guarded(() => ensure(kafka, admin, settings, topic)),
    empty: (topic) => guarded(() => empty(admin, topic, settings.partitions)),
    remove: (topic) => guarded(() => remove(kafka, admin, topic)),
    openWriter: async () => openWriter(kafka, options),
    async close() {
      // A broker that does not answer to a goodbye is left.
      await within(CLOSE_TIMEOUT_MS, () => admin.close()).catch(() => undefined)
    },
  }
}

async function ensure(kafka: Kafka, admin: Admin, settings: KafkaSettings, topic: ChangeTopic): Promise<boolean> {
  const { username, partitions, replicas } = settings
  if (username === undefined) throw unguarded()
  const gone = topic.formerReaders.filter((principal) => !topic.readers.includes(principal))
  if (gone.length > 0) {
    const filters = gone.map((one) => ofResource(kafka, kafka.ResourceTypes.TOPIC, topic.name, 'LITERAL', one))
    await admin.deleteAcls({ filters })
  }
  // Before the topic: it is never there without rules.
  await admin.createAcls({ creations: rightsOf(kafka, topic, `User:${username}`) })
  if ((await admin.listTopics({})).includes(topic.name)) return false
  const configs = Object.entries(CONFIGS).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [topic.name], partitions, replicas, configs })
  await untilKnown(admin, (known) => known.has(topic.name))
  return true
}

/** The own login is named too: a topic without a rule may be open to everybody, by the brokers' settings. */
function rightsOf(kafka: Kafka, { name, prefix, readers }: ChangeTopic, own: string): Acl[] {
  const { READ, DESCRIBE, ALL } = kafka.AclOperations
  return [
    topicRight(kafka, own, name, ALL),
    ...readers.flatMap((reader) => [
      topicRight(kafka, reader, name, READ),
      topicRight(kafka, reader, name, DESCRIBE),
      groupRight(kafka, reader, prefix),
    ]),
  ]
}

async function empty(admin: Admin, topic: string, partitions: number): Promise<void> {
  if (!(await admin.listTopics({})).includes(topic)) return
  const all = Array.from({ length: partitions }, (_, partition) => ({ partition, offset: TO_THE_END }))
  await admin.deleteRecords({ topics: [{ name: topic, partitions: all }] })
}

async function remove(kafka: Kafka, admin: Admin, topic: string): Promise<void> {
  await admin.deleteAcls({ filters: [ofResource(kafka, kafka.ResourceTypes.TOPIC, topic, 'LITERAL')] })
  if (!(await admin.listTopics({})).includes(topic)) return
  await admin.deleteTopics({ topics: [topic] })
  await untilKnown(admin, (known) => !known.has(topic))
}

async function openWriter(kafka: Kafka, options: Awaited<ReturnType<typeof clientOptions>>): Promise<ChangeWriter> {
  const writing = { serializers: kafka.stringSerializers, idempotent: true, acks: -1 }
  const producer = heard(new kafka.Producer({ ...options, ...writing, transactionalId: TRANSACTIONAL_ID }))
  // A broker that does not answer to a goodbye is left; the next writer shuts this one out.
  const close = () => within(CLOSE_TIMEOUT_MS, () => producer.close(true)).catch(() => undefined)
  // Beginning one shuts out whoever wrote before; one that nothing is sent in cannot be ended, and becomes the first.
  let begun: Begun | null = await guarded(() => producer.beginTransaction(NEW_PRODUCER)).catch(
    async (error: unknown) => {
      // Or else it goes on by itself, and has its connection for good once the brokers are back.
      await close()
      throw error
    },
  )
  return {
    write: (messages) =>
      guarded(async () => {
        const transaction = begun ?? (await producer.beginTransaction(NEW_PRODUCER))
        begun = null
        await writeAll(transaction, messages)
      }),
    close,
  }
}

type Begun = NonNullable<Producer<string, string, string, string>['transaction']>

async function writeAll(transaction: Begun, messages: readonly BusMessage[]): Promise<void> {
  try {
    await transaction.send({ messages: messages.map(asSent) })
    await transaction.commit()
  } catch (error) {
    // The first error tells more; a transaction that cannot be ended runs out at the broker.
    await transaction.abort().catch(() => undefined)
    throw error
  }
}
