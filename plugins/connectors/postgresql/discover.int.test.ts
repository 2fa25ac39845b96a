import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Connector, type DiscoveredTable, isSluiceError } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings } from './settings.ts'
import { gather, sourceHost } from './source-host.ts'
import { type SourceServer, startSource } from './source-server.ts'

const signal = new AbortController().signal
let source: SourceServer

before(async () => {
  source = await startSource()
  const { user } = source.settings
  await source.sql(`CREATE SCHEMA "Sales"; CREATE SCHEMA hidden; GRANT USAGE ON SCHEMA "Sales" TO ${user};
    CREATE EXTENSION pg_stat_statements;
    CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10,2), updated_at timestamptz NOT NULL);
    INSERT INTO orders SELECT i, 1, now() FROM generate_series(1, 500) i;
    CREATE TABLE "Sales"."Lines" (line int, "order" bigint, note text NOT NULL, PRIMARY KEY ("order", line) INCLUDE (note));
    CREATE TABLE measures (at timestamptz, v float8) PARTITION BY RANGE (at);
    CREATE TABLE measures_1 PARTITION OF measures DEFAULT; INSERT INTO measures SELECT now(), i FROM generate_series(1, 300) i;
    CREATE VIEW order_view AS SELECT * FROM orders; CREATE MATERIALIZED VIEW order_copy AS SELECT id FROM orders;
    CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
    CREATE FOREIGN TABLE remote (a int) SERVER files OPTIONS (filename '/nowhere');
    CREATE TABLE hidden.inside (id int); CREATE TABLE closed (id int);
    CREATE TABLE half (id int PRIMARY KEY, open text, secret text); CREATE TABLE "a""b'c😀" (id int)`)
  await source.sql(`GRANT SELECT ON ALL TABLES IN SCHEMA public, hidden, "Sales" TO ${user};
    REVOKE ALL ON closed, half FROM ${user}; GRANT SELECT (open, id) ON half TO ${user}`)
  await source.sql('ANALYZE')
})
after(() => source?.stop())

async function discover(changes: Partial<Settings> = {}, limit = 100): Promise<readonly DiscoveredTable[]> {
  const connector = createConnector(parseSettings({ ...source.settings, ...changes }), sourceHost())
  try {
    return await pages(connector, limit)
  } finally {
    await connector.close()
  }
}

async function pages(connector: Connector, limit: number): Promise<readonly DiscoveredTable[]> {
  const tables: DiscoveredTable[] = []
  for (let after: string | null = null; ; ) {
    const page = await connector.discover({ after, limit }, signal)
    assert.ok(page.tables.length <= limit)
    tables.push(...page.tables)
    if (page.next === null) return tables
    after = page.next
  }
}

test('what the login may read is found, and nothing else', async () => {
  const found = (await discover()).map(({ schema, name, kind }) => `${schema}.${name} ${kind}`)
  assert.deepEqual(found, [
    'Sales.Lines table',
    `public.a"b'c😀 table`,
    'public.half table',
    'public.measures partitioned_table',
    'public.order_copy materialized_view',
    'public.order_view view',
    'public.orders table',
    'public.remote foreign_table',
  ])
})

test('pages of every size give the same list', async () => {
  const whole = await discover()
  for (const limit of [1, 3, whole.length]) assert.deepEqual(await discover({}, limit), whole)
})

test('columns, keys and estimates are those of the catalog', async () => {
  const byName = new Map((await discover()).map((table) => [table.name, table]))
  assert.deepEqual(byName.get('orders'), {
    schema: 'public',
    name: 'orders',
    kind: 'table',
    estimatedRows: 500,
    primaryKey: ['id'],
    columns: [
      { name: 'id', type: 'long', sourceType: 'bigint', nullable: false },
      { name: 'total', type: 'decimal(10,2)', sourceType: 'numeric(10,2)', nullable: true },
      { name: 'updated_at', type: 'timestamptz', sourceType: 'timestamp with time zone', nullable: false },
    ],
    suggestedCursor: 'updated_at',
  })
  assert.deepEqual(byName.get('Lines')?.primaryKey, ['order', 'line'])
  assert.equal(byName.get('measures')?.estimatedRows, 300)
  assert.equal(byName.get('order_view')?.estimatedRows, null)
  assert.deepEqual(
    byName.get('half')?.columns.map(({ name }) => name),
    ['id', 'open'],
  )
})

test('what is discovered can be read as described', async () => {
  const connector = createConnector(parseSettings(source.settings), sourceHost())
  for (const { schema, name, columns, kind } of await pages(connector, 100)) {
    if (kind === 'foreign_table') continue
    const { schema: read } = await gather(
      connector.read({
        schema,
        table: name,
        mode: 'full',
        columns: [],
        primaryKey: [],
        cursorColumn: null,
        state: null,
        signal,
      }),
    )
    assert.deepEqual(
      read.columns,
      columns.map(({ sourceType: _, ...column }) => column),
      name,
    )
  }
  await connector.close()
})

test('a cursor is suggested where it tells of every change, and only there', async () => {
  const cases: readonly (readonly [string, string | null])[] = [
    ['id int PRIMARY KEY, created_at timestamptz NOT NULL, "updatedAt" timestamp NOT NULL', 'updatedAt'],
    ['id int PRIMARY KEY, modified timestamp NOT NULL, last_updated timestamptz NOT NULL', 'last_updated'],
    ['id int PRIMARY KEY, updated_at timestamptz', null],
    ['id int PRIMARY KEY, created_at timestamptz NOT NULL', null],
    ['id int PRIMARY KEY, updated_at text NOT NULL, updated_by int NOT NULL', null],
    ['id int, updated_at timestamptz NOT NULL', null],
    ['updated_at timestamptz PRIMARY KEY', null],
  ]
  await source.sql(`CREATE SCHEMA cursors; ${cases.map(([columns], index) => `CREATE TABLE cursors.t${index} (${columns})`).join(';')};
    GRANT USAGE ON SCHEMA cursors TO ${source.settings.user}; GRANT SELECT ON ALL TABLES IN SCHEMA cursors TO ${source.settings.user}`)
  const found = await discover({ schemas: ['cursors'] })
  assert.deepEqual(
    found.map((table) => table.suggestedCursor),
    cases.map(([, cursor]) => cursor),
  )
})

test('a position that is not ours is refused', async () => {
  const connector = createConnector(parseSettings(source.settings), sourceHost())
  for (const after of ['', 'x', '[1,2]', '["a"]']) {
    await assert.rejects(connector.discover({ after, limit: 1 }, signal), (error) =>
      isSluiceError(error, 'INVALID_DATA'),
    )
  }
  await connector.close()
})
