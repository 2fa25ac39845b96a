/** Reads MariaDB (10.6 and later): whole tables, or what has changed by a cursor, as CSV. */
import { defineConnector } from '@sluice/sdk'
import { parseSettings, type Settings, settingsSchema } from './settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => import('./connector.ts')

export default defineConnector<Settings>({
  type: 'mariadb',
  name: 'mariadb',
  version: '0.1.0',
  description: 'Tables and views of MariaDB databases, in full or incrementally.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const parsed = parseSettings(settings)
    return (await load()).createConnector(parsed, host)
  },
})
