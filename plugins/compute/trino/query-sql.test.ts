import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ComputeParameter } from '@sluice/sdk'
import { type QueryRelation, querySql } from './query-sql.ts'

const relationOf = (...name: readonly [string, string]): QueryRelation => ({
  name,
  columns: [{ name: 'id', type: 'long' }],
  table: { catalog: 'lakehouse_acme', schema: name[0], name: name[1], snapshotId: '7' },
})
const RELATIONS = [relationOf('sales', 'orders'), relationOf('sales', 'people'), relationOf('sales', 'orders@v1.0.0')]

const query = (sql: string, parameters: readonly ComputeParameter[] = []) =>
  querySql({ sql, parameters, relations: RELATIONS })

/** What the reader’s own text has become. */
const written = (sql: string, ...parameters: readonly ComputeParameter[]): string =>
  query(sql, parameters).sql.replace(/^WITH .*\n/, '')

describe('a query for Trino', () => {
  test('names relations that stand in front of it, with the name that a reader expects to qualify columns with', () => {
    const { sql, tablesSql, named } = query('SELECT * FROM sales.orders ORDER BY id')
    assert.equal(
      sql,
      'WITH "sales.orders" AS (SELECT "id" FROM "lakehouse_acme"."sales"."orders" FOR VERSION AS OF 7 AS t WHERE true)\n' +
        'SELECT * FROM "sales.orders" AS "orders" ORDER BY id',
    )
    assert.deepEqual(named, [RELATIONS[0]])
    assert.match(
      tablesSql,
      /FROM \(SELECT \* FROM "lakehouse_acme"."sales"."orders" .* LIMIT 9223372036854775807\) AS t/,
    )
    assert.equal(tablesSql.split('\n')[1], sql.split('\n')[1])
  })

  test('finds them wherever a relation may stand, and nowhere else', () => {
    const orders = '"sales.orders" AS "orders"'
    for (const [given, expected] of [
      ['SELECT 1 FROM "Sales" . "ORDERS"', `SELECT 1 FROM ${orders}`],
      ['SELECT 1 FROM sales.orders o', 'SELECT 1 FROM "sales.orders"  o'],
      ['SELECT 1 FROM sales.orders AS "where"', 'SELECT 1 FROM "sales.orders"  AS "where"'],
      ['SELECT 1 FROM sales.orders "where"', 'SELECT 1 FROM "sales.orders"  "where"'],
      ['SELECT 1 FROM sales.orders"x"', 'SELECT 1 FROM "sales.orders" "x"'],
      ['SELECT 1 FROM sales.orders WHERE id = 1', `SELECT 1 FROM ${orders} WHERE id = 1`],
      ['SELECT 1 FROM x, sales.orders', `SELECT 1 FROM x, ${orders}`],
      ['SELECT 1 FROM x JOIN y ON x.a = y.a, sales.orders', `SELECT 1 FROM x JOIN y ON x.a = y.a, ${orders}`],
      ['SELECT 1 FROM x LEFT JOIN sales.orders USING (id)', `SELECT 1 FROM x LEFT JOIN ${orders} USING (id)`],
      ['SELECT 1 FROM (sales.orders CROSS JOIN x)', `SELECT 1 FROM (${orders} CROSS JOIN x)`],
      ['SELECT 1 FROM (SELECT 1 FROM sales.orders) t', `SELECT 1 FROM (SELECT 1 FROM ${orders}) t`],
      ['SELECT 1 WHERE 1 IN (SELECT id FROM sales.orders)', `SELECT 1 WHERE 1 IN (SELECT id FROM ${orders})`],
      ['SELECT 1 FROM x UNION SELECT id FROM sales.orders', `SELECT 1 FROM x UNION SELECT id FROM ${orders}`],
      ['SELECT 1 FROM sales.orders TABLESAMPLE SYSTEM (1)', `SELECT 1 FROM ${orders} TABLESAMPLE SYSTEM (1)`],
      ['SELECT 1 FROM sales.orders -- all\n', `SELECT 1 FROM ${orders}`],
      ['SELECT 1 FROM sales."orders@v1.0.0"', 'SELECT 1 FROM "sales.orders@v1.0.0" AS "orders@v1.0.0"'],
      // No relation: a column of an alias, in all the places that look like the above.
      ['SELECT sales.orders, sales.people FROM x sales', 'SELECT sales.orders, sales.people FROM x sales'],
      ['SELECT extract(day FROM sales.orders) FROM x sales', 'SELECT extract(day FROM sales.orders) FROM x sales'],
      [
        'SELECT 1 FROM x sales WHERE 1 IS DISTINCT FROM sales.orders',
        'SELECT 1 FROM x sales WHERE 1 IS DISTINCT FROM sales.orders',
      ],
      ['SELECT 1 FROM x sales ORDER BY 1, sales.orders', 'SELECT 1 FROM x sales ORDER BY 1, sales.orders'],
      [
        'SELECT 1 FROM x sales, unnest(sales.orders, sales.people)',
        'SELECT 1 FROM x sales, unnest(sales.orders, sales.people)',
      ],
      ["SELECT ' FROM sales.orders'", "SELECT ' FROM sales.orders'"],
      ['SELECT 1 FROM sales.nothing', 'SELECT 1 FROM sales.nothing'],
    ] as const)
      assert.equal(written(given).trimEnd(), expected, given)
  })

  test('keeps the reader’s own WITH queries behind ours', () => {
    const { sql } = query('WITH t AS (SELECT id FROM sales.orders) SELECT * FROM t')
    assert.match(
      sql,
      /^WITH "sales\.orders" AS \(.*\),\n {5}t AS \(SELECT id FROM "sales\.orders" AS "orders"\) SELECT \* FROM t$/,
    )
    const nested = query('WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t')
    assert.match(nested.sql, /^WITH RECURSIVE \n {15}t\(n\) AS/)
    assert.equal(query('SELECT 1').sql, 'SELECT 1')
  })

  test('gives parameters as literals that end nothing and begin nothing', () => {
    assert.equal(
      written('SELECT ?, ?, 1 -?, ?, ?, ?', "it's -- \\' ?", 5, -3, 1.5, true, null),
      "SELECT  'it''s -- \\'' ?' ,  5 , 1 - (-3) ,  CAST('1.5' AS double) ,  true ,  null ",
    )
    assert.equal(
      written('SELECT ?, ?, ?, ?', -(2n ** 53n), 2n ** 63n, -(2n ** 63n), 10n ** 38n),
      `SELECT  (-9007199254740992) ,  DECIMAL '9223372036854775808' ,  DECIMAL '-9223372036854775808' ,  CAST('1${'0'.repeat(38)}' AS double) `,
    )
    assert.equal(written('SELECT $2, $1, $2', 'a', 'b'), "SELECT  'b' ,  'a' ,  'b' ")
    assert.equal(written('SELECT 1 OFFSET ? LIMIT ?', 2, 5), 'SELECT 1 OFFSET  2  LIMIT  5 ')
    for (const sql of ['SELECT ?', 'SELECT $1', 'SELECT ?, $2'])
      assert.throws(() => query(sql, sql.includes(',') ? ['a'] : []), { code: 'sql_invalid' }, sql)
  })

  test('takes no parameter as a part of a name, and gives the others blanks around them', () => {
    for (const [sql, column] of [
      ['SELECT * FROM lakehouse_other.crm.?_orders', 35],
      ['SELECT crm.?x', 12],
      ['SELECT a.crm?.x', 13],
      ['SELECT a$1.crm.x', 9],
      ['SELECT crm . /**/ ?', 19],
      ['SELECT $1.x', 8],
      ['SELECT "a"?', 11],
      ['SELECT ?"a"', 8],
      ['SELECT 1?', 9],
      ['SELECT $1.5', 8],
    ] as const)
      for (const value of [null, true, 7, 'x'])
        assert.throws(
          () => query(sql, [value]),
          { code: 'sql_not_allowed', message: new RegExp(`a part of a name .* column ${column}\\)`) },
          sql,
        )
    const text = 'SELECT a=?, (?), [?]|| ? ,?+1 -? x, f(?)/*?*/?'
    assert.equal(
      written(text, true, null, 1, 2, 3, 4, 5, 6),
      'SELECT a= true , ( null ), [ 1 ]||  2  , 3 +1 - 4  x, f( 5 )      6 ',
    )
  })

  test('does not grow beyond what Trino takes, however often it names a parameter', () => {
    const sql = `SELECT ${Array.from({ length: 30_000 }, () => '$1').join(',')}`
    assert.throws(() => query(sql, ["'".repeat(2_000)]), { code: 'sql_too_long', kind: 'INVALID_DATA' })
    assert.ok(query(sql, [1]).sql.length > 100_000)
    assert.throws(() => query('SELECT ?', ['x'.repeat(1_000_000)]), { code: 'sql_too_long' })
  })

  test('refuses what could name more than the relations', () => {
    for (const sql of [
      'SELECT * FROM lakehouse_other.sales.orders',
      'SELECT * FROM sales.orders; DROP TABLE x',
      'SHOW TABLES',
      'EXPLAIN SELECT 1',
      'SELECT 1) SELECT (2',
      'SELECT "open',
    ])
      assert.throws(() => query(sql), { kind: 'INVALID_DATA' }, sql)
    assert.equal(written('SELECT 1 FROM sales.orders ; \n').trimEnd(), 'SELECT 1 FROM "sales.orders" AS "orders"')
  })

  test('knows where the reader wrote what Trino complains of', () => {
    const source = 'SELECT id\n  FROM sales.orders JOIN sales.people ON nothing = 1'
    const { sql, placeOf } = query(source)
    const lines = sql.split('\n')
    const line = lines.findIndex((text) => text.includes('nothing')) + 1
    const column = (lines[line - 1] ?? '').indexOf('nothing') + 1
    assert.deepEqual(placeOf({ line, column }), { line: 2, column: 42, name: ['nothing'], offsetBytes: 51 })
    assert.equal(placeOf({ line: 1, column: 1 }), null)
  })
})
