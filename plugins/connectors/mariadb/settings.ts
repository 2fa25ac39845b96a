import { serverSettings } from '../server/settings.ts'

export type { Settings, Source } from '../server/settings.ts'

export const { settingsSchema, parseSettings } = serverSettings({
  product: 'MariaDB or MySQL',
  port: 3306,
  maxName: 64,
  overlap: 'How far before the greatest value of the cursor column each read starts, for rows that are committed late.',
  schemas: 'Databases whose tables are offered and read; without it, that of "database" alone.',
})
