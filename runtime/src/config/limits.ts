/** What anybody gets of the runtime, and how fast. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

const requests = (aSecond: number, tier: string) =>
  Type.Integer({ default: aSecond, minimum: 1, description: `Requests a second of a tenant of the tier ${tier}.` })

const cpuSeconds = (seconds: number, tier: string) =>
  Type.Integer({
    default: seconds,
    minimum: 0,
    description: `CPU seconds that queries and runs of a tenant of the tier ${tier} have an hour; 0: without limit.`,
  })

export const Limits = Type.Object(
  {
    workers: Type.Integer({
      default: 3,
      minimum: 1,
      maximum: 32,
      description:
        'Runs at once in this process, of ingestions and of materializations each; of two or more places a tenant has one less at most. Processes that serve HTTP are http.processes.',
    }),
    preview_days: Type.Integer({
      default: 7,
      minimum: 1,
      maximum: 365,
      description:
        'How long a version is served beside the one in service (`stage: preview`) before it ends by itself.',
    }),
    engine_processes: Type.Integer({
      default: 3,
      minimum: 1,
      maximum: 64,
      description:
        'Engine jobs at once; a tenant, or the runtime itself, has one less at most. Exports of all tenants have two less at most, four at most, and one at least.',
    }),
    query_cache_mb: Type.Integer({
      default: 64,
      minimum: 0,
      maximum: 16_384,
      description: 'Memory for answers of statements, given again while their tables are the same. 0 keeps none.',
    }),
    cpu_seconds: Type.Object(
      {
        free: cpuSeconds(3_600, 'free'),
        standard: cpuSeconds(14_400, 'standard'),
        enterprise: cpuSeconds(57_600, 'enterprise'),
      },
      closed,
    ),
    query_memory_mb: Type.Integer({ default: 512, minimum: 64, description: 'Of one query.' }),
    query_timeout_ms: Type.Integer({
      default: 30_000,
      minimum: 100,
      description: 'Of one query, whatever it asks for itself.',
    }),
    query_rows: Type.Integer({
      default: 100_000,
      minimum: 1,
      description: 'Of an answer as JSON, which says that it was cut (truncated).',
    }),
    export_rows: Type.Integer({
      default: 10_000_000,
      minimum: 1,
      description: 'Of an answer as CSV, NDJSON or parquet. One with more rows fails; it is never cut.',
    }),
    transform_memory_mb: Type.Integer({ default: 512, minimum: 128, description: 'Of one transform.' }),
    transform_timeout_ms: Type.Integer({ default: 900_000, minimum: 1000, description: 'Of one transform.' }),
    source_memory_mb: Type.Integer({
      default: 512,
      minimum: 64,
      description: 'Of the process that reads one connection.',
    }),
    source_call_timeout_ms: Type.Integer({
      default: 120_000,
      minimum: 1000,
      description: 'One test of a connection, or one page of its tables.',
    }),
    source_read_timeout_ms: Type.Integer({
      default: 86_400_000,
      minimum: 1000,
      description: 'Reading one table, whatever the connection allows.',
    }),
    source_silence_ms: Type.Integer({
      default: 30_000,
      minimum: 2000,
      description: 'How long a process that reads a source may be busy with what was sent to it at once.',
    }),
    lease_ms: Type.Integer({
      default: 30_000,
      minimum: 1000,
      description: 'After a worker has died, how long until another takes its run up.',
    }),
    schedule_interval_ms: Type.Integer({
      default: 60_000,
      minimum: 1000,
      description: 'The least between two runs of a schedule.',
    }),
    followed_connections: Type.Integer({
      default: 16,
      minimum: 1,
      maximum: 1_000,
      description:
        'Of a runtime: connections with a continuous schedule whose sources it waits at, by a process each; more take turns.',
    }),
    connections: Type.Integer({
      default: 10_000,
      minimum: 10,
      description: 'At once. From nine tenths on, the oldest without a valid token make room for new ones.',
    }),
    connections_per_address: Type.Integer({
      default: 1_000,
      minimum: 1,
      description: 'At once, of one address or one /64 of IPv6. Behind trusted_proxies theirs are not counted.',
    }),
    event_streams: Type.Integer({
      default: 5,
      minimum: 1,
      description: 'Streams of events at once of one subject; a tenant has half of its requests for them.',
    }),
    change_spool_mb: Type.Integer({
      default: 4_096,
      minimum: 1,
      maximum: 1_048_576,
      description:
        'Of the data folder, for differences that followers of changes are sent. Others make room; one that is larger is not sent.',
    }),
    rate: Type.Object(
      {
        free: requests(10, 'free'),
        standard: requests(50, 'standard'),
        enterprise: requests(500, 'enterprise'),
        address: Type.Integer({
          default: 10,
          minimum: 1,
          description: 'Without a verified token, by address; its burst is four times that.',
        }),
        burst: Type.Number({ default: 2, minimum: 1, description: 'Of a tier, in seconds of its rate.' }),
      },
      closed,
    ),
  },
  closed,
)

export const Push = Type.Object(
  {
    rows: Type.Integer({
      default: 1_000_000,
      minimum: 1,
      description: 'Rows that were pushed to a connection and that no run has taken yet; more are answered 429.',
    }),
    bytes: Type.Integer({
      default: 256 * 1024 ** 2,
      minimum: 1024,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Bytes of them that a connection may have in the registry.',
    }),
    keys: Type.Integer({
      default: 1_000_000,
      minimum: 1,
      description: 'Idempotency keys that are kept of a connection; more are answered 429.',
    }),
    key_hours: Type.Integer({
      default: 24,
      minimum: 1,
      maximum: 720,
      description: 'How long a request with an idempotency key is answered as it was the first time.',
    }),
    sync_after_ms: Type.Integer({
      default: 10_000,
      minimum: 100,
      maximum: 86_400_000,
      description: 'After rows came, how long until a run takes them.',
    }),
  },
  { ...closed, description: 'Rows that are pushed to connections of the type push.' },
)

export const LogSpool = Type.Object(
  {
    bytes: Type.Integer({
      default: 1024 ** 3,
      minimum: 1024,
      maximum: Number.MAX_SAFE_INTEGER,
      description:
        'Bytes of a connection’s log that are kept in the registry, compressed; beyond that its source keeps it, as upkeep.max_retained_bytes lets it.',
    }),
    all_bytes: Type.Integer({
      default: 4 * 1024 ** 3,
      minimum: 1024,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Of all connections together.',
    }),
  },
  { ...closed, description: 'Logs of sources that are taken up while the lake cannot be written.' },
)

export const Mcp = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'Whether agents are served at /mcp.' }),
    rows_per_day: Type.Integer({
      default: 20_000,
      minimum: 0,
      description: 'Rows that agents get a day (of UTC) for one principal through one client.',
    }),
    kilobytes_per_day: Type.Integer({
      default: 10_000,
      minimum: 0,
      description: 'Kilobytes of answers that they get so.',
    }),
    engine_seconds_per_day: Type.Integer({
      default: 1_800,
      minimum: 0,
      description: 'Seconds that statements of theirs take so.',
    }),
  },
  closed,
)
