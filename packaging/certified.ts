/** The plugins of this repository that certificates are kept of, and what proving each of them takes. */
import type { ServerKind } from '../stack/server.ts'
import { cassandra } from '../stack/servers/cassandra.ts'
import { postgres } from '../stack/servers/postgres.ts'
import { redis } from '../stack/servers/redis.ts'
import { trino } from '../stack/servers/trino.ts'

export interface Certified {
  /** The plugin's folder, from the repository's root. */
  readonly plugin: string
  readonly level: 'core' | 'full' | 'hard'
  /** Beyond what npm brings; started where no variable names one. */
  readonly servers?: readonly ServerKind[]
  /** In the place of conformance.ts beside the plugin. */
  readonly fixture?: string
}

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
  { plugin: 'plugins/realtime/redis', level: 'full', servers: [redis] },
  { plugin: 'examples/plugins/sqlite', level: 'hard' },
  { plugin: 'examples/plugins/cassandra', level: 'full', servers: [cassandra] },
  { plugin: 'examples/plugins/text-search', level: 'full' },
  { plugin: 'examples/plugins/folder', level: 'full' },
]
