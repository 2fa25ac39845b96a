import type { ServerKind } from './server.ts'

/** A file of `stack/servers`, whose default export it is. */
export type ServerName =
  | 'airbyte'
  | 'cassandra'
  | 'dashboards'
  | 'fastavro'
  | 'governed-trino'
  | 'iceberg-readers'
  | 'kafka'
  | 'keycloak'
  | 'mariadb'
  | 'minio'
  | 'openlineage-reader'
  | 'postgres'
  | 'postgresql-clients'
  | 'redis'
  | 'redis-cluster'
  | 'runtime'
  | 'runtimes'
  | 'schema-registry'
  | 'timescaledb'
  | 'trino'
  | 'valkey'
  | 'versitygw'
  | 'webdav'

/** Tests that run together, with the servers that they need. A server runs only while its suite does. */
export interface Suite {
  readonly name: string
  readonly servers: readonly ServerName[]
  /** Globs of test files, from the repository's root. */
  readonly tests: readonly string[]
  /** Besides the servers' addresses. */
  readonly env?: Readonly<Record<string, string>>
  /** On two processors, three suites side by side, with nothing to install; what it took the last time counts for more. */
  readonly expectedSeconds: number
  /** Runs even where nothing that it rests on has changed. */
  readonly isAlwaysRun?: boolean
  /** Servers that its tests start themselves. */
  readonly startedByTests?: readonly ServerName[]
  /** Programs of the machine that its tests run; another version of one is a change. */
  readonly programs?: readonly string[]
}

/** Loaded by name, so that a change of one server is a change of those suites alone that use it. */
export async function loadServer(name: ServerName): Promise<ServerKind> {
  return ((await import(`./servers/${name}.ts`)) as { readonly default: ServerKind }).default
}

/**
 * For whoever changes such a plugin: some of what the suite `conformance` asks of it, with every check of a longer level, by the
 * conformance.stack.test.ts beside it.
 */
export const QUICK_CONFORMANCE = 'plugins/**/conformance.int.test.ts'

export const SUITES: readonly Suite[] = [
  {
    name: 'crash',
    servers: [],
    // A runtime that is killed, and one whose lake, stores or issuers fail; and commits that end at each of their steps.
    tests: [
      'test/crash/*.test.ts',
      'test/*.int.test.ts',
      'test/stores/*.int.test.ts',
      'runtime/src/lake/*.stack.test.ts',
    ],
    env: { SLUICE_CRASH_KILLS: '8' },
    expectedSeconds: 600,
    isAlwaysRun: true,
  },
  // What needs nothing but npm, and is too long for `npm test`: each file costs as much as a hundred others.
  {
    name: 'long',
    servers: ['postgres'],
    tests: [
      'engine/src/{engine,grounds,kept-child}.int.test.ts',
      'runtime/src/ingestion/{apply-log,run-ingestion}.int.test.ts',
      'runtime/src/materializer/{changed-rows,merge,touched-keys}.int.test.ts',
      'plugins/{lookup,timeseries}/postgresql/reads.stack.test.ts',
      'plugins/lookup/postgresql/moves.stack.test.ts',
    ],
    expectedSeconds: 200,
    isAlwaysRun: true,
  },
  // Each plugin against its own database, and by what the conformance suite asks of it. A change of the runtime is none of
  // theirs: they rest on the plugins, the SDK and the conformance suite.
  {
    name: 'plugins',
    servers: ['postgres'],
    tests: [
      'plugins/**/!(conformance).int.test.ts',
      'plugins/connectors/files/conformance.int.test.ts',
      'examples/plugins/**/*.int.test.ts',
    ],
    expectedSeconds: 400,
  },
  // Tables are written and read back through the engine; neither knows a tenant or a registry.
  { name: 'iceberg', servers: [], tests: ['iceberg/**/*.int.test.ts'], expectedSeconds: 150 },
  {
    name: 'conformance',
    servers: [],
    tests: [
      'conformance-tests/*.stack.test.ts',
      'plugins/**/{postgresql,lmdb,duckdb}/conformance.stack.test.ts',
      'examples/plugins/text-search/*.stack.test.ts',
    ],
    // The certificates in docs/certificates are of 5,000.
    env: { SLUICE_CONFORMANCE_SCHEDULES: '100' },
    expectedSeconds: 350,
  },
  // Others' statements are quicker on a Trino that has been running for a while; this suite starts no runtime.
  {
    name: 'trino-store',
    servers: ['postgres', 'trino'],
    tests: ['stack/trino/{store,conformance}.stack.test.ts'],
    expectedSeconds: 1200,
  },
  {
    name: 'python-compute',
    servers: ['iceberg-readers'],
    tests: ['examples/plugins/python-compute/*.stack.test.ts'],
    expectedSeconds: 30,
  },
  // All that a plain Trino is needed for beside a runtime.
  {
    name: 'trino',
    servers: ['postgres', 'redis', 'versitygw', 'iceberg-readers', 'trino'],
    tests: ['stack/catalog/trino.stack.test.ts', 'stack/{distributed,parity,readers}/*.stack.test.ts'],
    expectedSeconds: 490,
  },
  { name: 'housekeeping', servers: [], tests: ['test/housekeeping.stack.test.ts'], expectedSeconds: 140 },
  // What befalls a runtime between two starts: lost copies and changed ones, other releases, mistakes of who runs it; a new user's first steps.
  {
    name: 'operators',
    // PyIceberg, which the live demo reads with where it is.
    servers: ['iceberg-readers'],
    startedByTests: ['valkey', 'versitygw'],
    tests: [
      'test/!(continuous|default-modes|erased-rows|erased-sources|housekeeping|kept-modes|lake-away|large-product|live-source|postgresql-log|pushed-rows|replayed-rows|s3-files-walls|schema-contracts|slow-products|slow-waves).stack.test.ts',
      'runtime/src/materializer/*.stack.test.ts',
    ],
    // The README's commands, as a new user types them.
    programs: ['bash', 'curl', 'psql'],
    expectedSeconds: 450,
  },
  // Sources that are read by their log, under writers and kills.
  {
    name: 'logs',
    servers: [],
    startedByTests: ['versitygw'],
    tests: [
      'test/{continuous,default-modes,kept-modes,lake-away,large-product,live-source,postgresql-log}.stack.test.ts',
      'runtime/src/ingestion/*.stack.test.ts',
      'plugins/connectors/postgresql/log/*.stack.test.ts',
    ],
    expectedSeconds: 800,
  },
  // Tables that change their shape under products with contracts.
  { name: 'contracts', servers: [], tests: ['test/schema-contracts.stack.test.ts'], expectedSeconds: 250 },
  // Clients of PostgreSQL at a runtime that is started with that door open.
  {
    name: 'wire',
    servers: ['postgresql-clients'],
    tests: ['stack/wire/*.stack.test.ts'],
    programs: ['psql', 'openssl'],
    expectedSeconds: 560,
  },
  // Events of OpenLineage, as its own classes read them; a runtime that is killed, and an endpoint that is away.
  {
    name: 'openlineage',
    servers: ['openlineage-reader'],
    tests: ['stack/lineage/*.stack.test.ts'],
    expectedSeconds: 90,
  },
  // Rows that are pushed, under kills; slow products of them, for which nobody waits.
  {
    name: 'pushed',
    servers: [],
    tests: ['test/{pushed-rows,slow-products,slow-waves}.stack.test.ts'],
    expectedSeconds: 320,
  },
  // Changes that are delivered to webhooks, under kills.
  { name: 'webhooks', servers: [], tests: ['acceptance/webhooks.stack.test.ts'], expectedSeconds: 180 },
  // Rows are erased under kills, and by every way that they come, and looked for in all that is stored.
  {
    name: 'erased',
    servers: [],
    startedByTests: ['versitygw'],
    tests: ['test/erased-{rows,sources}.stack.test.ts'],
    expectedSeconds: 450,
  },
  // Rows that were put aside and are tried again, under kills.
  { name: 'replayed', servers: [], tests: ['test/replayed-rows.stack.test.ts'], expectedSeconds: 200 },
  // The connector for MariaDB on a server, and what one that means ill can do to a runtime.
  {
    name: 'mariadb',
    servers: ['mariadb'],
    tests: [
      'plugins/connectors/mariadb/*.stack.test.ts',
      'stack/sources/mariadb.stack.test.ts',
      'test/stores/hostile-mariadb.stack.test.ts',
    ],
    expectedSeconds: 150,
  },
  // Connectors of Airbyte's protocol as programs of others: real ones, and one that means ill.
  {
    name: 'airbyte',
    servers: ['airbyte'],
    tests: ['plugins/connectors/airbyte/*.stack.test.ts', 'stack/sources/airbyte*.stack.test.ts'],
    programs: ['python3', 'unshare'],
    expectedSeconds: 240,
  },
  {
    name: 'cassandra',
    servers: ['cassandra'],
    tests: ['examples/plugins/cassandra/**/*.stack.test.ts'],
    expectedSeconds: 120,
  },
  {
    name: 'packages',
    servers: [],
    tests: ['test/packages/**/*.stack.test.ts'],
    programs: ['npm', 'git'],
    expectedSeconds: 150,
  },
  // Requests that are made up, and the tests of acceptance/ that take longest. The others are a suite
  // of their own; those that go through stores run on the full stack, too.
  {
    name: 'acceptance',
    servers: ['runtime'],
    tests: [
      'acceptance/!(apply-command|command|dbt-import|dev-command|expectations|exports|exports-interrupted|generated-clients|lineage|new-versions|non-interference|preview|product-init|product-openapi|products-of-products|python-client|raised-classes|readers|rights|schemathesis|staged-preview|stricter-masks|training-sets|webhooks).stack.test.ts',
    ],
    expectedSeconds: 900,
    isAlwaysRun: true,
  },
  // Each door with each caller: runtimes of their own, since addresses have a rate, too.
  {
    name: 'acceptance-doors',
    servers: [],
    tests: ['acceptance/!(*.stack).test.ts'],
    expectedSeconds: 90,
    isAlwaysRun: true,
  },
  // Runtimes with a configuration of their own, and those that are killed.
  {
    name: 'acceptance-limits',
    servers: [],
    tests: [
      'acceptance/{expectations,exports,exports-interrupted,new-versions,staged-preview,stricter-masks,training-sets}.stack.test.ts',
    ],
    expectedSeconds: 600,
    isAlwaysRun: true,
  },
  // What programs of others are given: the document of a product, and the library for Python, each with a runtime of its own.
  {
    name: 'clients',
    servers: [],
    tests: ['acceptance/{product-openapi,python-client}.stack.test.ts'],
    programs: ['python3', 'openssl'],
    expectedSeconds: 330,
  },
  // How products are written, planned, applied as a folder, made of each other, and explained.
  {
    name: 'authoring',
    servers: ['runtime'],
    tests: [
      'acceptance/{apply-command,command,dbt-import,dev-command,lineage,product-init,products-of-products}.stack.test.ts',
    ],
    expectedSeconds: 760,
  },
  // Who sees what, by every door, and what requests that are made up get.
  {
    name: 'acceptance-rights',
    servers: ['runtime'],
    tests: [
      'acceptance/{generated-clients,non-interference,preview,raised-classes,readers,rights,schemathesis}.stack.test.ts',
    ],
    programs: ['python3'],
    expectedSeconds: 620,
    isAlwaysRun: true,
  },
  // How the lake meets a network that spoils requests; what it does on the store that is deployed is MinIO's suite.
  {
    name: 'object-store',
    servers: ['versitygw'],
    tests: [
      'plugins/object-store/s3/*.stack.test.ts',
      'stack/object-store/network.stack.test.ts',
      'plugins/connectors/s3-files/*.stack.test.ts',
      'runtime/src/operations/exports/*.stack.test.ts',
      'test/s3-files-walls.stack.test.ts',
    ],
    expectedSeconds: 42,
  },
  // One that the runtime does not bring: the contract, and a whole runtime's lake in it.
  {
    name: 'other-object-store',
    servers: ['webdav'],
    tests: ['examples/plugins/webdav/*.stack.test.ts', 'stack/object-store/other-store.stack.test.ts'],
    programs: ['tar'],
    expectedSeconds: 45,
  },
  // The gateway that is deployed, before the servers of two runtimes that are started anew all the time.
  {
    name: 'gateway',
    servers: [],
    tests: ['stack/gateway/*.stack.test.ts'],
    expectedSeconds: 45,
  },
  {
    name: 'catalog',
    servers: ['iceberg-readers'],
    tests: ['stack/catalog/{catalog,position-deletes}.stack.test.ts'],
    expectedSeconds: 80,
  },
  {
    name: 'kafka',
    servers: ['kafka'],
    tests: ['runtime/src/events/*.stack.test.ts', 'stack/changes/*.stack.test.ts'],
    expectedSeconds: 250,
  },
  // An event bus that is none of the runtime's: on its server, and installed beside a runtime that it carries events for.
  {
    name: 'redis-streams',
    servers: ['redis'],
    tests: ['examples/plugins/redis-streams/*.stack.test.ts', 'stack/streams/*.stack.test.ts'],
    programs: ['npm', 'tar'],
    expectedSeconds: 40,
  },
  // The connector for Kafka on a server, products over topics while readers and the runtime are killed, and values of Avro by a registry.
  {
    name: 'kafka-source',
    servers: ['kafka', 'schema-registry', 'fastavro'],
    tests: [
      'plugins/connectors/kafka/*.stack.test.ts',
      'stack/sources/kafka.stack.test.ts',
      'stack/sources/avro-*.stack.test.ts',
    ],
    expectedSeconds: 180,
  },
  { name: 'identity', servers: ['keycloak'], tests: ['stack/identity/*.stack.test.ts'], expectedSeconds: 60 },
  // The store's own tests on the oldest server that is supported; what every store promises on the one that is deployed,
  // and on a cluster.
  { name: 'redis', servers: ['redis'], tests: ['plugins/realtime/redis/store.stack.test.ts'], expectedSeconds: 4 },
  {
    name: 'redis-cluster',
    servers: ['redis-cluster'],
    tests: ['plugins/realtime/redis/conformance.stack.test.ts'],
    expectedSeconds: 35,
  },
  {
    name: 'valkey',
    servers: ['valkey'],
    tests: ['plugins/realtime/redis/conformance.stack.test.ts'],
    expectedSeconds: 8,
  },
  { name: 'dashboards', servers: ['dashboards'], tests: ['stack/dashboards/*.stack.test.ts'], expectedSeconds: 80 },
  {
    name: 'trino-policy',
    servers: ['governed-trino'],
    tests: ['stack/trino/policy.stack.test.ts'],
    expectedSeconds: 60,
  },
  // What reads and writes through stores, or asks of one runtime what another was told; the command and the checks are
  // the same on any store, and the suite `acceptance` has them.
  {
    name: 'acceptance-full-stack',
    servers: ['runtimes'],
    tests: [
      'acceptance/*.int.test.ts',
      'acceptance/{edge,histories,isolation,past-policy,source-changes,sources,versions}.stack.test.ts',
    ],
    expectedSeconds: 590,
  },
  {
    name: 'timescaledb',
    servers: ['timescaledb'],
    tests: ['plugins/timeseries/timescaledb/*.stack.test.ts'],
    expectedSeconds: 2,
  },
  {
    name: 'minio',
    servers: ['minio', 'iceberg-readers'],
    tests: [
      'stack/object-store/{lake,least-privilege}.stack.test.ts',
      'plugins/object-store/s3/contract.stack.test.ts',
      'stack/catalog/signed.stack.test.ts',
    ],
    expectedSeconds: 90,
  },
  {
    name: 'several-runtimes',
    servers: ['postgres', 'redis', 'versitygw'],
    tests: ['stack/several/*.stack.test.ts'],
    expectedSeconds: 36,
  },
  {
    name: 'chaos',
    servers: [],
    startedByTests: ['redis', 'versitygw', 'kafka', 'trino'],
    tests: ['stack/chaos/*.stack.test.ts'],
    expectedSeconds: 1100,
  },
]
