import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { isSluiceError } from '@sluice/sdk'
import { openDuckDb, prepare } from '../child/duckdb.ts'
import { guardExpression, guardPostgresql, guardStatement } from '../child/guarded-sql.ts'
import { GOOD, makeTables, parametersOf, TABLES } from './guard.fixture.ts'

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
  await makeTables(connection)
})

/** Statement, and the code that refuses it. */
const ATTACKS: readonly (readonly [sql: string, code: string])[] = [
  // Files.
  ["SELECT * FROM read_parquet('/lake/x.parquet')", 'sql_not_allowed'],
  ["SELECT * FROM parquet_scan('/lake/x.parquet')", 'sql_not_allowed'],
  ["SELECT * FROM '/lake/x.parquet'", 'table_not_found'],
  ["SELECT * FROM 'x.parquet'", 'table_not_found'],
  ['SELECT * FROM "/etc/passwd.csv"', 'table_not_found'],
  ["FROM 'x.json'", 'table_not_found'],
  ["SELECT * FROM 's3://bucket/x.parquet'", 'table_not_found'],
  ["SELECT * FROM read_csv('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM read_csv_auto('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM READ_TEXT('/etc/passwd')", 'sql_not_allowed'],
  ['SELECT * FROM "read_text"(\'/etc/passwd\')', 'sql_not_allowed'],
  ["SELECT * FROM main.read_text('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM system.main.read_text('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM read_blob('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM read_json('x.json')", 'sql_not_allowed'],
  ["SELECT * FROM read_duckdb('x.db')", 'sql_not_allowed'],
  ["SELECT * FROM glob('/*')", 'sql_not_allowed'],
  ["SELECT * FROM sniff_csv('/etc/passwd')", 'sql_not_allowed'],
  ["SELECT * FROM parquet_metadata('x.parquet')", 'sql_not_allowed'],
  ["SELECT * FROM parquet_kv_metadata('x.parquet')", 'sql_not_allowed'],
  ["SELECT * FROM parquet_bloom_probe('x.parquet', 'id', 1)", 'sql_not_allowed'],
  ["COPY sales.orders TO '/lake/out.csv'", 'sql_not_allowed'],
  ["COPY (SELECT 1) TO '/lake/out.csv'", 'sql_not_allowed'],
  ["COPY sales.orders FROM '/etc/passwd'", 'sql_not_allowed'],
  ["EXPORT DATABASE '/lake'", 'sql_not_allowed'],
  ["IMPORT DATABASE '/lake'", 'sql_not_allowed'],
  ["ATTACH '/lake/x.db' AS x", 'sql_not_allowed'],
  ['DETACH memory', 'sql_not_allowed'],
  ['USE hidden', 'sql_not_allowed'],
  // Code as text.
  ["SELECT * FROM query('SELECT * FROM hidden.secrets')", 'sql_not_allowed'],
  ["SELECT * FROM query_table('hidden.secrets')", 'sql_not_allowed'],
  ["SELECT * FROM query_table(['hidden.secrets'])", 'sql_not_allowed'],
  ["SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", 'sql_not_allowed'],
  ["SELECT json_serialize_sql('SELECT 1')", 'sql_not_allowed'],
  ["SELECT json_deserialize_sql('{}')", 'sql_not_allowed'],
  ["SELECT json_serialize_plan('SELECT * FROM hidden.secrets')", 'sql_not_allowed'],
  ["PRAGMA json_execute_serialized_sql('x')", 'sql_not_allowed'],
  ['EXECUTE stmt', 'sql_not_allowed'],
  ['PREPARE stmt AS SELECT 1', 'sql_not_allowed'],
  // Statements that change something, or several.
  ['SELECT 1; SELECT 2', 'sql_not_allowed'],
  ['SELECT 1; DROP TABLE sales.orders', 'sql_not_allowed'],
  ['DELETE FROM sales.orders', 'sql_not_allowed'],
  ['INSERT INTO sales.orders SELECT * FROM sales.orders', 'sql_not_allowed'],
  ['UPDATE sales.orders SET id = 0', 'sql_not_allowed'],
  ['WITH x AS (DELETE FROM sales.orders RETURNING *) SELECT * FROM x', 'sql_syntax_error'],
  ['CREATE TABLE t AS SELECT 1', 'sql_not_allowed'],
  ['CREATE MACRO f(x) AS x', 'sql_not_allowed'],
  ["CREATE MACRO f() AS TABLE SELECT * FROM read_text('/etc/passwd')", 'sql_not_allowed'],
  ['DROP SCHEMA sales', 'sql_not_allowed'],
  ['ALTER TABLE sales.orders ADD COLUMN x INTEGER', 'sql_not_allowed'],
  ['BEGIN', 'sql_not_allowed'],
  ['VACUUM', 'sql_not_allowed'],
  ['CHECKPOINT', 'sql_not_allowed'],
  ['ANALYZE', 'sql_not_allowed'],
  ['EXPLAIN SELECT * FROM sales.orders', 'sql_not_allowed'],
  ['EXPLAIN ANALYZE SELECT * FROM hidden.secrets', 'sql_not_allowed'],
  ['CALL enable_logging()', 'sql_not_allowed'],
  ['CALL pragma_version()', 'sql_not_allowed'],
  ['PRAGMA database_list', 'sql_not_allowed'],
  ["SET memory_limit = '100GB'", 'sql_not_allowed'],
  ["SET VARIABLE x = 'y'", 'sql_not_allowed'],
  ['RESET memory_limit', 'sql_not_allowed'],
  ['INSTALL httpfs', 'sql_not_allowed'],
  ['LOAD httpfs', 'sql_not_allowed'],
  // Catalogs, settings, the session.
  ['SELECT * FROM duckdb_views()', 'sql_not_allowed'],
  ['SELECT * FROM duckdb_settings()', 'sql_not_allowed'],
  ['SELECT * FROM duckdb_tables', 'table_not_found'],
  ['SELECT * FROM duckdb_secrets()', 'sql_not_allowed'],
  ['SELECT * FROM information_schema.tables', 'table_not_found'],
  ['SELECT * FROM pg_catalog.pg_class', 'table_not_found'],
  ['SELECT * FROM pg_class', 'table_not_found'],
  ['SELECT * FROM sqlite_master', 'table_not_found'],
  ["SELECT * FROM pragma_table_info('hidden.secrets')", 'sql_not_allowed'],
  ["SELECT * FROM pragma_show('hidden.secrets')", 'sql_not_allowed'],
  ['SELECT * FROM summary(TABLE hidden.secrets)', 'sql_syntax_error'],
  ['SHOW TABLES', 'sql_not_allowed'],
  ['SHOW ALL TABLES', 'sql_not_allowed'],
  ['DESCRIBE hidden.secrets', 'sql_not_allowed'],
  ['SUMMARIZE hidden.secrets', 'sql_not_allowed'],
  ['SELECT * FROM (DESCRIBE hidden.secrets)', 'sql_not_allowed'],
  ["SELECT current_setting('memory_limit')", 'sql_not_allowed'],
  ["SELECT getvariable('x')", 'sql_not_allowed'],
  ['SELECT current_query()', 'sql_not_allowed'],
  ['SELECT pg_get_viewdef(1)', 'sql_not_allowed'],
  ["SELECT nextval('s')", 'sql_not_allowed'],
  ['SELECT setseed(0.5)', 'sql_not_allowed'],
  ['SELECT sleep_ms(1000)', 'sql_not_allowed'],
  ["SELECT write_log('x')", 'sql_not_allowed'],
  ["SELECT error('boo')", 'sql_not_allowed'],
  ['SELECT stats(id) FROM sales.orders', 'sql_not_allowed'],
  ['SELECT txid_current()', 'sql_not_allowed'],
  // Tables that are not the caller's, in every place where a table can stand.
  ['SELECT * FROM hidden.secrets', 'table_not_found'],
  ['SELECT * FROM "HIDDEN"."SECRETS"', 'table_not_found'],
  ['SELECT * FROM memory.sales.orders', 'sql_not_allowed'],
  ['SELECT * FROM memory.hidden.secrets', 'sql_not_allowed'],
  ['SELECT * FROM orders', 'table_not_found'],
  ['TABLE hidden.secrets', 'table_not_found'],
  ['FROM hidden.secrets', 'table_not_found'],
  ['SELECT (SELECT max(secret) FROM hidden.secrets)', 'table_not_found'],
  ['SELECT EXISTS (FROM hidden.secrets)', 'table_not_found'],
  ['SELECT id IN (SELECT id FROM hidden.secrets) FROM sales.orders', 'table_not_found'],
  ['SELECT * FROM sales.orders JOIN hidden.secrets USING (id)', 'table_not_found'],
  ['SELECT * FROM sales.orders o, LATERAL (SELECT * FROM hidden.secrets s WHERE s.id = o.id)', 'table_not_found'],
  ['SELECT * FROM sales.orders UNION ALL SELECT * FROM hidden.secrets', 'table_not_found'],
  ['SELECT id FROM sales.orders ORDER BY (SELECT max(id) FROM hidden.secrets)', 'table_not_found'],
  ['SELECT id FROM sales.orders LIMIT (SELECT max(id) FROM hidden.secrets)', 'table_not_found'],
  ['SELECT id FROM sales.orders OFFSET (SELECT max(id) FROM hidden.secrets)', 'table_not_found'],
  ['SELECT DISTINCT ON ((SELECT max(id) FROM hidden.secrets)) id FROM sales.orders', 'table_not_found'],
  ['SELECT count(*) FILTER (WHERE EXISTS (FROM hidden.secrets)) FROM sales.orders', 'table_not_found'],
  ['SELECT string_agg(note ORDER BY (SELECT max(id) FROM hidden.secrets)) FROM sales.orders', 'table_not_found'],
  ['SELECT sum(id) OVER (PARTITION BY (SELECT max(id) FROM hidden.secrets)) FROM sales.orders', 'table_not_found'],
  [
    'SELECT sum(id) OVER (ORDER BY id ROWS (SELECT max(id) FROM hidden.secrets) PRECEDING) FROM sales.orders',
    'table_not_found',
  ],
  ['SELECT lag(id, 1, (SELECT max(id) FROM hidden.secrets)) OVER () FROM sales.orders', 'table_not_found'],
  ['SELECT id FROM sales.orders GROUP BY id HAVING EXISTS (FROM hidden.secrets)', 'table_not_found'],
  ['SELECT id FROM sales.orders GROUP BY CUBE (id, (SELECT max(id) FROM hidden.secrets))', 'table_not_found'],
  ['SELECT id FROM sales.orders QUALIFY EXISTS (FROM hidden.secrets)', 'table_not_found'],
  ['SELECT CASE WHEN EXISTS (FROM hidden.secrets) THEN 1 END', 'table_not_found'],
  ['SELECT [x + (SELECT max(id) FROM hidden.secrets) FOR x IN [1, 2]]', 'table_not_found'],
  ['SELECT list_transform([1], lambda x: (SELECT max(id) FROM hidden.secrets))', 'table_not_found'],
  ['SELECT * REPLACE ((SELECT max(id) FROM hidden.secrets) AS id) FROM sales.orders', 'table_not_found'],
  ['SELECT * FROM (VALUES ((SELECT max(id) FROM hidden.secrets)))', 'table_not_found'],
  ['SELECT * FROM unnest((SELECT list(secret) FROM hidden.secrets))', 'table_not_found'],
  ['SELECT * FROM range((SELECT max(id) FROM hidden.secrets))', 'table_not_found'],
  ['SELECT * FROM hidden.secrets PIVOT (count(*) FOR id IN (1))', 'table_not_found'],
  ['SELECT * FROM sales.orders PIVOT (max((SELECT max(secret) FROM hidden.secrets)) FOR id IN (1))', 'table_not_found'],
  ['SELECT * FROM hidden.secrets UNPIVOT (v FOR n IN (id))', 'table_not_found'],
  ['PIVOT hidden.secrets ON id', 'sql_not_allowed'],
  ['SELECT * FROM sales.orders AT (VERSION => 1)', 'sql_not_allowed'],
  ['SELECT * FROM hidden.secrets POSITIONAL JOIN sales.orders', 'table_not_found'],
  ['SELECT * FROM (SELECT 1) a POSITIONAL JOIN (SELECT 2) b', 'sql_not_allowed'],
  ['SELECT * FROM sales.orders ASOF JOIN hidden.secrets s ON orders.id >= s.id', 'table_not_found'],
  // Names of WITH queries, seen from where they are not visible.
  ['WITH secrets AS (SELECT 1) SELECT * FROM hidden.secrets', 'table_not_found'],
  ['SELECT * FROM (WITH duck AS (SELECT 1) FROM duck) a, duck', 'table_not_found'],
  ['SELECT (WITH duck AS (SELECT 1) SELECT 1 FROM duck), * FROM duck', 'table_not_found'],
  ['WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a', 'table_not_found'],
  ['WITH a AS (SELECT * FROM a) SELECT * FROM a', 'table_not_found'],
  ['(WITH duck AS (SELECT 1) SELECT * FROM duck) UNION ALL SELECT * FROM duck', 'table_not_found'],
  ['WITH RECURSIVE a AS (SELECT * FROM a UNION ALL SELECT 1) SELECT * FROM a', 'table_not_found'],
  ['WITH "x.parquet" AS (SELECT 1) SELECT 1', 'sql_not_allowed'],
  ['WITH duckdb_settings AS (SELECT 1) SELECT * FROM duckdb_settings', 'sql_not_allowed'],
  ['WITH pg_class AS (SELECT 1) SELECT * FROM pg_class', 'sql_not_allowed'],
  ['WITH "/etc/passwd" AS (SELECT 1) SELECT * FROM "/etc/passwd"', 'sql_not_allowed'],
  ['WITH k AS (SELECT 1) SELECT * FROM "\u212a"', 'table_not_found'],
  ['WITH a AS (SELECT 1) SELECT * FROM main.a', 'table_not_found'],
  // Types, collations, text that is not what it seems.
  ["SELECT 'x'::hidden.secrets", 'sql_not_allowed'],
  ["SELECT 'x'::mytype", 'sql_not_allowed'],
  ["SELECT 'x'::geometry", 'sql_not_allowed'],
  ['SELECT \'x\' COLLATE "de;x"', 'sql_not_allowed'],
  ['SELECT DEFAULT', 'sql_not_allowed'],
  ['SELECT 1\0; DROP TABLE sales.orders', 'sql_not_allowed'],
  ['SELECT 1 /* ', 'sql_syntax_error'],
  ["SELECT 'x", 'sql_syntax_error'],
  ['', 'sql_not_allowed'],
  [';', 'sql_not_allowed'],
  ['-- nothing', 'sql_not_allowed'],
  ['SELECT * FROM ｓales.orders', 'table_not_found'],
  ['SELECT * FROM "sales.orders"', 'table_not_found'],
  ['SELECT * FROM sales."orders" , "sales""."."orders"', 'table_not_found'],
  ['SELECT * FROM sales.orders\u0000x', 'sql_not_allowed'],
  ['SELECT * FROM ​hidden.secrets', 'table_not_found'],
  [`SELECT ${'abs('.repeat(5000)}1${')'.repeat(5000)}`, 'sql_syntax_error'],
  [`SELECT ${'(SELECT '.repeat(3000)}1${')'.repeat(3000)}`, 'sql_syntax_error'],
  [`SELECT ${'1+'.repeat(30_000)}1`, 'sql_syntax_error'],
  [`SELECT ${'x'.repeat(100_001)}`, 'sql_too_long'],
]

describe('the guard', () => {
  for (const [sql, code] of ATTACKS) {
    it(`refuses ${JSON.stringify(sql.slice(0, 100))}`, async () => {
      const inPostgresql = () =>
        guardPostgresql(
          connection,
          sql,
          TABLES.map((name) => ({ name, columns: [] })),
          [],
        )
      for (const judged of [() => guardStatement(connection, sql, TABLES), inPostgresql]) {
        await assert.rejects(judged, (error) => {
          assert(isSluiceError(error), String(error))
          assert.equal(error.code, code, `${error.message}: ${String(error.cause)}`)
          return true
        })
      }
    })
  }

  it('says of what is too deep that it is, and not that it is no SQL', async () => {
    for (const sql of [`SELECT ${'1 + '.repeat(1200)}1`, `SELECT 1 FROM events a${', events'.repeat(1200)}`]) {
      await assert.rejects(guardStatement(connection, sql, TABLES), /1,000 parts within each other/)
    }
  })

  for (const sql of GOOD) {
    it(`lets pass ${JSON.stringify(sql.slice(0, 100))}`, async () => {
      const guarded = await guardStatement(connection, sql, TABLES)
      const parameters = parametersOf(sql)
      assert.deepEqual(await rowsOf(guarded.sql, parameters), await rowsOf(sql, parameters))
    })
  }
})

describe('the guard of one expression', () => {
  const good = [
    'id > 1',
    "customer = 'ada' OR amount < 5",
    'id IN (1, 2) -- x',
    "list_contains(tags, 'a')",
    '(id + 1) * 2 = 4',
  ]
  for (const text of good) {
    it(`lets pass ${text}`, async () => {
      const guarded = await guardExpression(connection, text)
      const rows = await rowsOf(`SELECT id FROM sales.orders WHERE ${guarded.sql}`, [])
      assert.deepEqual(rows, await rowsOf(`SELECT id FROM sales.orders WHERE (${text}\n)`, []))
    })
  }

  const bad: readonly (readonly [string, string])[] = [
    ['1) UNION SELECT (1', 'sql_syntax_error'],
    ['1), (2', 'sql_syntax_error'],
    ['1) FROM (SELECT 1', 'sql_syntax_error'],
    ['1) WHERE (true', 'sql_syntax_error'],
    ['1) ORDER BY (1', 'sql_syntax_error'],
    ['1) LIMIT (1', 'sql_syntax_error'],
    ['1) GROUP BY (1', 'sql_syntax_error'],
    ['1) HAVING (true', 'sql_syntax_error'],
    ['1) QUALIFY (true', 'sql_syntax_error'],
    ['1); SELECT (1', 'sql_syntax_error'],
    ['1); DROP TABLE sales.orders; SELECT (1', 'sql_syntax_error'],
    ['true) OR (true', 'sql_syntax_error'],
    ['1 UNION SELECT 1', 'sql_not_allowed'],
    ['1, 2', 'sql_not_allowed'],
    ['1 FROM range(3)', 'sql_not_allowed'],
    ['1 WHERE true', 'sql_not_allowed'],
    ['1 ORDER BY 1', 'sql_not_allowed'],
    ['1 LIMIT 1', 'sql_not_allowed'],
    ['DISTINCT 1', 'sql_not_allowed'],
    ['1 AS x', 'sql_not_allowed'],
    ['1; SELECT 1', 'sql_not_allowed'],
    ['EXISTS (FROM hidden.secrets)', 'table_not_found'],
    ['id IN (SELECT id FROM sales.orders)', 'table_not_found'],
    ["read_text('/etc/passwd') IS NOT NULL", 'sql_not_allowed'],
    ['id = 1 /*', 'sql_syntax_error'],
    ['', 'sql_syntax_error'],
    ['*', 'sql_not_allowed'],
  ]
  for (const [text, code] of bad) {
    it(`refuses ${JSON.stringify(text)}`, async () => {
      await assert.rejects(guardExpression(connection, text), { code })
    })
  }

  it('says where in the caller’s own text', async () => {
    const refusal = guardExpression(connection, "id = 1\nAND current_setting('x') = 1")
    await assert.rejects(refusal, { details: { construct: 'the function current_setting', line: 2, column: 5 } })
  })
})

it('tells a table that is hidden and one that is missing in the same words', async () => {
  const told = async (name: string) => {
    try {
      await guardStatement(connection, `SELECT * FROM ${name}`, TABLES)
    } catch (error) {
      assert(isSluiceError(error))
      return JSON.stringify([error.kind, error.code, error.message, error.remedy, error.details]).replaceAll(name, '?')
    }
    return assert.fail('it passed')
  }
  assert.equal(await told('hidden.secrets'), await told('hidden.nothing'))
})

async function rowsOf(sql: string, parameters: readonly (number | string)[]): Promise<unknown> {
  const statement = await prepare(connection, sql, parameters)
  const result = await statement.run()
  return { types: result.columnTypes().map(String), rows: await result.getRowsJson() }
}
