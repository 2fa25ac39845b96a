import type { JsonSchema } from '@sluice/sdk'
import type { Login } from './requests.ts'

export interface WebdavSettings extends Login {
  readonly url: string
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['url', 'username', 'password'],
  properties: {
    url: { type: 'string', pattern: '^https?://', description: 'Of the folder that buckets are made in.' },
    username: { type: 'string', description: 'Of a login that may do everything there, and lock.' },
    password: { type: 'string', 'x-secret': true, description: 'Of that login.' },
    deadline_ms: {
      type: 'integer',
      default: 120_000,
      minimum: 1_000,
      description: 'One operation, retries and all.',
    },
    attempt_ms: {
      type: 'integer',
      default: 30_000,
      minimum: 100,
      maximum: 60_000,
      description: 'One request; of a large file, the time without any bytes.',
    },
  },
}
