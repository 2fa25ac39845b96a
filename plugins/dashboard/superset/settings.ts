/** What the configuration says of Superset, under `dashboards`. Loads no client. */
import type { JsonSchema } from '@sluice/sdk'

export interface SupersetSettings {
  readonly url: string
  readonly username: string
  readonly password: string
  readonly timeout_ms: number
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['url', 'username', 'password'],
  properties: {
    url: {
      type: 'string',
      pattern: '^https?://[^?#@]+$',
      description: 'Address of Superset: https://superset.example.com.',
    },
    username: { type: 'string', description: 'A login of Superset’s own, with the role Admin.' },
    password: { type: 'string', 'x-secret': true, description: 'Of that login.' },
    timeout_ms: { type: 'integer', default: 30_000, minimum: 100, description: 'One request to Superset.' },
  },
}
