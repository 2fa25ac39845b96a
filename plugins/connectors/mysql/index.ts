/** Reads MySQL (8.0 and later) by the code of the connector for MariaDB. Experimental: no test has met a MySQL server. */
import { defineConnector } from '@sluice/sdk'
import { parseSettings, type Settings, settingsSchema } from '../mariadb/settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => import('../mariadb/connector.ts')

export default defineConnector<Settings>({
  type: 'mysql',
  name: 'mysql',
  version: '0.1.0',
  description: 'Tables and views of MySQL databases, in full or incrementally. Experimental: proved on MariaDB alone.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const parsed = parseSettings(settings)
    return (await load()).createConnector(parsed, host)
  },
})
