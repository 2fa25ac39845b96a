import { defineServingPlugin, type Host } from '@sluice/sdk'
import { SETTINGS_SCHEMA, Sessions, type Settings } from '../row-secured-postgresql/index.ts'
import { CAPABILITIES } from './capabilities.ts'
import { CONFIG_SCHEMA, checkConfig, type LookupConfig, readColumns } from './config.ts'
import { ENDPOINT } from './layout.ts'
import { LookupStore } from './store.ts'

/** Point reads by key or index from tables of PostgreSQL that row security divides between tenants. */
export default defineServingPlugin<Settings, LookupConfig>({
  type: ENDPOINT,
  name: 'postgresql',
  version: '0.1.0',
  description: 'Point reads by key or indexed column, with history, from row-secured PostgreSQL tables.',
  settingsSchema: SETTINGS_SCHEMA,
  configSchema: CONFIG_SCHEMA,
  capabilities: CAPABILITIES,
  checkConfig,
  readColumns,
  open: async (settings: Settings, host: Host) => new LookupStore(await Sessions.open(settings, host), host),
})
