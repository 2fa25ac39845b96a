/** Reads PostgreSQL (11 and later): whole tables or what has changed, as the CSV that the server itself makes. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings, settingsSchema } from './settings.ts'

export default defineConnector<Settings>({
  type: 'postgresql',
  name: 'postgresql',
  version: '0.1.0',
  description: 'Tables and views of a PostgreSQL database, in full or incrementally.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  open: async (settings, host) => createConnector(parseSettings(settings), host),
})
