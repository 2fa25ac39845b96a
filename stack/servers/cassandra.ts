/** Apache Cassandra, from Maven's jars: one node, small in memory. */

import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed } from '../cache.ts'
import { javaCommand, javaVersion } from '../java.ts'
import { mavenClasspath } from '../maven.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '5.0.6'
/** It is built for 11 and 17; newer ones have lost what it needs. */
const JAVA = { minimum: 17, maximum: 17 } as const
const READY_MS = 240_000

/** What conf/jvm17-server.options of its distribution opens to it. */
const EXPORTS = [
  'java.base/jdk.internal.misc',
  'java.base/jdk.internal.ref',
  'java.base/sun.nio.ch',
  'java.base/java.lang.ref',
  'java.management.rmi/com.sun.jmx.remote.internal.rmi',
  'java.rmi/sun.rmi.registry',
  'java.rmi/sun.rmi.server',
  'java.sql/java.sql',
  'jdk.unsupported/sun.misc',
]
const OPENS = [
  'java.base/java.io',
  'java.base/java.lang',
  'java.base/java.lang.module',
  'java.base/java.nio',
  'java.base/java.util',
  'java.base/java.util.concurrent',
  'java.base/java.util.concurrent.atomic',
  'java.base/jdk.internal.loader',
  'java.base/jdk.internal.math',
  'java.base/jdk.internal.module',
  'java.base/jdk.internal.ref',
  'java.base/jdk.internal.reflect',
  'java.base/jdk.internal.util.jar',
  'java.base/sun.nio.ch',
  'jdk.management/com.sun.management.internal',
]

/** The first compiler alone: this server lives for minutes. */
const JVM_FLAGS = [
  '-Xms256m',
  '-Xmx512m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Djava.awt.headless=true',
  '-Djdk.attach.allowAttachSelf=true',
  ...EXPORTS.flatMap((name) => ['--add-exports', `${name}=ALL-UNNAMED`]),
  ...OPENS.flatMap((name) => ['--add-opens', `${name}=ALL-UNNAMED`]),
]

/** Alone, so there is nobody to wait for. */
const NODE_FLAGS = [
  '-Dcassandra.skip_wait_for_gossip_to_settle=0',
  '-Dcassandra.initial_token=0',
  '-Dcassandra.superuser_setup_delay_ms=0',
  '-Dcassandra.ring_delay_ms=1',
]

export const cassandra: ServerKind = {
  name: 'Cassandra',
  variable: 'SLUICE_TEST_CASSANDRA_URL',
  prepare: classpath,
  version: () => javaVersion(JAVA.minimum, JAVA.maximum),
  async start(folder) {
    const [jars, java] = await Promise.all([classpath(), javaCommand(JAVA.minimum, JAVA.maximum)])
    const [port, storagePort] = [await freePort(), await freePort()]
    await mkdir(folder, { recursive: true })
    const config = join(folder, 'cassandra.yaml')
    const logging = join(folder, 'logback.xml')
    // JSON is YAML too.
    await writeFile(config, JSON.stringify(settings(folder, port, storagePort)))
    await writeFile(logging, LOGGING)
    const properties = [
      `-Dcassandra.config=file://${config}`,
      `-Dcassandra.storagedir=${folder}`,
      `-Dlogback.configurationFile=${logging}`,
    ]
    const running = await startNative({
      name: 'Cassandra',
      command: java,
      args: [
        ...JVM_FLAGS,
        ...NODE_FLAGS,
        ...properties,
        '-cp',
        join(jars, '*'),
        'org.apache.cassandra.service.CassandraDaemon',
      ],
      cwd: folder,
      logFile: join(folder, 'cassandra.log'),
      // The native protocol is opened last, when the node takes statements.
      ready: () => answers(port),
      readyTimeoutMs: READY_MS,
    })
    const env = { SLUICE_TEST_CASSANDRA_URL: `cassandra://127.0.0.1:${port}/datacenter1` }
    return { env, stop: () => running.stop() }
  },
}

function classpath(): Promise<string> {
  return installed(`cassandra-${VERSION}`, (folder, signal) =>
    mavenClasspath(`org.apache.cassandra:cassandra-all:${VERSION}`, folder, signal),
  )
}

function settings(folder: string, port: number, storagePort: number) {
  const seeds = [{ seeds: `127.0.0.1:${storagePort}` }]
  return {
    cluster_name: 'sluice-tests',
    num_tokens: 1,
    partitioner: 'org.apache.cassandra.dht.Murmur3Partitioner',
    endpoint_snitch: 'SimpleSnitch',
    data_file_directories: [join(folder, 'data')],
    commitlog_directory: join(folder, 'commitlog'),
    saved_caches_directory: join(folder, 'saved-caches'),
    hints_directory: join(folder, 'hints'),
    cdc_raw_directory: join(folder, 'cdc'),
    commitlog_sync: 'periodic',
    commitlog_sync_period: '1000ms',
    seed_provider: [{ class_name: 'org.apache.cassandra.locator.SimpleSeedProvider', parameters: seeds }],
    listen_address: '127.0.0.1',
    storage_port: storagePort,
    rpc_address: '127.0.0.1',
    native_transport_port: port,
    memtable_heap_space: '64MiB',
    memtable_offheap_space: '64MiB',
    key_cache_size: '8MiB',
    concurrent_reads: 8,
    concurrent_writes: 8,
    auto_snapshot: false,
  }
}

const LOGGING = `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%date %level %logger %message%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (isUp: boolean) => {
      socket.destroy()
      resolve(isUp)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
  })
}

export default cassandra
