import { serverSettings } from '../server/settings.ts'

export type { Settings, Source } from '../server/settings.ts'

export const { settingsSchema, parseSettings } = serverSettings({
  product: 'PostgreSQL',
  port: 5432,
  maxName: 63,
  overlap:
    'Where changes can only be told by the cursor column (views, foreign tables): how far back each read starts.',
  schemas: 'Only tables of these schemas are offered and read.',
})
