import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { Seeded } from '../../../test/crash/seeded.ts'
import { execute, openDuckDb, prepare } from '../child/duckdb.ts'
import { guardStatement } from '../child/guarded-sql.ts'
import { RandomQuery } from '../lineage/random-query.fixture.ts'
import { ALLOWED_FUNCTIONS } from './functions.ts'
import { isRowWise } from './row-wise.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? 1)
const TABLES = [['people'], ['staff'], ['seen']]

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
  const rows = `SELECT i AS id, 'm' || i % 7 AS email, nullif('m' || i % 5, 'm3') AS alt, i % 6 AS pay,
    ['oslo', 'rome', NULL][1 + i % 3] AS city, i % 3 AS grp, [i, i % 2] AS tags, [i % 4] AS code, i % 9 AS lvl, i % 8 AS day
    FROM range(40) t(i)`
  await execute(connection, `CREATE TABLE everybody AS ${rows}`)
  for (const [name] of TABLES) await execute(connection, `CREATE TABLE ${name} AS SELECT * FROM everybody`)
})
after(() => connection.closeSync())

const judged = async (sql: string): Promise<boolean> => isRowWise((await guardStatement(connection, sql, TABLES)).tree)

it('is what says of each row what it says', async () => {
  for (const sql of [
    'SELECT * FROM people',
    'SELECT id, upper(email) AS email, CASE WHEN pay > 3 THEN city END AS city FROM people WHERE alt IS NOT NULL',
    'SELECT p.id + 1 AS id, coalesce(p.alt, p.email) AS alt, p.tags[1] AS tag FROM people AS p WHERE p.id BETWEEN 3 AND 9',
    'SELECT id, list_sum(list_transform(tags, lambda x: x + 1)) AS tags, CAST(pay AS VARCHAR) AS pay FROM people',
    "SELECT id, email IN ('m1', 'm2') AS known, try_cast(email AS INTEGER) AS number, len(city) AS letters FROM people",
    'SELECT * EXCLUDE (alt) REPLACE (pay * 2 AS pay) FROM people',
  ]) {
    assert.equal(await judged(sql), true, sql)
  }
})

it('is nothing in which another row may have a say, or the clock, or chance', async () => {
  for (const sql of [
    'SELECT count(*) AS n FROM people',
    'SELECT id, sum(pay) AS pay FROM people GROUP BY id',
    'SELECT id, pay FROM people GROUP BY ALL',
    'SELECT DISTINCT city FROM people',
    'SELECT id FROM people ORDER BY id LIMIT 3',
    'SELECT id FROM people LIMIT 3',
    'SELECT id, row_number() OVER (ORDER BY id) AS n FROM people',
    'SELECT id FROM people QUALIFY rank() OVER (ORDER BY pay) = 1',
    'SELECT p.id FROM people p JOIN staff s ON p.id = s.id',
    'SELECT p.id FROM people p, staff s',
    'SELECT id FROM people WHERE pay > (SELECT avg(pay) FROM people)',
    'SELECT id FROM people WHERE id IN (SELECT id FROM staff)',
    'SELECT id, EXISTS (SELECT 1 FROM staff s WHERE s.id = p.id) AS there FROM people p',
    'SELECT id FROM people UNION ALL SELECT id FROM people',
    'SELECT id FROM (SELECT * FROM people)',
    'WITH w AS (SELECT * FROM people) SELECT id FROM w',
    'SELECT id, unnest(tags) AS tag FROM people',
    'SELECT id, now() AS at FROM people',
    'SELECT id, random() AS r FROM people',
    'SELECT id FROM people WHERE random() < 0.5',
    'SELECT id FROM people USING SAMPLE 3 ROWS',
    'SELECT id FROM people TABLESAMPLE 50%',
    'SELECT 1 AS id',
  ]) {
    assert.equal(await judged(sql).catch(() => false), false, sql)
  }
})

it('knows each aggregate that statements may call, and each function of chance', async () => {
  const told = await rowsOf(
    "SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions() WHERE function_type = 'aggregate' OR (function_type = 'scalar' AND stability = 'VOLATILE')",
  )
  const callable = told
    .map((row) => JSON.parse(row) as [string, string])
    .filter(([name]) => ALLOWED_FUNCTIONS.has(name))
  assert.ok(callable.length > 60, String(callable.length))
  for (const [name] of callable) {
    const tree = { statements: [{ node: node([{ class: 'FUNCTION', function_name: name, children: [] }]) }] }
    assert.equal(isRowWise(tree as never), false, name)
  }
  const plain = { statements: [{ node: node([{ class: 'FUNCTION', function_name: 'upper', children: [] }]) }] }
  assert.equal(isRowWise(plain as never), true)
})

const node = (list: readonly object[]) => ({
  type: 'SELECT_NODE',
  modifiers: [],
  cte_map: { map: [] },
  select_list: list,
  from_table: { type: 'BASE_TABLE', sample: null },
  where_clause: null,
  group_expressions: [],
  group_sets: [],
  aggregate_handling: 'STANDARD_HANDLING',
  having: null,
  sample: null,
  qualify: null,
})

it(`gives of two halves of a table what it gives of the whole, whatever the query (seed ${SEED})`, async () => {
  const queries = new RandomQuery(new Seeded(SEED))
  let found = 0
  for (let made = 0; made < 20_000 && found < 25; made += 1) {
    const sql = queries.statement()
    if (!(await judged(sql).catch(() => false))) continue
    const whole = await over('true', sql)
    if (whole === null) continue
    const parts = [await over('id % 3 = 0', sql), await over('id % 3 <> 0', sql)]
    assert.deepEqual(parts.flatMap((part) => part ?? []).sort(), whole, sql)
    found += 1
  }
  assert.ok(found >= 20, `only ${found} queries`)
})

/** The rows of the query over such rows; null where it cannot run. */
async function over(condition: string, sql: string): Promise<readonly string[] | null> {
  for (const [name] of TABLES) {
    await execute(connection, `CREATE OR REPLACE TABLE ${name} AS SELECT * FROM everybody WHERE ${condition}`)
  }
  return rowsOf(sql).catch(() => null)
}

async function rowsOf(sql: string): Promise<readonly string[]> {
  const statement = await prepare(connection, sql, [])
  const rows = await (await statement.run()).getRowsJson()
  return rows.map((row) => JSON.stringify(row)).sort()
}
