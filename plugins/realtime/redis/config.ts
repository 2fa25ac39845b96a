import { type Capabilities, EXACT_TYPES, type JsonSchema } from '@sluice/sdk'

export interface RedisSettings {
  /** `redis://` or `rediss://` with host and port; of a cluster, one of its nodes. */
  readonly url: string
  readonly username?: string
  readonly password?: string
  /** Default: false. */
  readonly cluster?: boolean
  readonly tls?: {
    readonly ca_file?: string
    readonly cert_file?: string
    readonly key_file?: string
    readonly server_name?: string
  }
  /** How many replicas must have an epoch's values before it is committed. Default: 0. */
  readonly replicas?: number
  readonly connect_timeout_ms?: number
  readonly command_timeout_ms?: number
}

export const DEFAULT_CONNECT_TIMEOUT_MS = 5000
export const DEFAULT_COMMAND_TIMEOUT_MS = 5000

const file = (description: string): JsonSchema => ({ type: 'string', minLength: 1, description })

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['url'],
  properties: {
    url: {
      type: 'string',
      pattern: '^rediss?://',
      description: 'redis://host:port/database, or rediss:// for TLS; of a cluster, one of its nodes.',
      examples: ['rediss://cache.internal:6380'],
      'x-secret': true,
    },
    username: { type: 'string', minLength: 1, description: 'The login, where access lists are used.' },
    password: { type: 'string', minLength: 1, 'x-secret': true },
    cluster: {
      type: 'boolean',
      default: false,
      description: 'Whether the keys are spread over the nodes of a cluster.',
    },
    tls: {
      type: 'object',
      additionalProperties: false,
      properties: {
        ca_file: file('PEM of the authority that signed the server’s certificate. Default: the system’s authorities.'),
        cert_file: file('PEM of the client’s certificate.'),
        key_file: file('PEM of the client’s key.'),
        server_name: { type: 'string', minLength: 1, description: 'The name in the certificate, where it is another.' },
      },
    },
    replicas: {
      type: 'integer',
      minimum: 0,
      maximum: 16,
      default: 0,
      description: 'How many replicas must have an epoch’s values before it is committed.',
    },
    connect_timeout_ms: { type: 'integer', minimum: 100, maximum: 60_000, default: DEFAULT_CONNECT_TIMEOUT_MS },
    command_timeout_ms: { type: 'integer', minimum: 100, maximum: 60_000, default: DEFAULT_COMMAND_TIMEOUT_MS },
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
