/** Statements in PostgreSQL's dialect: what they say is what it says, and nothing that the guard refuses comes in by the rewriting. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { isSluiceError, type SluiceError } from '@sluice/sdk'
import { openDuckDb } from '../child/duckdb.ts'
import { guardPostgresql, guardStatement } from '../child/guarded-sql.ts'
import { fromDriver } from '../driver-error.ts'
import { GOOD, makeTables, TABLES } from '../guard/guard.fixture.ts'
import { MACRO_NAMES } from './macros.ts'
import { withState } from './states.ts'

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
  await makeTables(connection)
})

after(() => connection?.closeSync())

const judged = (sql: string, parameters: readonly string[] = []) =>
  guardPostgresql(
    connection,
    sql,
    TABLES.map((name) => ({ name, columns: [] })),
    parameters,
  )

async function rowsOf(sql: string): Promise<unknown> {
  try {
    return (await connection.runAndReadAll((await judged(sql)).sql)).getRowsJson()
  } catch (error) {
    const told = withState(fromDriver(error, sql)) as SluiceError
    return told.details?.['sql_state'] ?? told.code
  }
}

describe('a statement in the dialect of PostgreSQL', () => {
  it('calls none of what the rewriting alone may, however it is written and wherever it stands', async () => {
    for (const name of MACRO_NAMES) {
      for (const own of [name, name.toUpperCase()]) {
        for (const sql of [
          `SELECT "${own}"(1)`,
          `SELECT 1 WHERE "${own}"(1, 2)`,
          `SELECT main."${own}"(1)`,
          `SELECT sum(id) FILTER (WHERE "${own}"(id)) FROM sales.orders`,
          `SELECT "${own}"(id) OVER () FROM sales.orders`,
          `SELECT * FROM "${own}"(1)`,
          `SELECT list_transform([1], lambda x: "${own}"(x))`,
        ]) {
          await assert.rejects(judged(sql), (error) => isSluiceError(error) && error.code === 'sql_not_allowed', sql)
        }
      }
    }
  })

  it('may call no more than one in the dialect of products, and read no other tables', async () => {
    for (const call of [
      "error('x')",
      "read_text('/etc/passwd')",
      "getenv('HOME')",
      "current_setting('threads')",
      "query('SELECT 1')",
      'pg_sleep(1)',
    ]) {
      for (const sql of [
        `SELECT ${call}`,
        `SELECT 7 / ${call}`,
        `SELECT to_char(${call}, 'YYYY')`,
        `SELECT 'a' ~ ${call}`,
        `SELECT CAST(${call} AS varchar(3))`,
      ]) {
        await assert.rejects(judged(sql), (error) => isSluiceError(error) && error.code === 'sql_not_allowed', sql)
      }
    }
    await assert.rejects(judged('SELECT secret ~ $$a$$ FROM hidden.secrets'), { code: 'table_not_found' })
    await assert.rejects(judged('SELECT 1 / (SELECT count(*) FROM hidden.secrets)'), { code: 'table_not_found' })
  })

  it('is read wherever it can be said in both', async () => {
    for (const sql of GOOD) await judged(sql)
  })

  it('is told as a PostgreSQL tells it', async () => {
    const told: readonly (readonly [string, unknown])[] = [
      [
        "SELECT 'Portland' ~ '^Port', 'Portland' ~* 'LAND$', 'Portland' !~ 'x', 'Portland' !~* 'PORT'",
        [[true, true, true, false]],
      ],
      [
        "SELECT 'Portland' SIMILAR TO 'Port%', 'Portland' SIMILAR TO 'Port', 'a.b' SIMILAR TO 'a.b', 'axb' SIMILAR TO 'a.b'",
        [[true, false, true, false]],
      ],
      ["SELECT regexp_full_match('Portland', 'Port')", [[false]]],
      ['SELECT 7 / 2, -7 / 2, 7.0 / 2, -7 % 3', [[3, -3, 3.5, -1]]],
      ['SELECT 1 / 0', '22012'],
      ['SELECT id % (id - id) FROM sales.orders', '22012'],
      ['SELECT sqrt(-1)', '2201F'],
      ['SELECT sum(x) / 2 FROM (SELECT count(*) AS x FROM sales.orders UNION ALL SELECT 1) q', [[1.5]]],
      ['SELECT sum(id) / 2, sum(id * 2) / 4, sum(id::bigint) / 2 FROM sales.orders', [['1', '1', 1.5]]],
      ['SELECT sum(id::bigint) OVER () / 2 FROM sales.orders LIMIT 1', [[1.5]]],
      [
        'SELECT sum(id) / 2 FROM (SELECT id::bigint AS id FROM sales.orders UNION ALL SELECT 2::integer AS id) q',
        [[2.5]],
      ],
      ["SELECT 'a%b' LIKE 'a\\%b', 'axb' LIKE 'a\\%b'", [[true, false]]],
      ['SELECT note FROM sales.orders ORDER BY note DESC', [[null], ['x-1']]],
      [
        'SELECT to_char(day, \'YYYY-MM "w" IW, FMDD FMMonth\') FROM sales.orders WHERE id = 1',
        [['2024-01 w 01, 2 January']],
      ],
      ["SELECT to_char(-1234.5, 'FM999,990.00'), to_char(7, '999')", [['-1,234.50', '   7']]],
      ["SELECT to_date('02.01.2024', 'DD.MM.YYYY')", [['2024-01-02']]],
      ["SELECT to_char(1, 'RN')", 'sql_unsupported'],
      ["SELECT 'abcdef'::varchar(3), CAST('abcdef' AS character varying (2))", [['abc', 'ab']]],
      ["SELECT 'a'::char(3)", 'sql_unsupported'],
      ["SELECT 'a' ~ '(?=x)'", 'sql_unsupported'],
      ['SELECT 0.123456::numeric', [['0.123456000000000']]],
      ['SELECT g FROM generate_series(1, 2) AS g', [['1'], ['2']]],
      ['SELECT q.count FROM (SELECT count(*) FROM sales.orders) q', [['2']]],
      ['SELECT q.note FROM (SELECT note::varchar(1) FROM sales.orders ORDER BY length(note)) q', [['x'], [null]]],
      ["SELECT note::varchar(1) FROM sales.orders GROUP BY note HAVING note = 'x-1'", [['x']]],
      ...['SELECT sum(q.b) / 2 FROM (SELECT id::bigint FROM sales.orders) q(b)', 'SELECT sum(b) / 2 FROM q'].map(
        (sql) => [`WITH q(b) AS (SELECT id::bigint FROM sales.orders) ${sql}`, [[1.5]]] as const,
      ),
      ['SELECT sum((SELECT max(id)::bigint FROM sales.orders)) / 8 FROM sales.orders', [[0.5]]],
      ["SELECT 'a' ~ '(['", '2201B'],
      ...[
        "(timestamp '2024-01-03' - timestamp '2024-01-01') / 2",
        "(timestamp '2024-01-02' - date '2024-01-01') / 1",
        'd / 2',
        'avg(d) / 2',
        'greatest(d, d) / 2',
      ].map((one) => {
        const sql = `SELECT ${one} FROM (SELECT timestamp '2024-01-03' - timestamp '2024-01-01' AS d) q GROUP BY d`
        return [sql, [[{ months: 0, days: 1, micros: '0' }]]] as const
      }),
      ["SELECT (date '2024-01-06' - date '2024-01-01') / 2", [[2]]],
    ]
    for (const [sql, expected] of told) assert.deepEqual(await rowsOf(sql), expected, sql)
  })

  it('takes a format from a parameter, and knows its type before there is one', async () => {
    const sql = 'SELECT to_char(day, $1) FROM sales.orders WHERE id = 1'
    for (const [value, expected] of [
      ['YYYY', '2024'],
      ['MM', '01'],
    ] as const) {
      const { sql: run } = await judged(sql, [value])
      assert.deepEqual((await connection.runAndReadAll(run, [value])).getRowsJson(), [[expected]])
    }
    const { sql: untold } = await judged(sql)
    assert.match(untold, /\$1/)
  })

  it('means its own columns and variables, whatever those of a macro are called', async () => {
    for (const [call, expected] of [
      ["to_char(v, '99')", ['  1', ' 20']],
      ['array_to_string(array_remove([1, 20], v), $$,$$)', ['20', '1']],
      ["array_to_string(['a', NULL], '-', v::text)", ['a-1', 'a-20']],
      ['100 / (40 / v)', [2, 50]],
    ] as const) {
      for (const name of ['one', 'j', 'w', 'x', 'a', 'n', 'whole', 'once', 'p']) {
        const own = call.replace(/\bv\b/, name)
        const inList = `SELECT list_transform([1, 20], lambda ${name}: ${own})`
        assert.deepEqual(await rowsOf(inList), [[expected]], inList)
        const ofColumn = `SELECT ${own} FROM (VALUES (1), (20)) q(${name}) ORDER BY ${name}`
        assert.deepEqual(
          await rowsOf(ofColumn),
          expected.map((value) => [value]),
          ofColumn,
        )
      }
    }
  })

  it('grows no faster than it is written: calls within calls stand once in what runs', async () => {
    let [divisor, format] = ['id', 'id']
    for (let depth = 0; depth < 40; depth += 1) divisor = `1 / (${divisor} + 1)`
    for (let depth = 0; depth < 3; depth += 1) format = `to_char(length(${format}::text), '999,999.99')`
    assert.deepEqual(await rowsOf(`SELECT ${divisor} FROM sales.orders WHERE id = 1`), [[1]])
    assert.deepEqual(await rowsOf(`SELECT ${format} FROM sales.orders WHERE id = 1`), [['      11.00']])
    assert.equal(await rowsOf('SELECT 1 / (1 / id) FROM sales.orders WHERE id = 2'), '22012')
    assert.deepEqual(await rowsOf('SELECT CASE WHEN id = 1 THEN 1 / (1 / id) END FROM sales.orders ORDER BY id'), [
      [1],
      [null],
    ])
  })

  it('calls nothing by a name that every object has', async () => {
    for (const name of Object.getOwnPropertyNames(Object.prototype)) {
      for (const sql of [`SELECT "${name}"(1)`, `SELECT x FROM (SELECT "${name}"(1)) q`]) {
        await assert.rejects(judged(sql), { code: 'sql_not_allowed' }, sql)
      }
    }
  })

  it('has no names of columns that one expression has made several of', async () => {
    const { names } = await judged("SELECT upper(COLUMNS('n')), count(*), (SELECT * FROM (SELECT 1)) FROM sales.orders")
    assert.deepEqual(names, [null, 'count', '?column?'])
  })

  it('changes nothing of the dialect of products', async () => {
    const { sql } = await guardStatement(connection, "SELECT 7 / 2, 'Portland' ~ 'Port', 1 / 0", TABLES)
    const [row] = (await connection.runAndReadAll(sql)).getRows()
    assert.deepEqual(row, [3.5, false, Number.POSITIVE_INFINITY])
  })
})
