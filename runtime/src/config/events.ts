/** Who is told of what happens, besides those who ask. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

const Kafka = Type.Object(
  {
    brokers: Type.Array(Type.String(), { minItems: 1, description: '`host:port` of some of the brokers.' }),
    username: Type.Optional(Type.String({ description: 'Of the SASL login; absent: none is used.' })),
    password: Type.Optional(Type.String({ description: 'Of that login.' })),
    mechanism: Type.Union(
      ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'].map((name) => Type.Literal(name)),
      { default: 'SCRAM-SHA-512', description: 'How the login is proved.' },
    ),
    tls: Type.Boolean({ default: true, description: 'Whether brokers are spoken to over TLS.' }),
    ca_file: Type.Optional(Type.String({ description: 'PEM of the authority of the brokers’ certificates.' })),
    partitions: Type.Integer({ default: 1, minimum: 1, maximum: 100, description: 'Of each topic that is made.' }),
    replicas: Type.Integer({ default: 1, minimum: 1, maximum: 10, description: 'Of each topic that is made.' }),
    reader_principal: Type.Optional(
      Type.String({ description: 'Who may read a tenant’s topics: `User:{tenant}`. Absent: no rights are given.' }),
    ),
    change_topics: Type.Boolean({
      default: false,
      description:
        'Whether the rows that each epoch changes are sent too, masked, to a topic of each product. Needs brokers with logins and an authorizer. Off: such topics are removed.',
    }),
    cleared_principal: Type.Optional(
      Type.String({
        description:
          'Who may read change topics in clear: `User:{tenant}--cleared`, which no tenant can be called. Absent: there are none of products with masked columns.',
      }),
    ),
  },
  { additionalProperties: false, description: 'Where events are carried to. Absent: they stay in the registry.' },
)

export const Events = Type.Object(
  {
    kafka: Type.Optional(Kafka),
  },
  closed,
)

export const OpenLineage = Type.Object(
  {
    url: Type.String({
      pattern: '^https?://[^?#@]+$',
      maxLength: 2_000,
      description: 'Where events are posted, whole: https://marquez.example.com/api/v1/lineage.',
    }),
    api_key: Type.Optional(
      Type.String({ minLength: 1, maxLength: 4_000, description: 'Sent as a bearer token; absent: none is.' }),
    ),
    namespace: Type.String({
      default: 'sluice',
      pattern: '^[A-Za-z0-9:/._-]+$',
      maxLength: 200,
      description: 'What the namespaces of jobs and datasets begin with, before a slash and the tenant.',
    }),
    source_hosts: Type.Boolean({
      default: false,
      description:
        'Whether tables of PostgreSQL and MariaDB are named by host and database, as other producers name them. Off: by the name of the connection.',
    }),
    allow_http: Type.Boolean({ default: false, description: 'Plain HTTP to it, on other hosts than this one.' }),
    keep_hours: Type.Integer({
      default: 168,
      minimum: 1,
      maximum: 8_760,
      description: 'How long what could not be delivered is kept; then it is dropped.',
    }),
    keep_runs: Type.Integer({
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
      description: 'Of how many runs of a tenant it is kept; then the oldest are dropped.',
    }),
  },
  {
    additionalProperties: false,
    description: 'Who is told of the runs of products as OpenLineage events. Absent: nobody is.',
  },
)

export const Webhooks = Type.Object(
  {
    batch_rows: Type.Integer({
      default: 1_000,
      minimum: 1,
      maximum: 100_000,
      description: 'Changed rows of one delivery to a webhook.',
    }),
    batch_kilobytes: Type.Integer({
      default: 512,
      minimum: 1,
      maximum: 16_384,
      description: 'Of one delivery. A webhook whose product has a row that is larger stops there.',
    }),
    timeout_ms: Type.Integer({
      default: 10_000,
      minimum: 100,
      maximum: 30_000,
      description: 'For a receiver to answer in whole.',
    }),
    retry_ms: Type.Integer({
      default: 5_000,
      minimum: 10,
      maximum: 3_600_000,
      description: 'How long a delivery waits after it failed; twice as long after each further time, up to an hour.',
    }),
    attempts: Type.Integer({
      default: 30,
      minimum: 1,
      maximum: 1_000,
      description: 'After so many, or a day, a delivery is a dead letter, and its webhook waits to be told to go on.',
    }),
  },
  closed,
)
