import type { JsonSchema } from '@sluice/sdk'

export interface Settings {
  readonly contact_points: readonly string[]
  readonly port?: number
  readonly local_data_center: string
  readonly keyspace: string
  readonly replication_factor?: number
  readonly username?: string
  readonly password?: string
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['contact_points', 'local_data_center', 'keyspace'],
  properties: {
    contact_points: { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: 32 },
    port: { type: 'integer', minimum: 1, maximum: 65_535, default: 9042 },
    local_data_center: { type: 'string', minLength: 1 },
    keyspace: { type: 'string', pattern: '^[a-z][a-z0-9_]{0,47}$', description: 'Made where it is not there.' },
    replication_factor: { type: 'integer', minimum: 1, maximum: 9, default: 1 },
    username: { type: 'string' },
    password: { type: 'string', 'x-secret': true },
  },
  examples: [{ contact_points: ['cassandra-1'], local_data_center: 'datacenter1', keyspace: 'sluice' }],
}

/** The key is what this store finds rows by; there is nothing to choose. `index_columns` is taken for other stores' sake. */
export const configSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    index_columns: {
      type: 'array',
      description: 'Columns that readers filter by. Only the key is found quickly; others are looked for row by row.',
      items: { type: 'string' },
      uniqueItems: true,
      minItems: 1,
    },
  },
  examples: [{}, { index_columns: ['name'] }],
}
