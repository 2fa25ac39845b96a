/** Kafka as one process, with logins and access rules: whoever is not named may nothing. */
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Admin } from '@platformatic/kafka'
import { heard } from '../../plugins/event-bus/kafka/client.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { exists, installed, runTool } from '../cache.ts'
import type { ContainerSpec } from '../containers.ts'
import { javaCommand, javaVersion, keptClasses } from '../java.ts'
import { runMaven } from '../maven.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'
import { containerProcess } from '../server-process.ts'

const VERSION = '4.3.1'
const READY_MS = 120_000
export const MIN_JAVA = 17
/** The first compiler alone: these servers live for minutes. */
const JVM_FLAGS = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']

/** Login names and their passwords. `sluice` administers topics and rules; the others read what they are given. */
const LOGINS = {
  sluice: 'for-tests-alone',
  acme: 'of-acme',
  'acme-cleared': 'of-acme-cleared',
  other: 'of-other',
} as const

const container: ContainerSpec = {
  service: 'kafka',
  command: [],
  // Each property is a variable of its image.
  env: async (host, port) => {
    const named = settings({
      listening: { clients: ':9092', brokers: 'localhost:9093', controller: 'localhost:9094' },
      reached: `${host}:${port}`,
      folder: '/var/lib/kafka/data',
    })
    const variable = (name: string) => `KAFKA_${name.replaceAll('.', '_').toUpperCase()}`
    return Object.fromEntries(Object.entries(named).map(([name, value]) => [variable(name), value]))
  },
  port: 9092,
  address: (host, port, id) => addressOf(`${host}:${port}`, containerProcess(id)),
  ready: (address) => answers(new URL(address['SLUICE_TEST_KAFKA_URL'] ?? '').host),
}

export const kafka: ServerKind = {
  name: 'Kafka',
  variable: 'SLUICE_TEST_KAFKA_URL',
  container,
  prepare: installedKafka,
  version: () => javaVersion(MIN_JAVA),
  async start(folder) {
    const listening = await freeListening()
    const running = await startKafka({ listening, reached: listening.clients, folder })
    return { env: addressOf(listening.clients, String(running.pid)), stop: () => running.stop() }
  },
}

/** Clients and brokers, each at a `host:port` of its own that was free a moment ago. */
export async function freeListening(): Promise<KafkaPlaces['listening']> {
  const address = async () => `127.0.0.1:${await freePort()}`
  return { clients: await address(), brokers: await address(), controller: await address() }
}

/** What the folder holds from an earlier start is there again. */
export async function startKafka(places: KafkaPlaces): Promise<NativeProcess> {
  const { folder, reached } = places
  const [java, jars] = await Promise.all([javaCommand(MIN_JAVA), installedKafka()])
  await mkdir(folder, { recursive: true })
  const data = join(folder, 'data')
  const properties = join(folder, 'server.properties')
  const named = Object.entries(settings({ ...places, folder: data }))
  await writeFile(properties, named.map((property) => property.join('=')).join('\n'))
  const flagsOf = (program: string) => [...JVM_FLAGS, ...keptClasses(jars, program), '-cp', join(jars, '*')]
  if (!(await exists(join(data, 'meta.properties')))) {
    // A cluster's id is in base64; one that begins with a hyphen would be taken for an option.
    const id = Buffer.from(`0${randomUUID().replaceAll('-', '').slice(1)}`, 'hex').toString('base64url')
    await runTool(java, [...flagsOf('format'), 'kafka.tools.StorageTool', 'format', '-t', id, '-c', properties])
  }
  return startNative({
    name: 'kafka',
    command: java,
    args: [...flagsOf('broker'), 'kafka.Kafka', properties],
    logFile: join(folder, 'kafka.log'),
    ready: () => answers(reached),
    readyTimeoutMs: READY_MS,
  })
}

/** Of the login that administers topics and rules. */
export const kafkaUrl = (clients: string): string => `kafka://sluice:${LOGINS.sluice}@${clients}`

/** By its process a test may make it hang. */
function addressOf(clients: string, process: string) {
  return {
    SLUICE_TEST_KAFKA_URL: kafkaUrl(clients),
    SLUICE_TEST_KAFKA_PROCESS: process,
  }
}

export interface KafkaPlaces {
  readonly listening: { readonly clients: string; readonly brokers: string; readonly controller: string }
  /** Where clients are sent. */
  readonly reached: string
  readonly folder: string
}

/** Clients alone log in: the broker speaks with itself where nobody else comes. */
function settings({ listening, reached, folder }: KafkaPlaces): Readonly<Record<string, string>> {
  const users = Object.entries(LOGINS).map(([name, password]) => `user_${name}="${password}"`)
  const within = `BROKERS://${listening.brokers}`
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@${listening.controller}`,
    listeners: `CLIENTS://${listening.clients},${within},CONTROLLER://${listening.controller}`,
    'advertised.listeners': `CLIENTS://${reached},${within}`,
    'listener.security.protocol.map': 'CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'BROKERS',
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256',
    'listener.name.clients.scram-sha-256.sasl.jaas.config':
      'org.apache.kafka.common.security.scram.ScramLoginModule required;',
    'listener.name.clients.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required ${users.join(' ')};`,
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:sluice;User:ANONYMOUS',
    'allow.everyone.if.no.acl.found': 'false',
    'auto.create.topics.enable': 'false',
    'log.dirs': folder,
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
  }
}

/** The folder of its jars, tools and all. */
export function installedKafka(): Promise<string> {
  return installed(`kafka-${VERSION}`, async (folder, signal) => {
    await writeFile(join(folder, 'pom.xml'), POM)
    const copying = ['dependency:copy-dependencies', `-DoutputDirectory=${folder}`]
    await runMaven(['--file', join(folder, 'pom.xml'), ...copying], signal)
  })
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sluice</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${VERSION}</version></dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.2</version>
    </dependency>
  </dependencies>
</project>
`

async function answers(clients: string): Promise<boolean> {
  const login = { mechanism: 'PLAIN', username: 'sluice', password: LOGINS.sluice } as const
  const options = { clientId: 'stack', bootstrapBrokers: [clients], retries: 0, connectTimeout: 1000 }
  const admin = heard(new Admin({ ...options, sasl: login }))
  try {
    await admin.listTopics({})
    return true
  } finally {
    await admin.close()
  }
}

export default kafka
