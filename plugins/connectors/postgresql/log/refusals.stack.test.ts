import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ChangeStream } from '@sluice/sdk'
import { createConnector } from '../connector.ts'
import { parseSettings } from '../settings.ts'
import { sourceHost } from '../source-host.ts'
import { until } from '../source-server.ts'
import { type LogWorld, NEVER as signal, startLogWorld, stream, Tables } from './log-world.fixture.ts'

let world: LogWorld
let user: string

before(async () => {
  world = await startLogWorld()
  user = world.source.settings.user
})
after(() => world?.stop())

const published = async (capture: string) =>
  (await world.sql(`SELECT tablename FROM pg_publication_tables WHERE pubname = '${capture}' ORDER BY 1`)).map(
    ({ tablename }) => tablename,
  )

test('each table that the log cannot tell is refused, with what would let it, and is never added', async () => {
  await world.make(
    `CREATE TABLE seen (id int PRIMARY KEY, v int); CREATE VIEW shown AS SELECT * FROM seen;
     CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY); CREATE TABLE secret (id int PRIMARY KEY);
     ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY;
     CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
     CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
     CREATE TABLE doubled (id int NOT NULL); ALTER TABLE doubled REPLICA IDENTITY FULL;
     CREATE TABLE listed (id int[] PRIMARY KEY); CREATE TABLE hidden (id int PRIMARY KEY);
     CREATE TABLE strewn (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
     CREATE TABLE strewn_1 PARTITION OF strewn FOR VALUES IN (1);
     CREATE TABLE strewn_2 PARTITION OF strewn FOR VALUES IN (2); ALTER TABLE strewn_2 REPLICA IDENTITY NOTHING;
     CREATE SCHEMA "else"; CREATE TABLE "else".other (id int PRIMARY KEY)`,
    ...['seen', 'shown', 'unlogged', 'secret', 'child', 'parent', 'late', 'doubled', 'listed', 'strewn', 'strewn_2'],
  )
  const tables = ['shown', 'unlogged', 'secret', 'parent', 'late', 'doubled', 'listed', 'hidden']
  const streams: ChangeStream[] = [
    ...tables.map((table) => stream(table, 'id')),
    stream('strewn', 'id', 'part'),
    stream('seen', 'v'),
    stream('seen'),
    stream('child', 'id'),
  ]
  const { refused } = await world.log.prepare({ capture: 'refuses', streams, signal })
  assert.deepEqual(
    refused.map(({ table, code, remedy }) => [table, code, remedy]),
    [
      ['shown', 'changes_not_logged', 'Read it by mode full or incremental.'],
      ['unlogged', 'changes_not_logged', 'Read it by mode full or incremental.'],
      [
        'secret',
        'changes_row_security',
        `Run ALTER ROLE "${user}" BYPASSRLS; as a superuser. Or read it by mode full or incremental.`,
      ],
      [
        'parent',
        'changes_inherited',
        'Name the tables that hold the rows, one by one. Or read it by mode full or incremental.',
      ],
      ['late', 'changes_no_identity', remedyOf('late')],
      ['doubled', 'changes_no_identity', remedyOf('doubled')],
      ['listed', 'changes_key_type', 'Read it by mode full or incremental.'],
      [
        'hidden',
        'source_table_missing',
        `Check its name; if it is there, run GRANT SELECT ON "public"."hidden" TO "${user}"; as its owner.`,
      ],
      ['strewn', 'changes_no_identity', 'Run ALTER TABLE public.strewn_2 REPLICA IDENTITY DEFAULT;'],
      [
        'seen',
        'changes_no_identity',
        'Name that key in the manifest, or run ALTER TABLE "public"."seen" REPLICA IDENTITY FULL;',
      ],
      ['seen', 'changes_no_identity', remedyOf('seen')],
    ],
  )
  assert.deepEqual(await published('refuses'), ['child'])
  assert.deepEqual(await world.log.refusals?.({ streams, signal }), refused)
  // None of them makes a statement of its writers fail.
  await world.sql(`INSERT INTO late VALUES (1); UPDATE late SET id = 2; INSERT INTO doubled VALUES (1); UPDATE doubled SET id = 2;
    INSERT INTO strewn VALUES (1, 2); UPDATE strewn SET id = 2; INSERT INTO listed VALUES ('{1}'); DELETE FROM listed;
    INSERT INTO parent VALUES (1); UPDATE parent SET id = 2`)
  await world.log.release({ capture: 'refuses', signal })
})

const remedyOf = (table: string) =>
  `Run ALTER TABLE "public"."${table}" ADD PRIMARY KEY (…); with the columns that tell its rows apart. Or read it by mode full or incremental.`

test('a table whose key is taken away leaves the log, and the others stay', async () => {
  await world.make(
    'CREATE TABLE lapsed (id int PRIMARY KEY); CREATE TABLE steady (id int PRIMARY KEY)',
    'lapsed',
    'steady',
  )
  const streams = [stream('lapsed', 'id'), stream('steady', 'id')]
  await world.log.prepare({ capture: 'lapses', streams, signal })
  assert.deepEqual(await published('lapses'), ['lapsed', 'steady'])
  await world.sql('ALTER TABLE lapsed DROP CONSTRAINT lapsed_pkey')
  const { refused } = await world.log.prepare({ capture: 'lapses', streams, signal })
  assert.deepEqual(
    refused.map(({ table }) => table),
    ['lapsed'],
  )
  assert.deepEqual(await published('lapses'), ['steady'])
  await world.sql('INSERT INTO lapsed VALUES (1); UPDATE lapsed SET id = 2')
  await world.log.prepare({ capture: 'lapses', streams: [], signal })
  assert.deepEqual(await published('lapses'), [])
  await world.log.prepare({ capture: 'lapses', streams, signal })
  await world.sql('CREATE TABLE heir () INHERITS (steady)')
  const later = await world.log.prepare({ capture: 'lapses', streams, signal })
  assert.deepEqual(
    later.refused.map(({ code }) => code),
    ['changes_no_identity', 'changes_inherited'],
  )
  assert.deepEqual(await published('lapses'), [])
  await world.log.release({ capture: 'lapses', signal })
})

test('a table whose key is being taken away is never added without it: its writers would fail', async () => {
  await world.make('CREATE TABLE losing (id int PRIMARY KEY)', 'losing')
  const other = await world.source.session()
  await other.query('BEGIN; ALTER TABLE losing DROP CONSTRAINT losing_pkey')
  const prepared = world.log.prepare({ capture: 'loses', streams: [stream('losing', 'id')], signal })
  await until('it waits for the table', async () => {
    return (await world.sql('SELECT FROM pg_locks WHERE NOT granted')).length > 0
  })
  await other.query('COMMIT')
  const { refused } = await prepared
  assert.deepEqual(
    refused.map(({ code }) => code),
    ['changes_no_identity'],
  )
  assert.deepEqual(await published('loses'), [])
  await other.end()
  await world.log.release({ capture: 'loses', signal })
})

test('a login without the rights is told which statement gives them', async () => {
  await world.make('CREATE TABLE righted (id int PRIMARY KEY)', 'righted')
  const streams = [stream('righted', 'id')]
  const { database } = world.source.settings
  const prepare = () => world.log.prepare({ capture: 'rights', streams, signal })
  await world.sql(`ALTER ROLE ${user} NOREPLICATION`)
  await assert.rejects(prepare(), {
    kind: 'PERMISSION',
    code: 'changes_not_replication',
    remedy: `Run ALTER ROLE "${user}" REPLICATION; as a superuser.`,
  })
  await world.sql(`ALTER ROLE ${user} REPLICATION; REVOKE CREATE ON DATABASE ${database} FROM ${user}`)
  await assert.rejects(prepare(), {
    kind: 'PERMISSION',
    code: 'changes_not_creator',
    remedy: `Run GRANT CREATE ON DATABASE "${database}" TO "${user}"; as its owner.`,
  })
  await world.sql(`GRANT CREATE ON DATABASE ${database} TO ${user}`)
  for (let nth = 0; nth < 4; nth += 1) {
    await world.sql(`SELECT pg_create_logical_replication_slot('other_${nth}', 'pgoutput')`)
  }
  await assert.rejects(prepare(), { kind: 'CONFIG', code: 'changes_no_slot', remedy: /pg_drop_replication_slot/ })
  await world.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ~ '^other'")
  assert.deepEqual((await prepare()).refused, [])
  await world.log.release({ capture: 'rights', signal })
})

test('where the tables are somebody else’s, a publication of theirs is read, and never altered', async () => {
  await world.sql(`CREATE TABLE theirs (id int PRIMARY KEY, v text); CREATE TABLE unpublished (id int PRIMARY KEY);
    GRANT SELECT ON theirs, unpublished TO ${user}; INSERT INTO theirs VALUES (1, 'one');
    CREATE ROLE somebody; ALTER TABLE unpublished OWNER TO somebody`)
  // Nobody is told to make the login a superuser.
  const own = (table: string) =>
    `Run ALTER TABLE "public"."${table}" OWNER TO "${user}"; as a superuser, as its owner "postgres" is one. Or read it by mode full or incremental.`
  const streams = [stream('theirs', 'id'), stream('unpublished', 'id')]
  const prepare = () => world.log.prepare({ capture: 'lent', streams, signal })
  const first = await prepare()
  assert.deepEqual(
    first.refused.map(({ table, code, remedy }) => [table, code, remedy]),
    [
      ['theirs', 'changes_not_owner', own('theirs')],
      ['unpublished', 'changes_not_owner', `Run GRANT "somebody" TO "${user}"; as a superuser or as "somebody".`],
    ],
  )
  await world.log.release({ capture: 'lent', signal })
  await world.sql('CREATE PUBLICATION lent FOR TABLE theirs')
  await assert.rejects(prepare(), { kind: 'CONFIG', code: 'changes_publication_unfit' })
  await world.sql('ALTER PUBLICATION lent SET (publish_via_partition_root = true)')
  const { position, refused, incarnations } = await prepare()
  assert.deepEqual(
    refused.map(({ table, code, remedy }) => [table, code, remedy]),
    [
      [
        'unpublished',
        'changes_not_published',
        'Run ALTER PUBLICATION "lent" ADD TABLE ONLY "public"."unpublished"; as its owner.',
      ],
    ],
  )
  assert.deepEqual(
    incarnations?.map(({ table }) => table),
    ['theirs'],
  )
  const told = [streams[0] as ChangeStream]
  const tables = new Tables(world.connector, told)
  await tables.readWhole()
  await world.sql("UPDATE theirs SET v = 'two'; INSERT INTO theirs VALUES (2, 'b')")
  tables.apply((await world.take('lent', position, told)).events)
  assert.deepEqual(
    [...(tables.rows[0]?.values() ?? [])].map(({ id, v }) => [id, v]),
    [
      ['1', 'two'],
      ['2', 'b'],
    ],
  )
  await world.sql('ALTER PUBLICATION lent SET TABLE theirs (id)')
  assert.deepEqual(
    (await prepare()).refused.map(({ table }) => table),
    ['theirs', 'unpublished'],
  )
  await world.log.release({ capture: 'lent', signal })
  assert.deepEqual(await published('lent'), ['theirs'])
  assert.deepEqual(await world.sql('SELECT slot_name FROM pg_replication_slots'), [])
  await world.sql('DROP PUBLICATION lent')
})

test('the check says whether the log can be read, and what it wants', async () => {
  await world.make('CREATE TABLE checked (id int PRIMARY KEY)', 'checked')
  const said = async () => {
    const { ok, steps } = await world.connector.check(signal)
    assert.ok(ok)
    return steps.at(-1)?.message ?? ''
  }
  assert.match(await said(), /; its log of changes can be read, too \(mode cdc\)$/)
  await world.sql(`ALTER ROLE ${user} NOREPLICATION`)
  assert.match(await said(), /; mode cdc is not possible: .* Run ALTER ROLE .* REPLICATION; as a superuser\.$/)
  await world.sql(`ALTER ROLE ${user} REPLICATION`)
})

test('only tables of the schemas that the connection offers are told', async () => {
  const settings = parseSettings({ ...world.source.settings, schemas: ['public'] })
  const connector = createConnector(settings, sourceHost())
  const streams = [{ schema: 'else', table: 'other', primaryKey: ['id'] }]
  const refused = await connector.changes?.refusals?.({ streams, signal })
  assert.deepEqual(
    refused?.map(({ code }) => code),
    ['source_schema_not_offered'],
  )
  await connector.close()
})
