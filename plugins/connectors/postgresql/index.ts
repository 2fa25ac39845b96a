/** Reads PostgreSQL (11 and later): whole tables, what has changed by a cursor, or what its log tells, as CSV. */
import { defineConnector } from '@sluice/sdk'
import { parseSettings, type Settings, settingsSchema } from './settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => import('./connector.ts')

export default defineConnector<Settings>({
  type: 'postgresql',
  name: 'postgresql',
  version: '0.1.0',
  description: 'Tables and views of a PostgreSQL database, in full or incrementally.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental', 'cdc'], csv: true },
  async open(settings, host) {
    const parsed = parseSettings(settings)
    return (await load()).createConnector(parsed, host)
  },
})
