import { defineServingPlugin } from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { openDatabase } from './database.ts'
import { openStore } from './store.ts'

export type Settings = Readonly<Record<string, never>>

export interface Config {
  /** Columns that readers filter by; each gets an index. The key has one anyway. */
  readonly index_columns?: readonly string[]
}

export default defineServingPlugin<Settings, Config>({
  type: 'lookup',
  name: 'sqlite',
  version: '1.0.0',
  description: 'Rows by key and by indexed columns, in one SQLite file.',
  settingsSchema: { type: 'object', additionalProperties: false, properties: {}, examples: [{}] },
  configSchema: {
    type: 'object',
    additionalProperties: false,
    properties: {
      index_columns: {
        type: 'array',
        description: 'Columns that readers filter by.',
        items: { type: 'string' },
        uniqueItems: true,
        minItems: 1,
        maxItems: 16,
      },
    },
    examples: [{}, { index_columns: ['name'] }],
  },
  capabilities,
  checkConfig({ index_columns: names = [] }, schema) {
    return names.flatMap((name, index) =>
      schema.columns.some((column) => column.name === name)
        ? []
        : [{ pointer: `/index_columns/${index}`, message: `there is no column ${name}` }],
    )
  },
  open: async (_, host) => openStore(openDatabase(host.stateDirectory, 'lookup.sqlite'), host),
})
