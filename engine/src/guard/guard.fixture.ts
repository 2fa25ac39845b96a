import type { DuckDBConnection } from '@duckdb/node-api'
import { execute } from '../child/duckdb.ts'

/** The tables and the good statements that the guard and the lineage are tried on. */

export const TABLES = [['sales', 'orders'], ['sales', 'customers'], ['events']] as const

export async function makeTables(connection: DuckDBConnection): Promise<void> {
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
}

export function parametersOf(sql: string): (number | string)[] {
  if (sql.includes('$1')) return ['NO']
  return / \?/.test(sql) ? [1] : []
}

export const GOOD: readonly string[] = [
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
