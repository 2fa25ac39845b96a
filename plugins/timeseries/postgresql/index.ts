import { SETTINGS_SCHEMA, Sessions, type Settings } from '@sluice/lookup/row-secured-postgresql'
import { type Column, defineServingPlugin, type Host, type ReadKind, type TableSchema } from '@sluice/sdk'
import { CAPABILITIES } from './capabilities.ts'
import { CONFIG_SCHEMA, checkConfig, type TimeseriesConfig } from './config.ts'
import { ENDPOINT, layoutOf } from './layout.ts'
import { TimeseriesStore } from './store.ts'

/** Rows by time from tables of PostgreSQL that are partitioned by tenant and time, with aggregates kept beside them. */
export default defineServingPlugin<Settings, TimeseriesConfig>({
  type: ENDPOINT,
  name: 'postgresql',
  version: '0.1.0',
  description: 'Ranges of time and kept aggregates from row-secured PostgreSQL partitions.',
  settingsSchema: SETTINGS_SCHEMA,
  configSchema: CONFIG_SCHEMA,
  capabilities: CAPABILITIES,
  checkConfig,
  readColumns,
  open: async (settings: Settings, host: Host) => new TimeseriesStore(await Sessions.open(settings, host), host),
})

function readColumns(config: TimeseriesConfig, schema: TableSchema, read: ReadKind): readonly Column[] | null {
  if (read.operation !== 'aggregate') return schema.columns
  const kept = layoutOf(schema, config).aggregates.find((aggregate) => aggregate.interval === read.interval)
  if (!kept) return null
  return [...kept.served.values()].map(({ name, type, nullable }) => ({ name, type, nullable }))
}
