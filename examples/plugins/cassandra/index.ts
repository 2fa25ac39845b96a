import { defineServingPlugin } from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { openCluster } from './cluster.ts'
import { configSchema, type Settings, settingsSchema } from './settings.ts'
import { openStore } from './store.ts'

export interface Config {
  readonly index_columns?: readonly string[]
}

export default defineServingPlugin<Settings, Config>({
  type: 'lookup',
  name: 'cassandra',
  version: '1.0.0',
  description: 'Rows by key on Apache Cassandra.',
  settingsSchema,
  configSchema,
  capabilities,
  checkConfig({ index_columns: names = [] }, schema) {
    return names.flatMap((name, index) =>
      schema.columns.some((column) => column.name === name)
        ? []
        : [{ pointer: `/index_columns/${index}`, message: `there is no column ${name}` }],
    )
  },
  open: async (settings, host) => openStore(await openCluster(settings), host),
})
