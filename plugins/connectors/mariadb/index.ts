/** Reads MariaDB (10.6 and later): whole tables, or what has changed by a cursor, as CSV. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings, settingsSchema } from './settings.ts'

export default defineConnector<Settings>({
  type: 'mariadb',
  name: 'mariadb',
  version: '0.1.0',
  description: 'Tables and views of MariaDB databases, in full or incrementally.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  open: async (settings, host) => createConnector(parseSettings(settings), host),
})
