/** Events, and the rows that change, on Kafka: a topic of each tenant and kind, rights by its access rules. */
import { defineEventBus } from '@sluice/sdk'
import { openKafkaBus } from './bus.ts'
import { type KafkaSettings, settingsSchema } from './settings.ts'

export default defineEventBus<KafkaSettings>({
  name: 'kafka',
  version: '0.1.0',
  description: 'Events and changed rows on topics of Kafka, with access rules of its own.',
  settingsSchema,
  open: (settings) => openKafkaBus(settings),
})
