import { type Capabilities, EXACT_TYPES, type JsonSchema } from '@sluice/sdk'

export interface LmdbSettings {
  /** A folder on a local disk. Default: the plugin's own state folder. */
  readonly path?: string
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    path: {
      type: 'string',
      minLength: 1,
      description: 'Folder of the database, on a local disk. Default: a folder in the runtime’s data folder.',
    },
  },
}

export const capabilities: Capabilities = {
  commit: 'atomic',
  operations: ['key'],
  filters: [],
  ttl: { granularityMs: 1 },
  recover: true,
  digest: true,
  jsonBatches: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 1, maxRowBytes: 1 << 20, maxKeyBytes: 1 << 20 },
}
