import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { isSluiceError } from '@sluice/sdk'
import { execute, openDuckDb, prepare } from './child/duckdb.ts'
import { guardExpression, guardStatement } from './child/guarded-sql.ts'

const TABLES = [['sales', 'orders'], ['sales', 'customers'], ['events']] as const

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
  await execute(connection, 'CREATE SCHEMA sales')
  await execute(connection, 'CREATE SCHEMA hidden')
  await execute(
    connection,
    `CREATE TABLE sales.orders (id INTEGER, customer VARCHAR, amount DECIMAL(10,2), tags VARCHAR[],
    placed TIMESTAMP, day DATE, info JSON, place STRUCT(city VARCHAR, zip VARCHAR), note VARCHAR)`,
  )
  await execute(connection, 'CREATE TABLE sales.customers (customer VARCHAR, name VARCHAR, country VARCHAR)')
  await execute(connection, 'CREATE TABLE events (id INTEGER, seen TIMESTAMPTZ, kind VARCHAR, value DOUBLE)')
  await execute(connection, 'CREATE TABLE hidden.secrets (id INTEGER, secret VARCHAR)')
  await execute(
    connection,
    `INSERT INTO sales.orders VALUES (1, 'ada', 12.50, ['a','b'], '2024-01-02 03:04:05', '2024-01-02',
    '{"k": [1, 2]}', {'city': 'Oslo', 'zip': '0150'}, 'x-1'), (2, 'bob', 7.25, [], '2024-02-02 00:00:00', '2024-02-02', '{}', NULL, NULL)`,
  )
  await execute(connection, "INSERT INTO sales.customers VALUES ('ada', 'Ada', 'NO'), ('bob', 'Bob', 'SE')")
  await execute(
    connection,
    "INSERT INTO events VALUES (1, '2024-01-01 00:00:00+00', 'k', 1.5), (2, '2024-01-02 00:00:00+00', 'k', 2.5)",
  )
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

const GOOD: readonly string[] = [
  'SELECT 1',
  'SELECT * FROM sales.orders',
  'FROM sales.orders',
  'TABLE sales.orders',
  'SELECT * FROM "Sales"."ORDERS" WHERE id = 1',
  'SELECT o.*, c.name FROM sales.orders o JOIN sales.customers c USING (customer)',
  'SELECT * FROM sales.orders o LEFT JOIN sales.customers c ON o.customer = c.customer AND c.country = $1',
  'SELECT customer, sum(amount) AS total FROM sales.orders GROUP BY ALL ORDER BY total DESC LIMIT 5',
  'SELECT customer, count(*), avg(amount), median(amount) FROM sales.orders GROUP BY customer HAVING count(*) > 0',
  'SELECT DISTINCT customer FROM sales.orders',
  'SELECT DISTINCT ON (customer) customer, amount FROM sales.orders ORDER BY customer, amount DESC',
  'SELECT id, row_number() OVER (PARTITION BY customer ORDER BY placed DESC) AS n FROM sales.orders QUALIFY n = 1',
  'SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sales.orders',
  'SELECT id, lag(amount, 1, 0) OVER w, first_value(amount) OVER w FROM sales.orders WINDOW w AS (ORDER BY id)',
  'SELECT id, rank() OVER (ORDER BY amount), ntile(4) OVER (ORDER BY amount) FROM sales.orders',
  'SELECT avg(value) OVER (ORDER BY seen RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) FROM events',
  'WITH big AS (SELECT * FROM sales.orders WHERE amount > 10) SELECT count(*) FROM big',
  'WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b',
  'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n',
  'WITH orders AS (SELECT * FROM sales.orders) SELECT * FROM orders',
  'WITH a AS MATERIALIZED (SELECT 1 AS x) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b)',
  "SELECT * FROM sales.orders WHERE customer IN (SELECT customer FROM sales.customers WHERE country = 'NO')",
  'SELECT * FROM sales.orders o WHERE EXISTS (SELECT 1 FROM sales.customers c WHERE c.customer = o.customer)',
  'SELECT id, (SELECT max(name) FROM sales.customers c WHERE c.customer = o.customer) FROM sales.orders o',
  'SELECT id FROM sales.orders UNION SELECT id FROM events EXCEPT SELECT 3 INTERSECT SELECT 4',
  'SELECT id, customer FROM sales.orders UNION ALL BY NAME SELECT kind AS customer, id FROM events',
  'SELECT unnest(tags) FROM sales.orders',
  'SELECT id, t.tag FROM sales.orders, unnest(tags) AS t(tag)',
  'SELECT * FROM range(10) r(i), generate_series(1, 3) g(j) WHERE i = j',
  'SELECT * FROM sales.orders o, LATERAL (SELECT o.id + 1 AS next)',
  "SELECT tags[1], tags[1:2], len(tags), list_contains(tags, 'a'), list_sort(tags) FROM sales.orders",
  "SELECT list_transform(tags, lambda t: upper(t)), [t || '!' FOR t IN tags IF t <> 'a'] FROM sales.orders",
  "SELECT list_filter(tags, lambda t: t LIKE 'a%'), list_reduce([1, 2, 3], lambda a, b: a + b) FROM sales.orders",
  "SELECT place.city, place['zip'], {'a': 1, 'b': [1, 2]}, struct_pack(x := 1), row(1, 2) FROM sales.orders",
  "SELECT map {'a': 1}['a'], map_keys(map {'a': 1})",
  "SELECT date_trunc('month', placed), extract(year FROM placed), placed + INTERVAL 3 DAY FROM sales.orders",
  "SELECT date_diff('day', day, DATE '2024-03-01'), strftime(placed, '%Y-%m'), age(placed) FROM sales.orders",
  "SELECT seen AT TIME ZONE 'Europe/Oslo', time_bucket(INTERVAL '1 hour', seen), epoch(seen) FROM events",
  "SELECT current_date >= DATE '2024-01-01', now() IS NOT NULL, current_timestamp IS NOT NULL",
  "SELECT regexp_matches(note, '^x'), regexp_replace(note, '-', '_'), regexp_extract(note, '(\\d+)', 1) FROM sales.orders",
  "SELECT note LIKE 'x%', note ILIKE 'X%', note SIMILAR TO 'x.*', note NOT LIKE 'y%' FROM sales.orders",
  "SELECT upper(customer), trim(note), substr(note, 1, 2), split_part(note, '-', 1), note || '!' FROM sales.orders",
  "SELECT info->>'$.k[0]', info->'k', json_array_length(info, '$.k'), json_extract_string(info, '$.k') FROM sales.orders",
  "SELECT CASE WHEN amount > 10 THEN 'big' ELSE 'small' END, coalesce(note, '-'), nullif(note, 'x') FROM sales.orders",
  "SELECT CASE customer WHEN 'ada' THEN 1 END, if(id = 1, 2, 3), ifnull(note, '') FROM sales.orders",
  'SELECT try_cast(note AS INTEGER), amount::DOUBLE, CAST(id AS VARCHAR), id::DECIMAL(20,4) FROM sales.orders',
  'SELECT round(amount, 1), abs(-1), ceil(1.5), floor(1.5), power(2, 3), 7 // 2, 7 % 2, sqrt(4) FROM sales.orders',
  "SELECT * FROM sales.orders WHERE amount BETWEEN 1 AND 10 AND note IS NOT NULL OR customer IS DISTINCT FROM 'ada'",
  'SELECT * EXCLUDE (note) REPLACE (upper(customer) AS customer) RENAME (id AS order_id) FROM sales.orders',
  "SELECT COLUMNS('^a'), COLUMNS(c -> c LIKE 'i%') FROM sales.orders",
  'SELECT min(COLUMNS(*)) FROM events',
  'SELECT customer, kind, count(*) FROM sales.orders JOIN events USING (id) GROUP BY ROLLUP (customer, kind)',
  'SELECT customer, count(*), grouping(customer) FROM sales.orders GROUP BY GROUPING SETS ((customer), ())',
  "SELECT string_agg(customer, ',' ORDER BY customer), list(id ORDER BY id DESC), arg_max(customer, amount) FROM sales.orders",
  'SELECT count(DISTINCT customer), count(*) FILTER (WHERE amount > 10), bool_and(id > 0) FROM sales.orders',
  'SELECT quantile_cont(amount, [0.5, 0.9]), stddev(amount), corr(id, amount), histogram(customer) FROM sales.orders',
  'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount), mode(customer) FROM sales.orders',
  "SELECT * FROM sales.orders PIVOT (sum(amount) FOR customer IN ('ada', 'bob') GROUP BY day)",
  'SELECT * FROM (SELECT id, amount::DOUBLE AS a, id::DOUBLE AS b FROM sales.orders) UNPIVOT (v FOR n IN (a, b))',
  'SELECT * FROM events e ASOF JOIN sales.orders o ON e.id >= o.id',
  'SELECT * FROM sales.orders SEMI JOIN events USING (id)',
  "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(n, s) WHERE n = ?",
  'SELECT sha256(customer), md5(note), hash(id), to_base64(encode(customer)) FROM sales.orders',
  'SELECT #1, customer AS "x y", "amount" AS "select" FROM sales.orders ORDER BY 2 DESC NULLS LAST LIMIT 10 OFFSET 1',
  'SELECT greatest(1, 2), least(1, 2), 1 IN (1, 2), 3 NOT IN (1, 2), NOT true, -id, 1e5, 0x1F FROM sales.orders',
  'SELECT * FROM sales.orders TABLESAMPLE reservoir(1 ROWS) REPEATABLE (1)',
  'SELECT sum(amount) AS "été", \'naïve ☃\' AS s FROM sales.orders -- a remark',
  'SELECT x.id FROM sales.orders AS x, sales.orders AS y WHERE x.id = y.id AND (x.id, 1) = (y.id, 1)',
  'SELECT 1e5 / 3, 1e-3 * amount, 1.5e300, -0.0, 0.1 + 0.2, -1 ** 2, 2 ^ -1, 5 - -1, - -1, 1_000 FROM sales.orders',
  'SELECT 99999999999999999999, 170141183460469231731687303715884105727, -9223372036854775808, 1.10::DECIMAL(9,4)',
  "SELECT 'it''s', e'a\\n\\tb', 'a\nb', '\"q\"', '\\x41'::BLOB, DATE '2020-02-29', TIMESTAMP '2020-01-01 00:00:00.123456'",
  "SELECT TIMESTAMPTZ '2020-01-01 00:00:00+02', INTERVAL '1 year 2 days', TIME '12:00:01.5', '00000000-0000-0000-0000-000000000001'::UUID",
  'SELECT 1 + 2 * 3 - 4 / 2, (1 + 2) * 3, NOT (1 = 2) AND 3 > 2 OR 1 IS NULL, 7 & 3 | 8, ~1, 1 << 3, 10 % 4 * 2',
  'SELECT 1 AS "a""b", id AS "SELECT", note AS "x.y" FROM sales.orders AS "o;--" WHERE "o;--".id = 1',
  "SELECT list_aggregate([1, 2], 'sum'), array_agg(id), unnest([1, 2]), flatten([[1], [2]]) FROM sales.orders GROUP BY ALL",
]

describe('the guard', () => {
  for (const [sql, code] of ATTACKS) {
    it(`refuses ${JSON.stringify(sql.slice(0, 100))}`, async () => {
      await assert.rejects(guardStatement(connection, sql, TABLES), (error) => {
        assert(isSluiceError(error), String(error))
        assert.equal(error.code, code, `${error.message}: ${String(error.cause)}`)
        return true
      })
    })
  }

  for (const sql of GOOD) {
    it(`lets pass ${JSON.stringify(sql.slice(0, 100))}`, async () => {
      const guarded = await guardStatement(connection, sql, TABLES)
      const parameters = sql.includes('$1') ? ['NO'] : / \?/.test(sql) ? [1] : []
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
    ['1) UNION SELECT (1', 'sql_not_allowed'],
    ['1), (2', 'sql_not_allowed'],
    ['1) FROM (SELECT 1', 'sql_not_allowed'],
    ['1) WHERE (true', 'sql_not_allowed'],
    ['1) ORDER BY (1', 'sql_not_allowed'],
    ['1) LIMIT (1', 'sql_not_allowed'],
    ['1) GROUP BY (1', 'sql_not_allowed'],
    ['1) HAVING (true', 'sql_not_allowed'],
    ['1) QUALIFY (true', 'sql_not_allowed'],
    ['1); SELECT (1', 'sql_not_allowed'],
    ['1); DROP TABLE sales.orders; SELECT (1', 'sql_not_allowed'],
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
