/** Reads PostgreSQL (11 and later): whole tables, what has changed by a cursor, or what its log tells, as CSV. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings, settingsSchema } from './settings.ts'

export default defineConnector<Settings>({
  type: 'postgresql',
  name: 'postgresql',
  version: '0.1.0',
  description: 'Tables and views of a PostgreSQL database, in full or incrementally.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental', 'cdc'], csv: true },
  open: async (settings, host) => createConnector(parseSettings(settings), host),
})
