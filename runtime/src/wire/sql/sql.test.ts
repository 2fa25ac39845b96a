import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CATALOGUE, checkCatalogueWords, needsTables } from '../catalogue/allowed-words.ts'
import { type OpenCursor, ownText, type SessionView } from '../catalogue/own-views.ts'
import { type SessionCall, sessionCalls } from '../catalogue/session-calls.ts'
import { executionOf, preparationOf } from '../session/preparing.ts'
import { cursorOf, doorOf, fetchOf } from './commands.ts'
import { copyOf } from './copy.ts'
import { withNames } from './plain-names.ts'
import { bareTables, withNamespaces, withoutDatabase } from './table-names.ts'
import { statementsOf, textOf, type Word, wordsOf } from './words.ts'

const nothing: SessionView = {
  cursors: () => [],
  statements: () => [],
  settings: () => [],
  valueOf: ({ function: called, name }) => `'${called} ${name}'`,
}

const own = (sql: string): [readonly Word[], ReadonlyMap<Word, SessionCall>] => {
  const { words, calls } = sessionCalls(one(sql).words)
  return [words, calls]
}

const one = (sql: string) => {
  const [statement] = statementsOf(sql)
  assert.ok(statement !== undefined)
  return statement
}

describe('tables', () => {
  it('are found where tables stand, and not where columns, functions and CTEs do', () => {
    for (const [sql, names] of [
      [
        'SELECT a, b.c, f(d) FROM one, "Two" t JOIN three ON four = five WHERE x IN (SELECT six FROM seven, eight)',
        'one Two three seven eight',
      ],
      ['SELECT 1 FROM (one JOIN (SELECT * FROM two) q ON true), three', 'one two three'],
      [
        'WITH one (a) AS (SELECT 1 FROM two), three AS NOT MATERIALIZED (SELECT 2) SELECT * FROM one, three, four',
        'two four',
      ],
      ["SELECT extract(day FROM at), 'x' FROM a.b, range(3) r, ONLY c", 'at c'],
      ['(SELECT 1 FROM one) UNION SELECT two, three FROM four ORDER BY five, six', 'one four'],
    ] as const)
      assert.equal(bareTables(one(sql)).join(' '), names, sql)
    const found = new Map([['people', 'c"m']])
    assert.equal(
      withNamespaces(one('SELECT people, p.people FROM "people" p, crm.people, people'), found).sql,
      'SELECT people, p.people FROM "c""m"."people" p, crm.people, "c""m".people',
    )
  })

  it('stand behind the name of their own database, and of no other', () => {
    const written = (sql: string): string => withoutDatabase(one(sql), 'acme').sql
    assert.equal(
      written(
        'SELECT acme.crm.people.id, crm.people.id, acme.a.b FROM acme . crm.people, "acme"."c"."d", \'acme.crm.x\'::regclass',
      ),
      'SELECT crm.people.id, crm.people.id, acme.a.b FROM   crm.people, "c"."d", \'crm.x\'::regclass',
    )
    assert.throws(() => written('SELECT 1 FROM other.crm.people'), { sqlState: '0A000' })
    assert.throws(() => written('SELECT 1 FROM "Acme".crm.people'), { sqlState: '0A000' })
  })
})

describe('words', () => {
  it('are the statement again, without comments', () => {
    assert.equal(
      textOf(wordsOf("select/* a /* b */ */1,'--x' -- y\n from\t a.\"B\" where x->>'k'::text")),
      "select 1,'--x' from a.\"B\" where x->>'k'::text",
    )
  })

  it('split statements at semicolons that belong to none', () => {
    assert.deepEqual(
      statementsOf("select ';'; ;select $a$;$a$ -- ;\n").map(({ sql }) => sql),
      ["select ';'", 'select $a$;$a$'],
    )
  })

  it('that the dialect of products keeps for itself are names in quotes', () => {
    for (const [sql, written] of [
      ['SELECT At, v.at FROM a.v ORDER BY at', 'SELECT "at", v."at" FROM a.v ORDER BY "at"'],
      [
        "SELECT at AT TIME ZONE 'UTC', 'at', \"at\" FROM a.v AT (VERSION => 1)",
        'SELECT "at" AT TIME ZONE \'UTC\', \'at\', "at" FROM a.v AT (VERSION => 1)',
      ],
      ['SELECT $1 + at -- at', 'SELECT $1 + "at"'],
    ] as const) {
      const { sql: told, words } = withNames(one(`; ${sql}`))
      assert.equal(told, written)
      assert.deepEqual(words, one(written).words)
    }
  })

  it('are refused where something has no end, or hides a name', () => {
    for (const sql of ["select 'a", 'select "a', '/* a', 'select $a$ b', 'select U&"d\\0061t" from x', 'select \u0001'])
      assert.throws(() => wordsOf(sql), { sqlState: '42601' }, sql)
  })

  it('take any text in time, and throw nothing but 42601', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...`'"$-/*;()e E\\\na1.:`), maxLength: 200 }), (sql) => {
        try {
          const text = textOf(wordsOf(sql))
          assert.equal(textOf(wordsOf(text)), text)
        } catch (error) {
          assert.equal((error as { sqlState?: string }).sqlState, '42601')
        }
      }),
    )
  })
})

describe('where statements go', () => {
  const door = (sql: string) => doorOf(one(sql).words, CATALOGUE)

  it('to products, or to the catalogue', () => {
    assert.equal(door('SELECT * FROM crm.people'), 'products')
    assert.equal(door("SELECT strftime(now(), '%Y')"), 'products')
    assert.equal(door('SELECT 1'), 'catalogue')
    assert.equal(door('SELECT version(), current_database()'), 'catalogue')
    assert.equal(door('SELECT * FROM pg_class'), 'catalogue')
    assert.equal(door('SELECT * FROM crm.people, pg_catalog.pg_class'), 'catalogue')
    assert.equal(door("SELECT 'pg_catalog.pg_class' FROM crm.people"), 'products')
    assert.equal(door('WITH a AS (SELECT 1) SELECT * FROM information_schema.tables'), 'catalogue')
    assert.equal(door('SELECT id, pg_rating, max(pg_rank) FROM crm.movies'), 'products')
    assert.equal(door('SELECT 1 FROM crm.movies, pg_class'), 'catalogue')
  })

  it('without a relation to products, but where they ask for what a PostgreSQL alone tells', () => {
    for (const sql of [
      'SELECT current_database() FROM crm.people',
      'SELECT * FROM unnest([1])',
      ...['crm.people p', 'people', 'lateral (crm.people)', '(people JOIN crm.orders ON true) p'].flatMap((table) =>
        [', ', ' JOIN ', ' CROSS JOIN '].map(
          (by) => `SELECT pg_typeof(id), version() FROM generate_series(1, 2) g (n)${by}${table}`,
        ),
      ),
      'SELECT 7/2',
      'SELECT upper($1)',
      "SELECT date '2024-01-01' + 1",
      'SELECT 1.5',
    ])
      assert.equal(door(sql), 'products', sql)
    for (const sql of [
      "SELECT 1, 'a' AS b",
      'VALUES (1)',
      'SELECT current_schema()',
      'SELECT * FROM current_schema()',
      'SELECT * FROM unnest(current_schemas(true))',
      'SELECT s FROM generate_series(1, 2) s WHERE s < array_length(current_schemas(true), 1)',
      'SELECT current_schema',
      'SELECT current_user',
      "SELECT 'hstore'::regtype::oid",
      "SELECT current_setting('server_version_num')::int / 10000",
      'SELECT pg_catalog.version()',
    ])
      assert.equal(door(sql), 'catalogue', sql)
  })

  it('to a database without tables where none are asked for', () => {
    for (const sql of ['SELECT 1', 'SELECT version(), current_schema()', 'SELECT pg_backend_pid()'])
      assert.equal(needsTables(one(sql).words), false, sql)
    for (const sql of [
      'SELECT current_schemas(true)',
      "SELECT 'crm.people'::regclass",
      'SELECT has_table_privilege($1, $2)',
      'SELECT * FROM pg_class',
    ])
      assert.equal(needsTables(one(sql).words), true, sql)
  })

  it('to views, where a relation tells of others', () => {
    const given = (sql: string, cursors: readonly OpenCursor[] = []) =>
      ownText(...own(sql))({ ...nothing, cursors: () => cursors })
    const view = 'information_schema.pg_database'
    assert.equal(
      given('SELECT d.datname, pg_database.oid::text FROM pg_catalog.pg_database d, pg_database WHERE 1<=2'),
      `SELECT d.datname, pg_database.oid::text FROM ${view} d, ${view} WHERE 1<=2`,
    )
    assert.equal(given('SELECT 1 FROM "pg_database"'), 'SELECT 1 FROM information_schema."pg_database"')
    assert.equal(
      given('SELECT 1 FROM pg_shdepend pg_shdepend'),
      'SELECT 1 FROM information_schema.pg_shdepend pg_shdepend',
    )
    assert.match(given('SELECT s.name FROM pg_show_all_settings() AS s'), / SELECT s\.name FROM pg_settings +AS s$/)
    const same = "SELECT 'pg_database', a.pg_database AS pg_database FROM b.pg_database"
    assert.equal(given(same), same)
    const createdAt = new Date(0)
    const told = given("SELECT 1 FROM pg_catalog.pg_cursors WHERE name = 'x'", [
      { name: "a'b", statement: "DECLARE '", createdAt },
    ])
    assert.match(
      told,
      /^with pg_cursors\(name, [^)]*\) as \(values \('a''b', 'DECLARE ''', [^)]*\)\) SELECT 1 FROM pg_cursors WHERE/,
    )
    assert.match(
      given('WITH a AS (SELECT 1) TABLE pg_cursors'),
      /^WITH pg_cursors[^]* where false\), a AS \(SELECT 1\) TABLE/,
    )
  })

  it('with what the session knows, in place of calls that ask for it', () => {
    const given = (sql: string) => ownText(...own(sql))(nothing)
    assert.equal(
      given("SELECT pg_catalog.current_setting('jit', true)AS cur, current_catalog, a.current_catalog"),
      "SELECT (select 'current_setting jit' as current_setting)AS cur, (select pg_catalog.current_database() as current_catalog), a.current_catalog",
    )
    assert.equal(
      given("SELECT set_config('search_path', '', false)"),
      "SELECT (select 'set_config search_path' as set_config)",
    )
    for (const from of ['pg_show_all_settings()', 'pg_catalog.pg_settings']) {
      const [words, calls] = own(
        `SELECT set_config('bytea_output', 'hex', false) FROM ${from} WHERE name = 'bytea_output'`,
      )
      assert.equal(calls.size, 1)
      checkCatalogueWords(words)
    }
    const [call] = sessionCalls(one("SELECT \"set_config\"('a''b', 'c', TRUE)").words).calls.values()
    assert.deepEqual(call, { function: 'set_config', name: "a'b", value: 'c', flag: true })
    for (const sql of ["SELECT set_config(a, 'b', false)", "SELECT set_config('a', 'b', false) FROM pg_class"])
      assert.throws(() => own(sql), { sqlState: '0A000' }, sql)
    // What is not taken for one is refused where it goes.
    assert.deepEqual(own('SELECT current_setting(name) FROM pg_settings')[1].size, 0)
    assert.throws(() => checkCatalogueWords(one("SELECT set_config('a', 'b', false)").words), { sqlState: '0A000' })
  })

  it('with words of the catalogue alone that tell of what the caller may see', () => {
    const allowed = [
      "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('r')",
      'SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_attribute a',
      'SELECT t.a FROM pg_class t(a, b), pg_catalog.pg_type u (c)',
      'WITH a(x) AS (SELECT 1), b(y, z) AS MATERIALIZED (SELECT 2, 3) SELECT * FROM a, b',
      'SELECT generate_series(1, pg_catalog.array_upper(indkey, 1)) FROM pg_index',
      'SELECT pos.n FROM pg_class c, pg_catalog.generate_series(1, 32) pos(n)',
      "SELECT s.a FROM (VALUES ('x', '23'::pg_catalog.oid)) s(a, b)",
      'SELECT count(*) FROM pg_stat_activity, pg_locks',
      'SELECT pg_table_size(oid), pg_catalog.pg_total_relation_size(oid) FROM pg_class',
    ]
    for (const sql of allowed) checkCatalogueWords(one(sql).words)
    const refused = [
      'SELECT * FROM pg_stat_get_activity(null)',
      'SELECT pg_stat_get_activity(null)',
      'SELECT * FROM pg_lock_status()',
      'SELECT * FROM "pg_shadow"',
      'SELECT * FROM pg_authid',
      'SELECT * FROM pg_hba_file_rules',
      'SELECT txid_current()',
      'SELECT pg_read_file($1)',
      'SELECT "pg_read_file"($1)',
      "SELECT set_config('statement_timeout', '0', false)",
      'SELECT lo_create(0)',
      'SELECT pg_sleep(100)',
      "SELECT query_to_xml('select 1', true, true, '')",
      'SELECT pg_terminate_backend(1)',
      'SELECT 1 INTO x',
      "SELECT dblink('x')",
      'SELECT pg_ls_dir($1)',
      'SELECT 1 FROM (SELECT 1) a, (oid) lo_get(oid)',
      'SELECT * FROM pg_class, query_to_xml(relname) AS (a text)',
      'WITH a AS (SELECT 1) SELECT * FROM pg_class, lo_get(oid) AS (a text, b int)',
      'SELECT 1 FROM pg_class c lo_get(oid)',
      "SELECT lpad('', 268000000, 'x')",
      'SELECT array_agg(a) FROM generate_series(1, 100000000) a',
      'SELECT generate_series(1, 9999 * 9999)',
      'SELECT generate_series(1, $1)',
      'SELECT DISTINCT ON (oid) lo_get(oid) FROM pg_class',
      'SELECT 1 OPERATOR(pg_catalog.=) lo_get(oid) FROM pg_class',
    ]
    for (const sql of refused) assert.throws(() => checkCatalogueWords(one(sql).words), { sqlState: '0A000' }, sql)
  })
})

describe('commands', () => {
  it('copy out a statement or a table, and nothing else', () => {
    const copied = (sql: string) => {
      const { query, format, hasHeader } = copyOf(one(sql))
      assert.equal(textOf(query.words), query.sql)
      return [query.sql, format, hasHeader]
    }
    const query = "SELECT (1), ')' FROM a.b"
    for (const [options, format, hasHeader] of [
      ['', 'text', false],
      ['WITH (FORMAT csv, HEADER true)', 'csv', true],
      ['CSV HEADER', 'csv', true],
      ["(FORMAT 'binary')", 'binary', false],
      ['WITH (FORMAT BINARY, HEADER off)', 'binary', false],
      ['WITH BINARY', 'binary', false],
      ['BINARY', 'binary', false],
    ] as const)
      assert.deepEqual(copied(`COPY (${query}) TO STDOUT ${options}`), [query, format, hasHeader])
    assert.deepEqual(copied('COPY a."B" TO STDOUT'), ['SELECT * FROM a . "B"', 'text', false])
    assert.deepEqual(copied('COPY a.b (x, "Y") TO STDOUT WITH BINARY'), ['SELECT x , "Y" FROM a . b', 'binary', false])
    assert.deepEqual(copied('COPY BINARY a TO STDOUT'), ['SELECT * FROM a', 'binary', false])
    assert.deepEqual(copied('COPY binary TO STDOUT'), ['SELECT * FROM binary', 'text', false])
    assert.deepEqual(copied('COPY binary (x) TO STDOUT'), ['SELECT x FROM binary', 'text', false])
    for (const sql of [
      "COPY (SELECT 1) TO '/tmp/x'",
      "COPY a.b TO PROGRAM 'x'",
      'COPY a.b',
      'COPY () TO STDOUT',
      'COPY (SELECT 1) (SELECT 2) TO STDOUT',
      'COPY (SELECT 1) x TO STDOUT',
      'COPY a b TO STDOUT',
      'COPY a.b (x, y TO STDOUT',
      'COPY a.b () TO STDOUT',
      'COPY a.b (x) WHERE x = 1 TO STDOUT',
      "COPY a.b TO STDOUT (FORMAT csv, DELIMITER ';')",
      'COPY (SELECT 1) TO STDOUT (FORMAT parquet)',
      'COPY (SELECT 1) TO STDOUT (FORMAT binary, HEADER)',
    ])
      assert.throws(() => copyOf(one(sql)), { sqlState: '0A000' }, sql)
    assert.throws(() => copyOf(one('COPY (SELECT $1) TO STDOUT')), { sqlState: '42P02' })
    for (const sql of ['COPY a.b FROM STDIN', 'COPY a.b (x) FROM STDIN BINARY'])
      assert.throws(() => copyOf(one(sql)), { sqlState: '25006' }, sql)
  })

  it('prepare what gives rows, and run it with constants', () => {
    const { name, declared, statement } = preparationOf(
      one('PREPARE "P" (int, timestamp with time zone, numeric(5, 2), unknown) AS SELECT $1 FROM a.b'),
    )
    assert.deepEqual([name, declared, statement.sql], ['P', [23, 1184, 1700, 0], 'SELECT $1 FROM a.b'])
    const { values } = executionOf(one("EXECUTE p (-1.5, 'it''s', null, true, '7'::int)"))
    assert.deepEqual(
      values.map(({ bytes }) => bytes?.toString() ?? null),
      ['-1.5', "it's", null, 'true', '7'],
    )
    assert.deepEqual(executionOf(one('EXECUTE p')).values, [])
    for (const sql of ['EXECUTE p(1 + 1)', 'EXECUTE p(now())', 'EXECUTE p(a)'])
      assert.throws(() => executionOf(one(sql)), { sqlState: '0A000' }, sql)
    for (const [sql, sqlState] of [
      ['PREPARE p AS DELETE FROM a', '25006'],
      ['PREPARE p AS SET a = b', '0A000'],
      ['PREPARE p (nothing) AS SELECT 1', '42704'],
      ['PREPARE p (int[]) AS SELECT 1', '42704'],
      ['PREPARE p SELECT 1', '42601'],
    ] as const)
      assert.throws(() => preparationOf(one(sql)), { sqlState }, sql)
  })

  it('declare cursors and fetch forward', () => {
    const { name, query } = cursorOf(one('DECLARE "My" NO SCROLL CURSOR FOR SELECT 1'))
    assert.deepEqual([name, query.sql], ['My', 'SELECT 1'])
    assert.throws(() => cursorOf(one('DECLARE a SCROLL CURSOR FOR SELECT 1')), { sqlState: '0A000' })
    assert.throws(() => cursorOf(one('DECLARE a CURSOR WITH HOLD FOR SELECT 1')), { sqlState: '0A000' })
    assert.deepEqual(fetchOf(one('FETCH FORWARD 10 FROM a')), { name: 'a', rows: 10, isNothing: false })
    assert.equal(fetchOf(one('FETCH ALL IN a')).rows, 0)
    assert.throws(() => fetchOf(one('FETCH BACKWARD 1 FROM a')), { sqlState: '0A000' })
  })
})
