/**
 * The runtime's configuration: one schema, three sources. `sluice.yaml` is overridden by the environment
 * (`SLUICE_PORT`, `SLUICE_AUTH__AUDIENCE`: a double underscore goes one level down), and that by flags
 * (`--port`, `--auth.audience`). Unknown keys are refused with a suggestion.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { parse } from 'yaml'
import { faultWords } from './parsing/schema-words.ts'
import { nearest } from './parsing/suggestion.ts'

/** Of values of a map, too: without a default of their own, typebox leaves theirs out. */
const closed = { additionalProperties: false, default: {} } as const

const every = (minutes: number, what: string) =>
  Type.Integer({
    default: minutes,
    minimum: 0,
    maximum: 10_080,
    description: `Minutes between; 0: never. Then ${what}.`,
  })

/** Scheme, host and, where it is not the scheme's own, port: as browsers send it. */
const Origin = Type.String({ pattern: '^[a-z][a-z0-9+.-]*://[a-z0-9._:\\[\\]-]+$', maxLength: 300 })

/** A dot in it goes one level down. */
const claimOf = (name: string, what: string) =>
  Type.String({ default: name, description: `Claim that holds ${what}; a dot goes one level down.` })

const requests = (aSecond: number, tier: string) =>
  Type.Integer({ default: aSecond, minimum: 1, description: `Requests a second of a tenant of the tier ${tier}.` })

const cpuSeconds = (seconds: number, tier: string) =>
  Type.Integer({
    default: seconds,
    minimum: 0,
    description: `CPU seconds that queries and runs of a tenant of the tier ${tier} have an hour; 0: without limit.`,
  })

const Settings = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What the driver wants to know; see its guide.',
})

const Issuer = Type.Object(
  {
    issuer: Type.String({ description: 'The `iss` of its tokens; discovery is asked below this address.' }),
    audience: Type.String({ description: 'The `aud` that its tokens must have.' }),
    tenants: Type.Optional(
      Type.Array(Type.String(), { description: 'Tenants that it may claim; absent: every tenant.' }),
    ),
    admin: Type.Boolean({ default: false, description: 'Whether its tokens may claim the admin role.' }),
    jwks_uri: Type.Optional(Type.String({ description: 'Where its keys are; absent: discovery says it.' })),
    allow_http: Type.Boolean({ default: false, description: 'Plain HTTP to it, on other hosts than this one.' }),
    claims: Type.Object(
      {
        tenant: claimOf('tenant_id', 'the id of the tenant'),
        groups: claimOf('groups', 'the groups, a list'),
        roles: claimOf('roles', 'the roles, a list; admin is looked for'),
        clearance: claimOf('clearance', 'a level that narrows what its bearer sees'),
        email: claimOf('email', 'the address, for audit and dashboards'),
      },
      closed,
    ),
  },
  { additionalProperties: false },
)

const ServingDriver = Type.Object(
  {
    driver: Type.String({ description: 'Name of a loaded serving plugin of this type.' }),
    settings: Type.Optional(Settings),
  },
  { additionalProperties: false },
)

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

const Programs = Type.Record(
  Type.String(),
  Type.Record(
    Type.String({ pattern: '^[a-z][a-z0-9_-]{0,62}$' }),
    Type.Object(
      {
        command: Type.Array(Type.String({ minLength: 1 }), {
          minItems: 1,
          maxItems: 32,
          description: 'The path of the program, from the root, and words that it is always started with.',
        }),
        arguments: Type.Array(Type.String({ minLength: 1 }), {
          default: [],
          maxItems: 32,
          description: 'Words that come after those of the connector.',
        }),
        folders: Type.Array(Type.String({ minLength: 1 }), {
          maxItems: 32,
          description:
            'What it may read and run besides the system’s libraries: where it is installed. Others must be able to read them.',
        }),
        tenants: Type.Optional(
          Type.Array(Type.String(), { description: 'Whose connections may use it. Default: everybody’s.' }),
        ),
        memory_mb: Type.Integer({
          default: 1024,
          minimum: 64,
          maximum: 65_536,
          description: 'Of all its processes together.',
        }),
      },
      closed,
    ),
    { default: {} },
  ),
  {
    description:
      'Experimental. Programs of others that connectors may start, behind walls: by type of connector, then by the name that connections use.',
  },
)

const OpenLineage = Type.Object(
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

const Dashboards = Type.Object(
  {
    url: Type.String({
      pattern: '^https?://[^?#@]+$',
      description: 'Address of Superset: https://superset.example.com.',
    }),
    public_url: Type.Optional(Type.String({ description: 'The address that people use, where it is another.' })),
    issuer: Type.Optional(
      Type.String({
        description:
          'The `iss` of the issuer that people log in to Superset through: grants of its people are roles there. Needed where several are configured.',
      }),
    ),
    username: Type.String({ description: 'A login of Superset’s own, with the role Admin.' }),
    password: Type.String({ description: 'Of that login.' }),
    database_admin_url: Type.Optional(
      Type.String({
        description: 'A login of the serving database’s server that may make roles. Absent: of the embedded server.',
      }),
    ),
    database_host: Type.Optional(
      Type.String({ description: 'Where Superset finds the serving database; absent: where the runtime does.' }),
    ),
    database_port: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 65_535, description: 'At which port there; absent: as the runtime does.' }),
    ),
    timeout_ms: Type.Integer({ default: 30_000, minimum: 100, description: 'One request to Superset.' }),
  },
  {
    additionalProperties: false,
    description:
      'The server of dashboards. Absent: there is none, and products that want one are deployed without, with a warning.',
  },
)

/** Where buckets are, and the key to them. */
const S3_FIELDS = {
  endpoint: Type.String({ description: 'Address of an S3-compatible store: https://s3.example.com.' }),
  region: Type.String({ default: 'us-east-1', description: 'Of the buckets; requests are signed for it.' }),
  access_key_id: Type.String({ description: 'Of the key that requests are signed with.' }),
  secret_access_key: Type.String({ description: 'The secret of that key.' }),
  session_token: Type.Optional(Type.String({ description: 'Of a key that is lent for a time.' })),
  path_style: Type.Boolean({ default: true, description: 'Buckets in the path, not in the host’s name.' }),
}

/** Letters and figures of a bucket and of folders, as all stores take them. */
const ExportDestination = Type.Object(
  {
    ...S3_FIELDS,
    bucket: Type.String({
      pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
      description: 'It must exist; the key needs to write to it, and no more.',
    }),
    prefix: Type.Optional(
      Type.String({
        maxLength: 200,
        pattern: '^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$',
        description: 'Folders before those of the tenants: exports/sluice. Default: none.',
      }),
    ),
    tenants: Type.Array(Type.String(), { minItems: 1, description: 'Whose exports may go there.' }),
  },
  closed,
)

const OBJECT_STORES = [
  Type.Object(
    { type: Type.Literal('folder', { description: 'In a folder of data_dir.' }) },
    { additionalProperties: false },
  ),
  Type.Object(
    {
      type: Type.Literal('s3', { description: 'In buckets of an S3-compatible store, one a tenant.' }),
      ...S3_FIELDS,
      deadline_ms: Type.Integer({
        default: 120_000,
        minimum: 1000,
        description: 'One operation, retries and all.',
      }),
      attempt_ms: Type.Integer({
        default: 30_000,
        minimum: 100,
        description: 'One attempt; where an object is copied for engines, the time without any bytes.',
      }),
      part_mb: Type.Integer({ default: 16, minimum: 5, maximum: 1024, description: 'Of an upload in parts, each.' }),
      cache_mb: Type.Integer({
        default: 10_240,
        minimum: 64,
        description: 'Copies on this machine for engines.',
      }),
    },
    { additionalProperties: false },
  ),
] as const

export const ConfigSchema = Type.Object(
  {
    data_dir: Type.String({ default: '.sluice', description: 'Folder for everything that is kept.' }),
    secrets_dir: Type.Optional(
      Type.String({
        description:
          'Folder of the keys that seal secrets, sign cursors and, of the embedded issuer, tokens. Runtimes on one registry share it. Default: data_dir.',
      }),
    ),
    host: Type.String({ default: '127.0.0.1', description: 'Address to listen on; 0.0.0.0 is every one.' }),
    port: Type.Integer({
      default: 8080,
      minimum: 0,
      maximum: 65_535,
      description: 'To listen on; 0 picks a free one.',
    }),
    public_url: Type.Optional(Type.String({ description: 'The address that clients use, where it is another.' })),
    trusted_proxies: Type.Integer({
      default: 0,
      minimum: 0,
      maximum: 16,
      description: 'How many proxies in front append to X-Forwarded-For; 0 ignores the header.',
    }),
    log: Type.Object(
      {
        level: Type.Union(
          ['trace', 'debug', 'info', 'warn', 'error', 'silent'].map((level) => Type.Literal(level)),
          { default: 'info', description: 'Lines of this level and above are written.' },
        ),
        pretty: Type.Optional(Type.Boolean({ description: 'Default: on a terminal.' })),
        access: Type.Boolean({
          default: false,
          description: 'A line for each request: who, which route, how it ended; no values of its path, query or body.',
        }),
      },
      closed,
    ),
    database: Type.Object(
      {
        registry_url: Type.Optional(
          Type.String({ description: 'PostgreSQL of the registry; absent: the embedded server.' }),
        ),
        catalog_admin_url: Type.Optional(
          Type.String({
            description: 'A login of the registry’s server that may make roles, for logins of SQL catalogs.',
          }),
        ),
        serving_owner_url: Type.Optional(
          Type.String({
            description: 'Login of the serving database that owns its tables; absent: the embedded server’s.',
          }),
        ),
        serving_writer_url: Type.Optional(
          Type.String({ description: 'Login there that writes rows and owns nothing.' }),
        ),
        serving_reader_url: Type.Optional(
          Type.String({ description: 'Login there that reads rows, under row security, and owns nothing.' }),
        ),
      },
      closed,
    ),
    catalog: Type.Object(
      {
        file_access: Type.Union(
          ['none', 'direct', 'signed'].map((name) => Type.Literal(name)),
          {
            default: 'direct',
            description:
              'How clients of the Iceberg catalog reach files. none: not at all, so that no table is loaded. direct: by their own rights to the folder or bucket. signed: each read of an S3 store is signed by the runtime, for the files of that table; writes go through the runtime.',
          },
        ),
      },
      closed,
    ),
    auth: Type.Object(
      {
        audience: Type.String({ default: 'sluice', description: 'Of the embedded issuer.' }),
        token_ttl_s: Type.Integer({
          default: 3600,
          minimum: 60,
          maximum: 86_400,
          description: 'Of tokens of the embedded issuer that are asked for without a life of their own.',
        }),
        issuers: Type.Array(Issuer, { default: [], description: 'Any entry turns the embedded issuer off.' }),
      },
      closed,
    ),
    cors: Type.Object(
      {
        origins: Type.Array(Type.Union([Type.Literal('*'), Origin]), {
          default: [],
          description: 'Pages that may call for every tenant: https://app.example.com, or * for all there are.',
        }),
        tenants: Type.Record(Type.String(), Type.Array(Origin), {
          default: {},
          description: 'Pages that may call for one tenant, by its id.',
        }),
      },
      closed,
    ),
    plugins: Type.Array(Type.String(), {
      default: [
        '@sluice/lookup/postgresql',
        '@sluice/timeseries/postgresql',
        '@sluice/analytics/duckdb',
        '@sluice/realtime/lmdb',
        '@sluice/connectors/files',
        '@sluice/connectors/mariadb',
        '@sluice/connectors/postgresql',
        '@sluice/connectors/s3-files',
      ],
      description: 'Packages (with a subpath) or paths of plugins.',
    }),
    serving: Type.Record(Type.String(), ServingDriver, {
      default: {
        lookup: { driver: 'postgresql' },
        timeseries: { driver: 'postgresql' },
        analytics: { driver: 'duckdb' },
        realtime: { driver: 'lmdb' },
      },
      description: 'Which store serves endpoints of each type.',
    }),
    network: Type.Object(
      {
        allow: Type.Array(Type.String(), {
          default: [],
          description: 'Private address ranges (CIDR) that connections may go to.',
        }),
        allow_loopback: Type.Optional(Type.Boolean({ description: 'Default: in embedded mode.' })),
        allow_cleartext_passwords: Type.Optional(
          Type.Boolean({ description: 'Passwords without verified TLS. Default: to loopback only.' }),
        ),
      },
      closed,
    ),
    folders: Type.Object(
      {
        allow: Type.Record(Type.String(), Type.Array(Type.String()), {
          default: {},
          description:
            'Folders of this machine, from the root, that connections of a tenant may read under, by its id. Default: none.',
        }),
      },
      closed,
    ),
    programs: Type.Optional(Programs),
    events: Type.Object(
      {
        kafka: Type.Optional(Kafka),
      },
      closed,
    ),
    openlineage: Type.Optional(OpenLineage),
    masking: Type.Object(
      {
        sensitive: Type.Array(Type.String(), { default: [], description: 'Classes masked besides pii.*.' }),
        strategies: Type.Record(
          Type.String(),
          Type.Union(['hash', 'redact', 'partial', 'null', 'omit'].map((name) => Type.Literal(name))),
          {
            default: { 'pii.identifier': 'hash', 'pii.name': 'redact' },
            description:
              'How values of a class are masked; redact where none is named, null where the type has no such form.',
          },
        ),
      },
      closed,
    ),
    stop: Type.Object(
      {
        notice_ms: Type.Integer({
          default: 0,
          minimum: 0,
          maximum: 60_000,
          description: 'How long /readyz says 503 while everything is still answered: for balancers that ask it.',
        }),
        deadline_ms: Type.Integer({
          default: 30_000,
          minimum: 1_000,
          maximum: 600_000,
          description: 'For the whole stop, notice included; give a container some seconds more.',
        }),
      },
      closed,
    ),
    mcp: Type.Object(
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
    ),
    exports: Type.Object(
      {
        destinations: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_-]{0,39}$' }), ExportDestination, {
          default: {},
          additionalProperties: false,
          description: 'Buckets that files of exports are also written to, by the name that an export asks for.',
        }),
        keep_hours: Type.Integer({
          default: 24,
          minimum: 1,
          maximum: 720,
          description: 'How long a file is kept once it is written.',
        }),
        link_seconds: Type.Integer({
          default: 900,
          minimum: 1,
          maximum: 86_400,
          description: 'How long a link to a file is good for. Who asks for the export again gets another.',
        }),
        most: Type.Integer({
          default: 10,
          minimum: 1,
          maximum: 1_000,
          description:
            'Of a tenant at once: those that wait, are written or are kept. One person has half of them at most.',
        }),
        megabytes: Type.Integer({
          default: 16_384,
          minimum: 1,
          description: 'Of one file. One that is larger fails; so does one that the tenant has no room for.',
        }),
        timeout_minutes: Type.Integer({
          default: 60,
          minimum: 1,
          maximum: 1_440,
          description:
            'For writing one file. With fewer than three engine processes also limits.transform_timeout_ms bounds it.',
        }),
      },
      closed,
    ),
    webhooks: Type.Object(
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
          description:
            'How long a delivery waits after it failed; twice as long after each further time, up to an hour.',
        }),
        attempts: Type.Integer({
          default: 30,
          minimum: 1,
          maximum: 1_000,
          description:
            'After so many, or a day, a delivery is a dead letter, and its webhook waits to be told to go on.',
        }),
      },
      closed,
    ),
    wire: Type.Object(
      {
        port: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 65_535,
            description: 'Where clients of PostgreSQL read products by SQL; absent: there is no such door.',
          }),
        ),
        host: Type.String({
          default: '127.0.0.1',
          description: 'At which address. Whoever is not of this machine is let in under TLS only.',
        }),
        cert_file: Type.Optional(Type.String({ description: 'Its certificate (PEM); absent: there is no TLS.' })),
        key_file: Type.Optional(Type.String({ description: 'Its private key (PEM).' })),
        connections: Type.Integer({
          default: 200,
          minimum: 1,
          maximum: 10_000,
          description: 'Connections at once; at 90 % of them the oldest that are not logged in make room.',
        }),
        connections_per_tenant: Type.Integer({
          default: 50,
          minimum: 1,
          maximum: 10_000,
          description: 'Sessions of one tenant at once.',
        }),
        login_ms: Type.Integer({
          default: 10_000,
          minimum: 100,
          maximum: 60_000,
          description: 'Until a client has logged in.',
        }),
        idle_ms: Type.Integer({
          default: 1_800_000,
          minimum: 1_000,
          maximum: 86_400_000,
          description: 'Until the next message of a session, and until a client takes what it is sent.',
        }),
        catalogues: Type.Integer({
          default: 32,
          minimum: 1,
          maximum: 1_000,
          description: 'Different sets of readable tables whose catalogue is kept ready.',
        }),
      },
      closed,
    ),
    limits: Type.Object(
      {
        workers: Type.Integer({
          default: 3,
          minimum: 1,
          maximum: 32,
          description:
            'Runs at once in this process, of ingestions and of materializations each; of two or more places a tenant has one less at most.',
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
    ),
    push: Type.Object(
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
    ),
    object_store: Type.Union([...OBJECT_STORES], {
      default: { type: 'folder' },
      description: 'Where the lake lies: a folder of data_dir, or buckets.',
    }),
    upkeep: Type.Object(
      {
        compact_minutes: every(60, 'small files of the lake are written into larger ones'),
        expire_minutes: every(60, 'snapshots that retention lets go are removed'),
        clean_minutes: every(360, 'files that nothing reaches are removed'),
        prune_minutes: every(15, 'old runs, events and stored answers are removed'),
        compare_minutes: every(60, 'copies in stores are compared with the lake, and written anew where they differ'),
        compare_rows_per_second: Type.Integer({
          default: 20_000,
          minimum: 1,
          maximum: 10_000_000,
          description:
            'Rows at most that a runtime compares in a second. A copy that would take longer than ten minutes is told by its digest and its count of rows.',
        }),
        compare_share: Type.Number({
          default: 0.1,
          exclusiveMinimum: 0,
          maximum: 1,
          description: 'Of a runtime’s time, at most, for such comparisons; it rests after each.',
        }),
        clean_min_age_hours: Type.Integer({ default: 24, minimum: 1, description: 'Younger files are never removed.' }),
        raw_keep_last: Type.Integer({ default: 10, minimum: 1, description: 'Snapshots kept of each raw table.' }),
        raw_keep_days: Type.Integer({
          default: 7,
          minimum: 1,
          description: 'Younger snapshots of raw tables are kept.',
        }),
        run_days: Type.Integer({
          default: 30,
          minimum: 1,
          maximum: 3_650,
          description:
            'Runs that ended longer ago are removed, with their logs and progress, and so are materializations that checks kept from being published. Epochs that the lake has nothing more of go by the same age and number. Of each connection and product the 20 newest stay, and those that something still rests on.',
        }),
        run_most: Type.Integer({
          default: 500,
          minimum: 20,
          maximum: 100_000,
          description:
            'Runs that are kept of each connection and of each product, however young; those that ended within the hour stay.',
        }),
        max_retained_bytes: Type.Integer({
          default: 4 * 1024 ** 3,
          minimum: 1024 ** 2,
          maximum: Number.MAX_SAFE_INTEGER,
          description:
            'What a source without a limit of its own may keep for us of its log. Beyond that the log is given up, and its tables are read whole by the next run.',
        }),
        quarantine_days: Type.Integer({
          default: 30,
          minimum: 1,
          description: 'Rows that could not be carried are listed so long, unless they are read again before.',
        }),
      },
      closed,
    ),
    trino: Type.Object(
      {
        policy_host: Type.String({ default: '127.0.0.1', description: 'Where Trino reaches its policy endpoint.' }),
        policy_port: Type.Integer({ default: 8181, minimum: 0, maximum: 65_535, description: 'At which port there.' }),
        policy_cert_file: Type.Optional(
          Type.String({ description: 'Certificate of the policy endpoint (PEM); absent: there is no such endpoint.' }),
        ),
        policy_key_file: Type.Optional(Type.String({ description: 'Its private key (PEM).' })),
        policy_client_ca_file: Type.Optional(
          Type.String({ description: 'What signed the certificates of those who may ask (PEM).' }),
        ),
        issuer: Type.Optional(
          Type.String({
            description:
              'The `iss` of the tokens that Trino accepts: its users may be what this issuer may claim. Needed where several are configured.',
          }),
        ),
      },
      closed,
    ),
    compute: Type.Object(
      {
        trino: Type.Optional(
          Type.Object(
            {
              url: Type.String({
                pattern: '^https?://[^/?#@]+$',
                description: 'Of the coordinator: https://trino:8443.',
              }),
              token_file: Type.Optional(
                Type.String({ description: 'A token that may make catalogs; read anew for every statement.' }),
              ),
              user: Type.Optional(Type.String({ description: 'Where Trino asks for no token.' })),
              ca_file: Type.Optional(
                Type.String({ description: 'What signed Trino’s certificate (PEM), where it is no public authority.' }),
              ),
              catalog: Type.Record(Type.String(), Type.String(), {
                description:
                  'Properties of every tenant’s catalog of the iceberg connector; {tenant} stands for the tenant.',
              }),
            },
            {
              additionalProperties: false,
              description:
                'Runs the transforms of products with engine: distributed. Absent: the Trino that serves analytics, or else none.',
            },
          ),
        ),
      },
      closed,
    ),
    dashboards: Type.Optional(Dashboards),
    metrics_token: Type.Optional(Type.String({ description: 'Bearer token for /metrics besides the admin role.' })),
    certificates: Type.Object(
      {
        folder: Type.Optional(
          Type.String({ description: 'Certificates of plugins, besides those in their own packages.' }),
        ),
        trusted_keys: Type.Array(Type.String(), {
          default: [],
          description: 'Public keys whose certificates count, as sluice-conformance prints them.',
        }),
        min_level: Type.Optional(
          Type.Union([Type.Literal('core'), Type.Literal('full'), Type.Literal('hard')], {
            description: 'Certificates of a lower level do not count. Absent: those of every level do.',
          }),
        ),
        max_age: Type.Optional(
          Type.String({
            pattern: '^[1-9]\\d{0,3}d$',
            description:
              'In days, 365d: certificates that are older when the runtime starts do not count. Absent: certificates do not age. Built-in plugins have none, and do not either.',
          }),
        ),
      },
      closed,
    ),
    walls: Type.Union([Type.Literal('required'), Type.Literal('not_required')], {
      default: 'required',
      description:
        'Where the kernel lacks Landlock or seccomp, a runtime takes one tenant and listens on this machine only. not_required: it does not, and all tenants have to trust each other.',
    }),
    allow_unproved: Type.Boolean({
      default: false,
      description: 'Switches on what no certificate proves. For development.',
    }),
  },
  closed,
)

export type ExportDestinationConfig = Static<typeof ExportDestination>
export type Config = Static<typeof ConfigSchema> & { readonly secrets_dir: string }
export type IssuerConfig = Static<typeof Issuer>
export type MaskStrategy = 'hash' | 'redact' | 'partial' | 'null' | 'omit'

export interface ConfigSources {
  /** Path of a sluice.yaml; must exist when it was named, may be absent when it is the default. */
  readonly file?: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly flags: Readonly<Record<string, string>>
}

/** Environment names that belong to tests and tools and are no configuration. */
const RESERVED_ENVIRONMENT = /^SLUICE_(TEST|ACCEPTANCE|BENCH|CRASH|FAULT|CONFIG|TOKEN|URL|TENANT)(_|$)/

/** Throws CONFIG `invalid_config` that names every problem at once. */
export function loadConfig(sources: ConfigSources): Config {
  const raw: Record<string, unknown> = sources.file ? readConfigFile(sources.file) : {}
  for (const { path, text } of overridesOf(sources)) assign(raw, path, text)
  const resolved = resolveReferences(raw, sources.environment)
  const schema = schemaFor(resolved)
  const value = Value.Default(schema, Value.Convert(schema, resolved))
  if (!Value.Check(schema, value)) throw invalidConfig(describeProblems(schema, value))
  const dataDir = resolve(value.data_dir)
  return { ...value, data_dir: dataDir, secrets_dir: resolve(value.secrets_dir ?? dataDir) }
}

interface Override {
  readonly path: readonly string[]
  readonly text: string
  /** As whoever set it knows it: `SLUICE_PORT`, `--port`. */
  readonly name: string
}

/** What stands over the file, the strongest last. */
function overridesOf({ environment, flags }: ConfigSources): readonly Override[] {
  const overrides: Override[] = []
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('SLUICE_') || text === undefined || RESERVED_ENVIRONMENT.test(name)) continue
    overrides.push({ path: name.slice('SLUICE_'.length).toLowerCase().split('__'), text, name })
  }
  for (const [flag, text] of Object.entries(flags)) {
    overrides.push({ path: flag.replaceAll('-', '_').split('.'), text, name: `--${flag}` })
  }
  return overrides
}

/** The variable that sets the value at a path; null inside a list, which is set as a whole. */
export function variableOf(path: readonly string[]): string | null {
  if (path.some((key) => key.endsWith('[]'))) return null
  return `SLUICE_${path.join('__').toUpperCase()}`
}

/**
 * Where the value at that path comes from, as whoever set it knows it; null: it is the default. Of a map or list it is
 * what set any part of it last.
 */
export function originOf(sources: ConfigSources, path: readonly string[]): string | null {
  const isOf = (other: readonly string[]) => path.every((key, index) => (other[index] ?? key) === key)
  const override = overridesOf(sources).findLast((one) => isOf(one.path))
  if (override !== undefined) return override.name
  let node: unknown = sources.file === undefined ? undefined : readConfigFile(sources.file)
  for (const key of path) node = isMap(node) && Object.hasOwn(node, key) ? node[key] : undefined
  if (node === undefined) return null
  const isReference = typeof node === 'string' && /^\$\{(env|file):[^}]+\}$/.test(node)
  return isReference ? `${sources.file}, as ${node}` : (sources.file as string)
}

function isMap(node: unknown): node is Readonly<Record<string, unknown>> {
  return typeof node === 'object' && node !== null && !Array.isArray(node)
}

/**
 * With the one kind of object store that is named: by a union nothing is converted, and of a mistake it says no more than
 * that no kind fits.
 */
function schemaFor(value: unknown): typeof ConfigSchema {
  const { type: named } = (value as { object_store?: { type?: unknown } }).object_store ?? {}
  const chosen = OBJECT_STORES.find(({ properties }) => properties.type.const === named)
  if (chosen === undefined) return ConfigSchema
  const narrowed: TSchema = Type.Object({ ...ConfigSchema.properties, object_store: chosen }, closed)
  return narrowed as typeof ConfigSchema
}

const WHY_UNREAD: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  EACCES: 'may not be read by this account',
  EISDIR: 'is a folder',
}

/** Where the parser stopped. Not what it says of that: it repeats the line, which may hold a secret. */
function placeOf(cause: unknown): string {
  const [start] =
    (cause as { readonly linePos?: readonly { readonly line: number; readonly col: number }[] }).linePos ?? []
  return start === undefined ? '' : `: line ${start.line}, column ${start.col}`
}

function readConfigFile(file: string): Record<string, unknown> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    const reason = WHY_UNREAD[(cause as NodeJS.ErrnoException).code ?? ''] ?? 'cannot be read'
    throw invalidConfig([`${file} ${reason}`], cause)
  }
  let parsed: unknown
  try {
    parsed = parse(text, { schema: 'core', maxAliasCount: 0, uniqueKeys: true })
  } catch (cause) {
    throw invalidConfig([`${file} cannot be read as YAML${placeOf(cause)}`], cause)
  }
  if (parsed === null || parsed === undefined) return {}
  if (typeof parsed !== 'object' || Array.isArray(parsed)) throw invalidConfig([`${file} must hold a map`])
  return parsed as Record<string, unknown>
}

function assign(target: Record<string, unknown>, path: readonly string[], text: string): void {
  let node = target
  for (const key of path.slice(0, -1)) {
    const next = Object.hasOwn(node, key) ? node[key] : undefined
    const child = typeof next === 'object' && next !== null ? (next as Record<string, unknown>) : {}
    node[key] = child
    node = child
  }
  const schema = schemaAt(path)
  node[path.at(-1) as string] = schema?.type === 'array' ? text.split(',').filter(Boolean) : text
}

function schemaAt(path: readonly string[], whole: TSchema = ConfigSchema): { readonly type?: string } | undefined {
  let schema: unknown = whole
  for (const key of path) {
    const { properties, patternProperties } = (schema ?? {}) as Record<string, Record<string, TSchema> | undefined>
    const named = Object.entries(patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(key))
    schema = properties?.[key] ?? named?.[1]
  }
  return schema as { readonly type?: string } | undefined
}

/** `${env:NAME}` and `${file:PATH}` anywhere in a text, so that no secret stands in the file. */
function resolveReferences(value: unknown, environment: ConfigSources['environment']): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{(env|file):([^}]+)\}/g, (_, kind: string, name: string) => {
      const found = kind === 'env' ? environment[name] : readSecretFile(name)
      if (found === undefined) throw invalidConfig([`the ${kind} reference "${name}" names nothing`])
      return found
    })
  }
  if (Array.isArray(value)) return value.map((item) => resolveReferences(item, environment))
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolveReferences(item, environment)]))
  }
  return value
}

function readSecretFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trimEnd()
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw invalidConfig([`the file "${path}" of a reference ${WHY_UNREAD[code] ?? 'cannot be read'}`], cause)
  }
}

function describeProblems(schema: TSchema, value: unknown): string[] {
  const problems: string[] = []
  for (const error of Value.Errors(schema, value)) {
    const path = error.instancePath.slice(1).replaceAll('/', '.') || 'the configuration'
    if (error.keyword === 'boolean') problems.push(`${path} is not known${suggestion(schema, path)}`)
    else if (error.keyword !== 'additionalProperties') problems.push(`${path} ${faultWords(error, schema)}`)
  }
  return problems
}

function suggestion(schema: TSchema, path: string): string {
  const parts = path.split('.')
  const last = parts.pop() as string
  const siblings = Object.keys((schemaAt(parts, schema) as { properties?: object } | undefined)?.properties ?? {})
  const close =
    nearest(last, siblings) ?? siblings.find((name) => name.startsWith(last.slice(0, 3)) || last.includes(name))
  return close ? `; did you mean ${[...parts, close].join('.')}?` : `; known here: ${siblings.join(', ')}`
}

function invalidConfig(problems: readonly string[], cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `the configuration is not valid: ${problems.join('; ')}`, {
    code: 'invalid_config',
    remedy: 'Correct sluice.yaml, the SLUICE_ environment variables or the flags named.',
    cause,
  })
}

/** The configuration as it may be shown: everything that could hold a secret is hidden. */
export function redactedConfig(config: Config): unknown {
  return JSON.parse(JSON.stringify(config), (key, value) => {
    if (value === null || value === undefined) return value
    if (/(_url|token|password|secret|key)$/.test(key) && key !== 'public_url') return '********'
    return key === 'settings' ? '********' : value
  })
}
