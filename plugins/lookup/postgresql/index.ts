import { type Column, columnNamed, defineServingPlugin, type Host, type TableSchema } from '@sluice/sdk'
import { SETTINGS_SCHEMA, Sessions, type Settings } from '../row-secured-postgresql/index.ts'
import { CAPABILITIES } from './capabilities.ts'
import { CONFIG_SCHEMA, checkConfig, type LookupConfig } from './config.ts'
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
  readColumns: (config, schema) => [...schema.columns, ...historyColumns(config, schema)],
  open: async (settings: Settings, host: Host) => new LookupStore(await Sessions.open(settings, host), host),
})

/** What a history adds to every row. */
function historyColumns(config: LookupConfig, schema: TableSchema): readonly Column[] {
  switch (config.history_mode) {
    case 'type_2':
      return [
        { name: 'valid_from', type: 'timestamptz', nullable: false },
        { name: 'valid_to', type: 'timestamptz', nullable: true },
        { name: 'is_current', type: 'boolean', nullable: false },
      ]
    case 'type_3':
      return (config.tracked_columns ?? []).map((name) => {
        return { name: `previous_${name}`, type: columnNamed(schema, name).type, nullable: true }
      })
    default:
      return []
  }
}
