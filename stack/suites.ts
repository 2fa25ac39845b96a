import type { ServerKind } from './server.ts'
import { cassandra } from './servers/cassandra.ts'
import { dashboards } from './servers/dashboards.ts'
import { governedTrino } from './servers/governed-trino.ts'
import { icebergReaders } from './servers/iceberg-readers.ts'
import { kafka } from './servers/kafka.ts'
import { keycloak } from './servers/keycloak.ts'
import { minio } from './servers/minio.ts'
import { postgres } from './servers/postgres.ts'
import { redis } from './servers/redis.ts'
import { redisCluster } from './servers/redis-cluster.ts'
import { runtimeOnPostgres } from './servers/runtime.ts'
import { runtimeOnS3 } from './servers/runtime-on-s3.ts'
import { twoRuntimes } from './servers/runtimes.ts'
import { timescaledb } from './servers/timescaledb.ts'
import { trino } from './servers/trino.ts'
import { valkey } from './servers/valkey.ts'
import { versitygw } from './servers/versitygw.ts'

/** Tests that run together, with the servers that they need. A server runs only while its suite does. */
export interface Suite {
  readonly name: string
  readonly servers: readonly ServerKind[]
  /** Globs of test files, from the repository's root. */
  readonly tests: readonly string[]
  /** Besides the servers' addresses. */
  readonly env?: Readonly<Record<string, string>>
  /** No other runs meanwhile: it is about what happens in seconds, with both processors its own. */
  readonly isAlone?: boolean
}

export const SUITES: readonly Suite[] = [
  // First what nothing is downloaded for; then what takes longest.
  { name: 'crash', servers: [], tests: ['test/crash/*.test.ts'], env: { SLUICE_CRASH_KILLS: '8' } },
  {
    name: 'conformance',
    servers: [],
    tests: ['conformance-tests/*.stack.test.ts', 'plugins/**/{postgresql,lmdb,duckdb}/conformance.stack.test.ts'],
    // The certificates in docs/certificates are of 5,000.
    env: { SLUICE_CONFORMANCE_SCHEDULES: '100' },
  },
  // All that a plain Trino is needed for: a server that has been running for a while answers in half the time.
  {
    name: 'trino',
    servers: [postgres, redis, versitygw, icebergReaders, trino],
    tests: [
      'stack/trino/{store,conformance}.stack.test.ts',
      'stack/catalog/trino.stack.test.ts',
      'stack/{distributed,parity,readers}/*.stack.test.ts',
    ],
  },
  { name: 'housekeeping', servers: [], tests: ['test/*.stack.test.ts'] },
  { name: 'cassandra', servers: [cassandra], tests: ['examples/plugins/cassandra/**/*.stack.test.ts'] },
  { name: 'packages', servers: [], tests: ['test/packages/**/*.stack.test.ts'] },
  // The others of acceptance/ run embedded in `npm test`, and on the full stack.
  { name: 'acceptance', servers: [runtimeOnPostgres], tests: ['acceptance/*.stack.test.ts'] },
  { name: 'acceptance-s3', servers: [runtimeOnS3], tests: ['acceptance/contract.int.test.ts'] },
  { name: 'object-store', servers: [versitygw], tests: ['runtime/src/lake/**/*.stack.test.ts'] },
  { name: 'catalog', servers: [icebergReaders], tests: ['stack/catalog/catalog.stack.test.ts'] },
  { name: 'catalog-s3', servers: [versitygw, icebergReaders], tests: ['stack/catalog/signed.stack.test.ts'] },
  {
    name: 'kafka',
    servers: [kafka],
    tests: ['runtime/src/events/*.stack.test.ts', 'stack/changes/*.stack.test.ts'],
  },
  { name: 'identity', servers: [keycloak], tests: ['stack/identity/*.stack.test.ts'] },
  { name: 'redis', servers: [redis], tests: ['plugins/realtime/redis/*.stack.test.ts'] },
  { name: 'redis-cluster', servers: [redisCluster], tests: ['plugins/realtime/redis/conformance.stack.test.ts'] },
  { name: 'valkey', servers: [valkey], tests: ['plugins/realtime/redis/*.stack.test.ts'] },
  { name: 'dashboards', servers: [dashboards], tests: ['stack/dashboards/*.stack.test.ts'] },
  { name: 'trino-policy', servers: [governedTrino], tests: ['stack/trino/policy.stack.test.ts'] },
  { name: 'acceptance-full-stack', servers: [twoRuntimes], tests: ['acceptance/**/*.int.test.ts'] },
  { name: 'timescaledb', servers: [timescaledb], tests: ['plugins/timeseries/timescaledb/*.stack.test.ts'] },
  // Late: building its server takes minutes.
  {
    name: 'minio',
    servers: [minio, icebergReaders],
    tests: [
      'stack/object-store/*.stack.test.ts',
      'runtime/src/lake/**/*.stack.test.ts',
      'stack/catalog/signed.stack.test.ts',
    ],
  },
  { name: 'several-runtimes', servers: [postgres, redis, versitygw], tests: ['stack/several/*.stack.test.ts'] },
  { name: 'chaos', servers: [], tests: ['stack/chaos/*.stack.test.ts'], isAlone: true },
]
