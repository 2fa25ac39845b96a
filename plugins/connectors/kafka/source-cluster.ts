/** A cluster as its owner sees it, for tests: topics, records, logins and rights, on the server that `SLUICE_TEST_KAFKA_URL` names. */
import { pbkdf2Sync, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  AclOperations,
  AclPermissionTypes,
  Admin,
  alterUserScramCredentialsV0,
  type CompressionAlgorithmValue,
  Connection,
  Producer,
  ResourcePatternTypes,
  ResourceTypes,
} from '@platformatic/kafka'
import type { KafkaSettings } from './settings.ts'

const SCRAM_SHA_256 = 1
const ROUNDS = 4096
const KNOWN_MS = 60_000

export interface OwnRecord {
  readonly key?: string | Buffer | null
  /** Null: a tombstone. */
  readonly value: string | Buffer | null
  readonly partition?: number
  readonly headers?: ReadonlyMap<string, string>
  readonly timestamp?: number
}

const serializer = (value?: Buffer): Buffer | undefined => value
const serializers = { key: serializer, value: serializer, headerKey: serializer, headerValue: serializer }

export class SourceCluster {
  readonly broker: string
  readonly #options
  readonly admin: Admin
  readonly #producer
  readonly user = `reader-${randomUUID().slice(0, 8)}`
  readonly password = `secret of ${this.user}`

  private constructor(url: URL) {
    this.broker = url.host
    this.#options = {
      clientId: 'owner',
      bootstrapBrokers: [url.host],
      retries: 5,
      sasl: { mechanism: 'PLAIN' as const, username: url.username, password: url.password },
    }
    this.admin = new Admin(this.#options)
    this.#producer = new Producer<Buffer, Buffer, Buffer, Buffer>({ ...this.#options, serializers })
    for (const client of [this.admin, this.#producer]) client.on('error' as never, (() => undefined) as never)
  }

  /** With a login that may read what it is given. */
  static async open(): Promise<SourceCluster> {
    const url = process.env['SLUICE_TEST_KAFKA_URL']
    if (url === undefined) throw new Error('SLUICE_TEST_KAFKA_URL names the server; npm run test:stack starts one')
    const cluster = new SourceCluster(new URL(url))
    await cluster.#makeLogin()
    return cluster
  }

  get settings(): KafkaSettings {
    const { user, password } = this
    return { brokers: [this.broker], user, password, mechanism: 'SCRAM-SHA-256', tls: false, topics: ['*'] }
  }

  async #makeLogin(): Promise<void> {
    const connection = new Connection('owner', { sasl: this.#options.sasl })
    const [host = '', port] = this.broker.split(':')
    await connection.connect(host, Number(port))
    try {
      const salt = Buffer.from(randomUUID())
      const saltedPassword = pbkdf2Sync(this.password, salt, ROUNDS, 32, 'sha256')
      const credentials = { name: this.user, mechanism: SCRAM_SHA_256, iterations: ROUNDS, salt, saltedPassword }
      await alterUserScramCredentialsV0.api.async(connection, [], [credentials])
    } finally {
      await connection.close()
    }
  }

  async create(
    topic: string,
    options: {
      readonly partitions?: number
      readonly isHidden?: boolean
      readonly configs?: Readonly<Record<string, string>>
    } = {},
  ): Promise<void> {
    const { partitions = 1, isHidden = false, configs = {} } = options
    const named = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await this.admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: named })
    await this.#untilKnown(topic, true)
    if (!isHidden) await this.#allow(topic)
  }

  async #allow(topic: string): Promise<void> {
    const creations = [AclOperations.READ, AclOperations.DESCRIBE].map((operation) => ({
      resourceType: ResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: `User:${this.user}`,
      host: '*',
      operation,
      permissionType: AclPermissionTypes.ALLOW,
    }))
    await this.admin.createAcls({ creations })
    const { operation: _, ...filter } = creations[0] as (typeof creations)[number]
    for (let waitedMs = 0; waitedMs < KNOWN_MS; waitedMs += 50) {
      const known = await this.admin.describeAcls({ filter: { ...filter, operation: AclOperations.ANY } })
      if (known.flatMap(({ acls }) => acls).length === creations.length) return
      await sleep(50)
    }
    throw new Error(`the brokers do not know who may read ${topic}`)
  }

  async drop(topic: string): Promise<void> {
    await this.admin.deleteTopics({ topics: [topic] })
    await this.#untilKnown(topic, false)
  }

  async #untilKnown(topic: string, isKnown: boolean): Promise<void> {
    for (let waitedMs = 0; waitedMs < KNOWN_MS; waitedMs += 50) {
      if (new Set(await this.admin.listTopics({})).has(topic) === isKnown) return
      await sleep(50)
    }
    throw new Error(`the brokers do not know of ${topic} as it is`)
  }

  async addPartitions(topic: string, count: number): Promise<void> {
    await this.admin.createPartitions({ topics: [{ name: topic, count, assignments: null }] })
    for (let waitedMs = 0; waitedMs < KNOWN_MS; waitedMs += 50) {
      const metadata = await this.#producer.metadata({ topics: [topic], forceUpdate: true })
      if (metadata.topics.get(topic)?.partitions.length === count) return
      await sleep(50)
    }
    throw new Error(`${topic} has no more partitions than it had`)
  }

  /** All that a partition holds by now, as its retention would. */
  async forget(topic: string, partition: number): Promise<void> {
    await this.admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: -1n }] }] })
  }

  async send(topic: string, records: readonly OwnRecord[], compression?: CompressionAlgorithmValue): Promise<void> {
    if (records.length === 0) return
    const messages = records.map((record) => messageOf(topic, record))
    await this.#producer.send({ messages, ...(compression === undefined ? {} : { compression }) })
  }

  /** In a transaction of its own. */
  async sendTogether(topic: string, records: readonly OwnRecord[], isKept: boolean): Promise<void> {
    const producer = new Producer<Buffer, Buffer, Buffer, Buffer>({
      ...this.#options,
      serializers,
      idempotent: true,
      transactionalId: randomUUID(),
    })
    producer.on('error' as never, (() => undefined) as never)
    try {
      const transaction = await producer.beginTransaction()
      await transaction.send({ messages: records.map((record) => messageOf(topic, record)) })
      if (isKept) await transaction.commit()
      else await transaction.abort()
    } finally {
      await producer.close()
    }
  }

  /** Of this process's own lines, which are none of a connector's. */
  get localPorts(): ReadonlySet<number> {
    const lines = [this.admin, this.#producer].flatMap((client) => [...client.connections])
    return new Set(lines.map(([, connection]) => connection.socket.localPort ?? 0))
  }

  async close(): Promise<void> {
    await this.#producer.close()
    await this.admin.close()
  }
}

function messageOf(topic: string, { key = null, value, partition, headers, timestamp }: OwnRecord) {
  const bytes = (one: string | Buffer | null) => (one === null ? undefined : Buffer.from(one))
  const named = new Map([...(headers ?? [])].map(([name, text]) => [Buffer.from(name), Buffer.from(text)]))
  return {
    topic,
    key: bytes(key) as Buffer,
    value: bytes(value) as Buffer,
    ...(partition === undefined ? {} : { partition }),
    ...(headers === undefined ? {} : { headers: named }),
    ...(timestamp === undefined ? {} : { timestamp: BigInt(timestamp) }),
  }
}
