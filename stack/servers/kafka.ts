/** Kafka as one process, with logins and access rules: whoever is not named may nothing. */
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Admin } from '@platformatic/kafka'
import { freePort } from '../../runtime/src/free-port.ts'
import { CACHE_FOLDER, installed, runTool } from '../cache.ts'
import { javaCommand } from '../java.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '4.3.1'
const READY_MS = 120_000
export const MIN_JAVA = 17

/** Login names and their passwords. `sluice` administers topics and rules; the others read what they are given. */
const LOGINS = {
  sluice: 'for-tests-alone',
  acme: 'of-acme',
  'acme-cleared': 'of-acme-cleared',
  other: 'of-other',
} as const

export const kafka: ServerKind = {
  name: 'Kafka',
  variable: 'SLUICE_TEST_KAFKA_URL',
  async start(folder) {
    const [java, jars] = await Promise.all([javaCommand(MIN_JAVA), installedKafka()])
    await mkdir(folder, { recursive: true })
    const ports = { clients: await freePort(), controller: await freePort() }
    const properties = join(folder, 'server.properties')
    await writeFile(properties, serverProperties(folder, ports))
    const heap = ['-Xmx256m', '-cp', join(jars, '*')]
    const id = Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url')
    await runTool(java, [...heap, 'kafka.tools.StorageTool', 'format', '-t', id, '-c', properties])
    const running = await startNative({
      name: 'kafka',
      command: java,
      args: [...heap, 'kafka.Kafka', properties],
      logFile: join(folder, 'kafka.log'),
      ready: () => answers(ports.clients),
      readyTimeoutMs: READY_MS,
    })
    const url = `kafka://sluice:${LOGINS.sluice}@127.0.0.1:${ports.clients}`
    // By its id a test may make it hang.
    const env = { SLUICE_TEST_KAFKA_URL: url, SLUICE_TEST_KAFKA_PID: String(running.pid) }
    return { env, stop: () => running.stop() }
  },
}

function serverProperties(folder: string, ports: { readonly clients: number; readonly controller: number }): string {
  const users = Object.entries(LOGINS).map(([name, password]) => `user_${name}="${password}"`)
  const login = `username="sluice" password="${LOGINS.sluice}" ${users.join(' ')};`
  return `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${ports.controller}
listeners=SASL_PLAINTEXT://127.0.0.1:${ports.clients},CONTROLLER://127.0.0.1:${ports.controller}
advertised.listeners=SASL_PLAINTEXT://127.0.0.1:${ports.clients}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required ${login}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:sluice;User:ANONYMOUS
allow.everyone.if.no.acl.found=false
auto.create.topics.enable=false
log.dirs=${join(folder, 'data')}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
`
}

/** The folder of its jars, tools and all. */
export function installedKafka(): Promise<string> {
  return installed(`kafka-${VERSION}`, async (folder) => {
    await writeFile(join(folder, 'pom.xml'), POM)
    await runTool('mvn', [
      '--batch-mode',
      '--quiet',
      `-Dmaven.repo.local=${join(CACHE_FOLDER, 'maven')}`,
      '-f',
      join(folder, 'pom.xml'),
      'dependency:copy-dependencies',
      `-DoutputDirectory=${folder}`,
    ])
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

async function answers(port: number): Promise<boolean> {
  const admin = new Admin({
    clientId: 'stack',
    bootstrapBrokers: [`127.0.0.1:${port}`],
    sasl: { mechanism: 'PLAIN', username: 'sluice', password: LOGINS.sluice },
    retries: 0,
    connectTimeout: 1000,
  })
  try {
    await admin.listTopics({})
    return true
  } finally {
    await admin.close()
  }
}
