import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { Seeded } from '../../../test/crash/seeded.ts'
import { execute, openDuckDb, prepare } from '../child/duckdb.ts'
import { inspect } from '../child/inspect.ts'
import type { EngineTable } from '../job.ts'
import { RandomQuery } from '../lineage/random-query.fixture.ts'
import { quoteName } from '../sql-text.ts'
import type { KeyedParts } from './keyed-parts.ts'
import { RandomParts } from './random-parts.fixture.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? 1)
const MOST = Number(process.env['SLUICE_TEST_QUERIES'] ?? 90)
const COLUMNS = [
  ...['id', 'pay', 'grp', 'lvl', 'day'].map((name) => ({ name, type: 'long' }) as const),
  ...['email', 'alt', 'city'].map((name) => ({ name, type: 'string' }) as const),
  { name: 'cost', type: 'decimal(10,2)' } as const,
  { name: 'rate', type: 'double' } as const,
]
const NAMES = ['people', 'staff', 'seen']
const TABLES: readonly EngineTable[] = NAMES.map((name) => ({
  name: [name],
  files: [],
  columns: COLUMNS.map((column, at) => ({ ...column, fieldId: at + 1 })),
}))

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
  for (const [at, name] of NAMES.entries()) {
    await execute(
      connection,
      `CREATE TABLE all_${name} AS SELECT i::BIGINT AS id, (i * 5 % 11)::BIGINT AS pay, nullif(i % 4, 3)::BIGINT AS grp,
        ((i + ${at}) % 9)::BIGINT AS lvl, nullif((i * ${at + 2}) % 8, 5)::BIGINT AS day, 'm' || i % 7 AS email,
        nullif('M' || (i + ${at}) % 5, 'M3') AS alt, ['oslo', 'Oslo', NULL][1 + i % 3] AS city,
        (i % 6 / 4)::DECIMAL(10,2) AS cost, [0.1, 1e17, -1e17, 'nan'::DOUBLE][1 + i % 4] AS rate FROM range(${30 + 7 * at}) t(i)`,
    )
  }
  await restrict({})
})
after(() => connection.closeSync())

/** Each table as its rows by that condition. */
async function restrict(by: Readonly<Record<string, string>>): Promise<void> {
  for (const name of NAMES) {
    await execute(
      connection,
      `CREATE OR REPLACE VIEW ${name} AS SELECT * FROM all_${name} AS r WHERE ${by[name] ?? 'true'}`,
    )
  }
}

const partsOf = async (sql: string): Promise<KeyedParts | null> =>
  (await inspect(connection, { kind: 'inspect', sql, parameters: [] }, TABLES)).parts ?? null

it('is groups by columns of one table, with aggregates that no order of rows changes', async () => {
  for (const sql of [
    'SELECT grp, count(*) AS n, sum(pay) AS pay, avg(cost) AS cost, min(city) AS city FROM people GROUP BY grp',
    'SELECT p.grp AS g, p.lvl, coalesce(max(p.day), 0) + 1 AS day FROM people AS p WHERE pay > 3 GROUP BY p.grp, lvl HAVING count(*) > 1',
    'SELECT grp, count(DISTINCT rate) AS n, sum(pay) FILTER (WHERE rate > 1) AS s, bool_and(pay > 3) AS b FROM people GROUP BY 1',
    'SELECT grp, sum(CAST(rate AS DECIMAL(18,2))) AS rate FROM people GROUP BY grp',
    'SELECT city AS town, median(pay) AS pay FROM people GROUP BY town',
    'SELECT grp, lvl, max(email) AS email FROM people GROUP BY ALL',
  ]) {
    assert.deepEqual((await partsOf(sql))?.drivers, ['people'], sql)
  }
  const joined = await partsOf(
    'SELECT s.city, sum(p.pay) AS pay FROM people p JOIN staff s ON p.id = s.id GROUP BY s.city',
  )
  assert.deepEqual(joined, {
    tables: ['people', 'staff'],
    drivers: ['staff'],
    links: [{ left: { table: 'people', column: 'id' }, right: { table: 'staff', column: 'id' } }],
    groups: [{ table: 'staff', column: 'city' }],
  })
})

it('is joins by columns that are equal, of tables that no LEFT JOIN may leave out', async () => {
  for (const [sql, drivers] of [
    ['SELECT p.id, s.city FROM people p LEFT JOIN staff s ON p.grp = s.id AND s.pay > p.pay', ['people']],
    ['SELECT p.id, s.city FROM people p JOIN staff s ON s.id = p.grp', ['people', 'staff']],
    [
      'SELECT p.id, x.city FROM people p JOIN staff s USING (grp) LEFT JOIN seen x ON x.id = s.day',
      ['people', 'staff'],
    ],
    ['SELECT p.id FROM people p LEFT JOIN staff s ON p.grp = s.id JOIN seen x ON x.id = p.day', ['people']],
    ['SELECT id, upper(city) AS city FROM people WHERE pay > 3', ['people']],
  ] as const) {
    assert.deepEqual((await partsOf(sql))?.drivers, drivers, sql)
  }
})

it('is nothing that an order of rows, another row, the clock or chance has a say in, and nothing unknown', async () => {
  for (const sql of [
    'SELECT grp, sum(rate) AS r FROM people GROUP BY grp',
    'SELECT grp, avg(rate) AS r FROM people GROUP BY grp',
    'SELECT grp, sum(pay * 1.5::DOUBLE) AS r FROM people GROUP BY grp',
    'SELECT grp, max(rate) AS r FROM people GROUP BY grp',
    'SELECT grp, sum(rate)::DECIMAL(10,2) AS r FROM people GROUP BY grp',
    'SELECT grp, stddev(pay) AS r FROM people GROUP BY grp',
    'SELECT grp, first(email) AS e FROM people GROUP BY grp',
    'SELECT grp, any_value(email) AS e FROM people GROUP BY grp',
    "SELECT grp, string_agg(email, ',') AS e FROM people GROUP BY grp",
    "SELECT grp, string_agg(email, ',' ORDER BY id) AS e FROM people GROUP BY grp",
    'SELECT grp, mode(email) AS e FROM people GROUP BY grp',
    'SELECT grp, arg_max(email, pay) AS e FROM people GROUP BY grp',
    'SELECT grp, max(email, 2) AS e FROM people GROUP BY grp',
    'SELECT grp, max(email COLLATE NOCASE) AS e FROM people GROUP BY grp',
    'SELECT city COLLATE NOCASE AS city, count(*) AS n FROM people GROUP BY 1',
    'SELECT rate, count(*) AS n FROM people GROUP BY rate',
    'SELECT lower(city) AS c, count(*) AS n FROM people GROUP BY c',
    'SELECT grp, lvl, count(*) AS n FROM people GROUP BY ROLLUP (grp, lvl)',
    'SELECT grp, lvl, count(*) AS n FROM people GROUP BY GROUPING SETS ((grp), (lvl))',
    'SELECT grp, count(*) AS n FROM people GROUP BY grp ORDER BY n LIMIT 3',
    'SELECT grp, count(*) AS n FROM people GROUP BY grp HAVING count(*) > (SELECT avg(pay) FROM staff)',
    'SELECT grp, count(*) AS n, sum(count(*)) OVER () AS all_n FROM people GROUP BY grp',
    'SELECT grp, count(*) AS n, max(now()) AS at FROM people GROUP BY grp',
    'SELECT count(*) AS n FROM people',
    'SELECT DISTINCT grp FROM people',
    'SELECT p.grp, s.city, count(*) AS n FROM people p JOIN staff s ON p.id = s.id GROUP BY p.grp, s.city',
    'SELECT p.id, s.city FROM people p RIGHT JOIN staff s ON p.id = s.id',
    'SELECT p.id, s.city FROM people p FULL JOIN staff s ON p.id = s.id',
    'SELECT p.id FROM people p SEMI JOIN staff s ON p.id = s.id',
    'SELECT p.id FROM people p ANTI JOIN staff s ON p.id = s.id',
    'SELECT p.id FROM people p NATURAL JOIN staff s',
    'SELECT p.id FROM people p ASOF JOIN staff s ON p.id >= s.id',
    'SELECT p.id FROM people p, staff s WHERE p.id = s.id',
    'SELECT p.id FROM people p JOIN staff s ON p.id > s.id',
    'SELECT p.id FROM people p JOIN staff s ON p.id = s.id OR p.pay = s.pay',
    'SELECT p.id FROM people p JOIN staff s ON p.id = s.pay + 1',
    'SELECT p.id FROM people p JOIN staff s ON p.email = s.id::VARCHAR',
    'SELECT p.id FROM people p JOIN staff s ON p.cost = s.id',
    'SELECT p.id FROM people p JOIN people s ON p.grp = s.id',
    'SELECT p.id FROM people p JOIN (SELECT * FROM staff LIMIT 3) s ON p.id = s.id',
    'SELECT p.id FROM people p JOIN staff s ON p.id = s.id AND s.pay = (SELECT max(pay) FROM seen)',
    'SELECT p.id, row_number() OVER () AS n FROM people p JOIN staff s ON p.id = s.id',
    'SELECT p.id, random() AS n FROM people p JOIN staff s ON p.id = s.id',
    'SELECT p.id FROM people p TABLESAMPLE 50% JOIN staff s ON p.id = s.id',
    'WITH s AS (SELECT * FROM staff) SELECT p.id FROM people p JOIN s ON p.id = s.id',
    'SELECT id FROM people UNION ALL SELECT id FROM staff',
  ]) {
    assert.equal(await partsOf(sql).catch(() => null), null, sql)
  }
})

it('does not let a LEFT JOIN bring the table that is taken in parts', async () => {
  const parts = await partsOf(
    'SELECT s.city, count(*) AS n FROM people p LEFT JOIN staff s ON p.id = s.id GROUP BY s.city',
  )
  assert.deepEqual(parts?.drivers, [])
})

it(`gives of the parts what it gives of the whole, and of what joins to them; seed ${SEED}`, async () => {
  const seeded = new Seeded(SEED)
  const some = new RandomQuery(seeded)
  const likely = new RandomParts(seeded)
  let [found, grouped, joined] = [0, 0, 0]
  for (let at = 0; at < 3000 && found < MOST; at += 1) {
    const sql = at % 10 === 0 ? some.statement() : likely.statement()
    const parts = await partsOf(sql).catch(() => null)
    for (const driver of parts?.drivers ?? []) {
      assert.ok(parts)
      const whole = await rowsOf(sql)
      if (whole === null) continue
      const keys = parts.groups?.map(({ column }) => column) ?? ['id']
      const told = `coalesce(hash(${keys.map((key) => `r.${quoteName(key)}`).join(', ')}) % 3, 0)`
      const made: string[] = []
      for (const condition of [`${told} = 0`, `${told} <> 0`]) {
        await restrict(reduced(parts, driver, condition))
        made.push(...((await rowsOf(sql)) ?? []))
      }
      await restrict({})
      assert.deepEqual(made.sort(), whole, `${driver}: ${sql}`)
      found += 1
      if (parts.groups !== null) grouped += 1
      if (parts.links.length > 0) joined += 1
    }
  }
  assert.ok(
    found >= MOST && grouped >= MOST / 5 && joined >= MOST / 3,
    `only ${found}, ${grouped} of groups, ${joined} of joins`,
  )
})

/** The driving table by the condition, and each other one by what it is joined to. */
function reduced({ links }: KeyedParts, driver: string, condition: string): Record<string, string> {
  const by: Record<string, string> = { [driver]: condition }
  for (let round = 0; round < links.length; round += 1) {
    for (const { left, right } of links) {
      for (const [from, to] of [
        [left, right],
        [right, left],
      ] as const) {
        const parent = by[from.table]
        if (parent === undefined || by[to.table] !== undefined) continue
        const values = `SELECT r.${quoteName(from.column)} FROM all_${from.table} AS r WHERE ${parent}`
        by[to.table] = `r.${quoteName(to.column)} IN (${values})`
      }
    }
  }
  return by
}

async function rowsOf(sql: string): Promise<string[] | null> {
  try {
    const statement = await prepare(connection, sql, [])
    return (await (await statement.run()).getRowsJson()).map((row) => JSON.stringify(row)).sort()
  } catch {
    return null
  }
}
