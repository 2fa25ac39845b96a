/** Reads topics of Kafka (3.1 and later), by offsets that are committed with the rows. Experimental: see the guide for what is not proved yet. */
import { defineConnector } from '@sluice/sdk'
import { type KafkaSettings, parseSettings, settingsSchema } from './settings.ts'

/** What reads sources, with its driver. The runtime needs the settings alone; a process that reads loads it ahead. */
export const load = () => import('./connector.ts')

export default defineConnector<KafkaSettings>({
  type: 'kafka',
  name: 'kafka',
  version: '0.1.0',
  description: 'Topics of a Kafka cluster, whole or by what is new. Experimental.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  async open(settings, host) {
    const parsed = parseSettings(settings)
    return (await load()).createConnector(parsed, host)
  },
})
