/** The plugins of this repository that certificates are kept of, and what proving each of them takes. */
import type { ServerKind } from '../stack/server.ts'
import { cassandra } from '../stack/servers/cassandra.ts'
import { mariadb } from '../stack/servers/mariadb.ts'
import { postgres } from '../stack/servers/postgres.ts'
import { redis } from '../stack/servers/redis.ts'
import { redisCluster } from '../stack/servers/redis-cluster.ts'
import { timescaledb } from '../stack/servers/timescaledb.ts'
import { trino } from '../stack/servers/trino.ts'
import { valkey } from '../stack/servers/valkey.ts'
import { versitygw } from '../stack/servers/versitygw.ts'

export interface Certified {
  /** The plugin's folder, from the repository's root. */
  readonly plugin: string
  /** Of several servers that it is proved on, which one: part of its certificate's name. */
  readonly on?: string
  readonly level: 'core' | 'full' | 'hard'
  /** Beyond what npm brings; started where no variable names one. */
  readonly servers?: readonly ServerKind[]
  /** In the place of conformance.ts beside the plugin. */
  readonly fixture?: string
  /** No registry of packages has its server: a certificate is made where this variable names one, and missed nowhere. */
  readonly whereGiven?: string
}

/** How the command line names it: `plugins/realtime/redis@valkey`. */
export const certifiedName = ({ plugin, on }: Certified): string => (on === undefined ? plugin : `${plugin}@${on}`)

/** The lowest levels that are good enough: no lower than what tests hold at every commit. */
export const CERTIFIED: readonly Certified[] = [
  { plugin: 'plugins/lookup/postgresql', level: 'hard' },
  { plugin: 'plugins/timeseries/postgresql', level: 'hard' },
  { plugin: 'plugins/analytics/duckdb', level: 'hard' },
  {
    plugin: 'plugins/analytics/trino',
    level: 'full',
    servers: [postgres, trino],
    fixture: 'stack/trino/conformance.ts',
  },
  { plugin: 'plugins/realtime/lmdb', level: 'hard' },
  {
    plugin: 'plugins/timeseries/timescaledb',
    level: 'full',
    servers: [timescaledb],
    whereGiven: 'SLUICE_TEST_TIMESCALE_URL',
  },
  { plugin: 'plugins/realtime/redis', level: 'full', servers: [redis] },
  { plugin: 'plugins/realtime/redis', on: 'valkey', level: 'full', servers: [valkey] },
  { plugin: 'plugins/realtime/redis', on: 'cluster', level: 'full', servers: [redisCluster] },
  { plugin: 'plugins/connectors/postgresql', level: 'full' },
  { plugin: 'plugins/connectors/mariadb', level: 'full', servers: [mariadb] },
  { plugin: 'plugins/connectors/files', level: 'full' },
  { plugin: 'plugins/connectors/s3-files', level: 'full', servers: [versitygw] },
  { plugin: 'examples/plugins/sqlite', level: 'hard' },
  { plugin: 'examples/plugins/cassandra', level: 'full', servers: [cassandra] },
  { plugin: 'examples/plugins/text-search', level: 'full' },
  { plugin: 'examples/plugins/folder', level: 'full' },
]
