import type { JsonSchema } from '@sluice/sdk'

/** As the runtime hands them over: checked by the schema, defaults filled in. */
export interface RedisStreamsSettings {
  readonly url: string
  readonly reader_login?: string
  readonly keep_messages: number
  readonly replicas: number
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['url'],
  properties: {
    url: {
      type: 'string',
      pattern: '^rediss?://',
      'x-secret': true,
      description: 'redis://login:password@host:port/database, or rediss:// for TLS.',
    },
    reader_login: {
      type: 'string',
      pattern: '\\{tenant\\}',
      description: 'Login that may read the streams of a tenant: `{tenant}`. Absent: no rights are given.',
    },
    keep_messages: {
      type: 'integer',
      default: 1_000_000,
      minimum: 1_000,
      maximum: 1_000_000_000,
      description: 'About how many messages a stream keeps; the oldest go first.',
    },
    replicas: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 16,
      description: 'How many replicas must have events before they count as carried.',
    },
  },
}
