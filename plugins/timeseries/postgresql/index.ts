import { SETTINGS_SCHEMA, Sessions, type Settings } from '@sluice/lookup/row-secured-postgresql'
import { defineServingPlugin, type Host } from '@sluice/sdk'
import { CAPABILITIES } from '../row-secured-series/capabilities.ts'
import { CONFIG_SCHEMA, checkConfig, type TimeseriesConfig } from '../row-secured-series/config.ts'
import { ENDPOINT } from '../row-secured-series/layout.ts'
import { readColumns } from '../row-secured-series/reads.ts'
import { TimeseriesStore } from '../row-secured-series/store.ts'
import { nativePartitions } from './native-partitions.ts'

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
  open: async (settings: Settings, host: Host) =>
    new TimeseriesStore(await Sessions.open(settings, host), host, nativePartitions),
})
