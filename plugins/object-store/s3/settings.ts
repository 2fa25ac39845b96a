/** What the configuration says of an S3-compatible store, under `object_store` and `exports.destinations`. Loads no client. */
import type { JsonSchema } from '@sluice/sdk'

const CONNECTION = {
  endpoint: { type: 'string', description: 'Address of an S3-compatible store: https://s3.example.com.' },
  region: { type: 'string', default: 'us-east-1', description: 'Of the buckets; requests are signed for it.' },
  access_key_id: { type: 'string', description: 'Of the key that requests are signed with.' },
  secret_access_key: { type: 'string', 'x-secret': true, description: 'The secret of that key.' },
  session_token: { type: 'string', 'x-secret': true, description: 'Of a key that is lent for a time.' },
  path_style: { type: 'boolean', default: true, description: 'Buckets in the path, not in the host’s name.' },
} as const satisfies Readonly<Record<string, JsonSchema>>

const required = ['endpoint', 'access_key_id', 'secret_access_key']

export const destinationSchema: JsonSchema = {
  type: 'object',
  properties: CONNECTION,
  required,
  additionalProperties: false,
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  description: 'In buckets of an S3-compatible store, one a tenant.',
  properties: {
    ...CONNECTION,
    deadline_ms: {
      type: 'integer',
      default: 120_000,
      minimum: 1000,
      description: 'One operation, retries and all.',
    },
    attempt_ms: {
      type: 'integer',
      default: 30_000,
      minimum: 100,
      description: 'One attempt; where an object is copied for engines, the time without any bytes.',
    },
    part_mb: {
      type: 'integer',
      default: 16,
      minimum: 5,
      maximum: 1024,
      description: 'Of an upload in parts, each.',
    },
  },
  required,
  additionalProperties: false,
}

/** As the schemas let them through: of a destination without times and parts. */
export interface Settings {
  readonly endpoint: string
  readonly region: string
  readonly access_key_id: string
  readonly secret_access_key: string
  readonly session_token?: string
  readonly path_style: boolean
  readonly deadline_ms?: number
  readonly attempt_ms?: number
  readonly part_mb?: number
}
