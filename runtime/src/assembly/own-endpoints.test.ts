import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../config.ts'
import { ownEndpoints } from './own-endpoints.ts'

const config = loadConfig({ environment: {}, flags: {} })
const asText = (own: ReturnType<typeof ownEndpoints>) => own.map(({ address, port }) => `${address} ${port}`).sort()

test('every server that the configuration names is the platform’s own', () => {
  const serving = {
    realtime: { driver: 'redis', settings: { url: 'rediss://redis.internal', password: 'hidden' } },
    search: {
      driver: 'others',
      settings: { contact_points: ['node-1.internal:9042'], nodes: 'node-2.internal:1, [::2]:2' },
    },
    analytics: { driver: 'trino', settings: { url: 'https://[FD00::8]:8443', path: '/var/lib' } },
  }
  const catalog = { 'connection-url': 'jdbc:postgresql://lake.internal:6432/registry' }
  const named: typeof config = {
    ...config,
    host: '0.0.0.0',
    port: 8080,
    database: {
      registry_url: 'postgresql://u:p@registry.internal/sluice',
      serving_owner_url: 'postgresql://u@x/d?host=/run',
    },
    object_store: { ...S3, endpoint: 'https://s3.internal' },
    exports: {
      ...config.exports,
      destinations: { warehouse: { ...WAREHOUSE, endpoint: 'http://warehouse.internal' } },
    },
    serving,
    events: { kafka: { ...KAFKA, brokers: ['kafka-1.internal:9092', '[::1]:9093'] } },
    compute: { trino: { url: 'http://trino.internal:8080', user: 'sluice', catalog } },
    trino: { policy_host: '10.0.0.7', policy_port: 8181, policy_cert_file: '/policy.crt' },
    dashboards: { ...SUPERSET, url: 'http://superset.internal:8088', database_host: 'db.internal' },
    openlineage: { ...LINEAGE, url: 'https://lineage.internal/api/v1/lineage' },
    wire: { ...config.wire, host: '10.0.0.6', port: 5433 },
  }
  assert.deepEqual(asText(ownEndpoints(named, { host: '127.0.0.1', port: 54_321 })), [
    '0.0.0.0 8080',
    '10.0.0.6 5433',
    '10.0.0.7 8181',
    '127.0.0.1 54321',
    '::1 9093',
    '::2 2',
    'db.internal 5432',
    'fd00::8 8443',
    'kafka-1.internal 9092',
    'lake.internal 6432',
    'lineage.internal 443',
    'node-1.internal 9042',
    'node-2.internal 1',
    'redis.internal 6379',
    'registry.internal 5432',
    's3.internal 443',
    'superset.internal 8088',
    'trino.internal 8080',
    'warehouse.internal 80',
  ])
})

test('an address in settings of others is closed in each form that it may have, and none is taken from what is no address', () => {
  const settings = {
    urls: ['nats://bus.internal', 'amqp://user:p%40ss@mq.internal:5673/vhost', 'tls://[fd00::9]'],
    several: 'mongodb://a.internal:1,b.internal:2/db?x=y',
    nothing: [
      's3://sluice-acme/lake',
      'gs://bucket',
      'file:///srv',
      'User:{tenant}',
      'x://{tenant}/y',
      'unix:///run/bus.sock',
    ],
  }
  const own = ownEndpoints({ ...config, events: { others: settings } }, null)
  assert.deepEqual(
    asText(own).filter((one) => !one.startsWith(`${config.host} `)),
    ['a.internal 1', 'b.internal 2', 'bus.internal null', 'fd00::9 null', 'mq.internal 5673'],
  )
})

test('without other servers only this one is', () => {
  assert.deepEqual(asText(ownEndpoints(config, null)), [`${config.host} ${config.port}`])
})

const S3 = {
  type: 's3' as const,
  region: 'us-east-1',
  access_key_id: 'key',
  secret_access_key: 'hidden',
  path_style: true,
  deadline_ms: 120_000,
  attempt_ms: 30_000,
  part_mb: 16,
  cache_mb: 64,
}

const WAREHOUSE = {
  ...{ bucket: 'acme', region: 'us-east-1', path_style: true, tenants: ['acme'] },
  ...{ access_key_id: 'key', secret_access_key: 'hidden' },
}

const KAFKA = { mechanism: 'PLAIN' as never, tls: true, partitions: 1, replicas: 1, change_topics: false }

const LINEAGE = { namespace: 'sluice', source_hosts: false, allow_http: false, keep_hours: 1, keep_runs: 1 }

const SUPERSET = { username: 'admin', password: 'hidden', timeout_ms: 30_000 }
