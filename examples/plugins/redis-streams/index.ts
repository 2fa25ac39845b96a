/** Events on streams of Redis, one for each topic. */
import { defineEventBus } from '@sluice/sdk'
import { openBus } from './bus.ts'
import { type RedisStreamsSettings, settingsSchema } from './settings.ts'

export default defineEventBus<RedisStreamsSettings>({
  name: 'redis-streams',
  version: '1.0.0',
  description: 'Events on streams of Redis, with rights by its access lists.',
  settingsSchema,
  open: async (settings) => openBus(settings),
})
