/** Who is told of what happens, besides those who ask. */
import { type TUnsafe, Type } from 'typebox'
import { closed } from './closed.ts'
import { type Settings, serviceByName } from './services.ts'

/** By the name of the bus its settings; one at most. */
export const eventsOf = (takesOthers: boolean) =>
  serviceByName('event-bus', takesOthers) as TUnsafe<Readonly<Record<string, Settings>>>

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
