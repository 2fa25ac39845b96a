import { defineServingPlugin } from '@sluice/sdk'
import { openDatabase } from 'sluice-lookup-sqlite/database'
import { capabilities } from './capabilities.ts'
import { type Config, configProblems, configSchema } from './config.ts'
import { searchedColumns, termsOf } from './question.ts'
import { openStore } from './store.ts'

export type Settings = Readonly<Record<string, never>>

export default defineServingPlugin<Settings, Config>({
  type: 'search',
  name: 'sqlite-fts5',
  version: '1.0.0',
  description: 'Text search with ranking, in one SQLite file.',
  settingsSchema: { type: 'object', additionalProperties: false, properties: {}, examples: [{}] },
  configSchema,
  capabilities,
  checkConfig: configProblems,
  selects({ input, config }) {
    termsOf(input, config)
    return searchedColumns(input, config)
  },
  open: async (_, host) => openStore(openDatabase(host.stateDirectory, 'search.sqlite'), host),
})
