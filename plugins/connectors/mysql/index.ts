/** Reads MySQL (8.0 and later) by the code of the connector for MariaDB. Experimental: no test has met a MySQL server. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from '../mariadb/connector.ts'
import { parseSettings, type Settings, settingsSchema } from '../mariadb/settings.ts'

export default defineConnector<Settings>({
  type: 'mysql',
  name: 'mysql',
  version: '0.1.0',
  description: 'Tables and views of MySQL databases, in full or incrementally. Experimental: proved on MariaDB alone.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  open: async (settings, host) => createConnector(parseSettings(settings), host),
})
