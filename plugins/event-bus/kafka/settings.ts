/** What the configuration says of the brokers, under `events.kafka`. Loads no client. */
import type { JsonSchema } from '@sluice/sdk'

export interface KafkaSettings {
  /** `host:port` of some of the brokers. */
  readonly brokers: readonly string[]
  readonly username?: string
  readonly password?: string
  readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
  readonly tls: boolean
  /** PEM of the authority that signed the brokers' certificates; absent: the system's. */
  readonly ca_file?: string
  readonly partitions: number
  readonly replicas: number
  /** Whom a tenant's topics are opened to, with `{tenant}` in it: `User:{tenant}`. Absent: no rights are given. */
  readonly reader_principal?: string
  /** Who may read clear change topics too: `User:{tenant}--cleared`. Absent: there are no clear change topics. */
  readonly cleared_principal?: string
  /** Whether the rows that change are sent, besides events. */
  readonly change_topics: boolean
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  description: 'Where events are carried to. Absent: they stay in the registry.',
  required: ['brokers'],
  properties: {
    brokers: {
      type: 'array',
      items: { type: 'string' },
      minItems: 1,
      description: '`host:port` of some of the brokers.',
    },
    username: { type: 'string', description: 'Of the SASL login; absent: none is used.' },
    password: { type: 'string', description: 'Of that login.', 'x-secret': true },
    mechanism: {
      enum: ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'],
      default: 'SCRAM-SHA-512',
      description: 'How the login is proved.',
    },
    tls: { type: 'boolean', default: true, description: 'Whether brokers are spoken to over TLS.' },
    ca_file: { type: 'string', description: 'PEM of the authority of the brokers’ certificates.' },
    partitions: { type: 'integer', default: 1, minimum: 1, maximum: 100, description: 'Of each topic that is made.' },
    replicas: { type: 'integer', default: 1, minimum: 1, maximum: 10, description: 'Of each topic that is made.' },
    reader_principal: {
      type: 'string',
      description: 'Who may read a tenant’s topics: `User:{tenant}`. Absent: no rights are given.',
    },
    change_topics: {
      type: 'boolean',
      default: false,
      description:
        'Whether the rows that each epoch changes are sent too, masked, to a topic of each product. Needs brokers with logins and an authorizer. Off: such topics are removed.',
    },
    cleared_principal: {
      type: 'string',
      description:
        'Who may read change topics in clear: `User:{tenant}--cleared`, which no tenant can be called. Absent: there are none of products with masked columns.',
    },
  },
}
