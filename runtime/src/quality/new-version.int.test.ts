/** What two versions of a table differ in, as the engine counts it, against a plain walk over both. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { LogicalType } from '@sluice/sdk'
import fc from 'fast-check'
import type { Threshold, VersionBound } from '../manifest/manifest-set.ts'
import { comparisonSql, judgeComparison } from './new-version.ts'

let instance: DuckDBInstance
let connection: DuckDBConnection

before(async () => {
  instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  connection = await instance.connect()
})

after(() => {
  connection.closeSync()
  instance.closeSync()
})

/** Identity ("i d", k); "ci""ty" and n; n is written as text in the table before where it has changed its type. */
interface Row {
  readonly id: number
  readonly k: string
  readonly city: string | null
  readonly n: number | null
}

const row: fc.Arbitrary<Row> = fc.record({
  id: fc.integer({ min: -2, max: 3 }),
  k: fc.constantFrom('', 'x', "o'neil"),
  city: fc.constantFrom(null, '', 'Basel', 'null'),
  n: fc.constantFrom(null, 0, 1, -7, 2_147_483_647),
})
const keyOf = ({ id, k }: Row) => `${id}/${k}`
const table = fc.uniqueArray(row, { maxLength: 14, selector: keyOf })
const atMost: fc.Arbitrary<Threshold> = fc.oneof(
  fc.record({ rows: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ percent: fc.constantFrom(0, 0.5, 10, 25, 50, 99.9, 100) }),
)

const schemaOf = (name: string, n: LogicalType, key: readonly string[] = ['i d', 'k']) => ({
  name,
  primaryKey: key,
  columns: [
    { name: 'i d', type: 'integer' as const, nullable: false },
    { name: 'k', type: 'string' as const, nullable: false },
    { name: 'ci"ty', type: 'string' as const, nullable: true },
    { name: 'n', type: n, nullable: true },
  ],
})

const quoted = (value: string | number | null) =>
  value === null ? 'NULL' : typeof value === 'number' ? `${value}` : `'${value.replaceAll("'", "''")}'`

async function load(name: string, n: string, rows: readonly Row[]): Promise<void> {
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE "${name}" ("i d" INTEGER, k VARCHAR, "ci""ty" VARCHAR, n ${n}, "only ${name}" BOOLEAN)`,
  )
  const values = rows.map((one) => `(${[one.id, one.k, one.city, one.n].map(quoted).join(', ')}, NULL)`)
  if (values.length > 0) await connection.run(`INSERT INTO "${name}" VALUES ${values.join(', ')}`)
}

async function counts(sql: string | null): Promise<readonly number[] | null> {
  if (sql === null) return null
  return ((await (await connection.run(sql)).getRowsJS())[0] ?? []).map(Number)
}

async function judged(tables: Parameters<typeof comparisonSql>[0], accepted = false) {
  const sql = comparisonSql(tables)
  const found = { former: await counts(sql.former), next: await counts(sql.next), matched: await counts(sql.matched) }
  return judgeComparison(tables, found, { accepted, classesOf: (columns) => columns.filter((name) => name === 'n') })
}

const BOUNDS = (most: readonly Threshold[]): readonly VersionBound[] => [
  { metric: 'rows', column: null, atMost: most[0] as Threshold },
  { metric: 'leaving', column: null, atMost: most[1] as Threshold },
  { metric: 'joining', column: null, atMost: most[2] as Threshold },
  { metric: 'changed', column: 'ci"ty', atMost: most[3] as Threshold },
  { metric: 'changed', column: 'n', atMost: most[4] as Threshold },
  { metric: 'null_share', column: 'n', atMost: { percent: 25 } },
  { metric: 'changed', column: 'only next', atMost: { rows: 0 } },
]

/** By walking over both: what differs, and of how many. */
function walked(earlier: readonly Row[], later: readonly Row[]): readonly (readonly [number, number])[] {
  let [gone, added, city, n] = [0, 0, 0, 0]
  for (const one of earlier) {
    const now = later.find((other) => other.id === one.id && other.k === one.k)
    if (now === undefined) gone += 1
    else {
      if (now.city !== one.city) city += 1
      if (now.n !== one.n) n += 1
    }
  }
  for (const one of later) if (!earlier.some((other) => keyOf(other) === keyOf(one))) added += 1
  const [before, now, both] = [earlier.length, later.length, earlier.length - gone]
  return [
    [now > before ? now - before : before - now, before],
    [gone, before],
    [added, before],
    [city, both],
    [n, both],
  ]
}

it('is counted as by hand, and held against its bounds', async () => {
  const world = fc.tuple(table, table, fc.array(atMost, { minLength: 5, maxLength: 5 }), fc.boolean(), fc.boolean())
  await fc.assert(
    fc.asyncProperty(world, async ([earlier, later, most, wasText, accepted]) => {
      await load('former', wasText ? 'VARCHAR' : 'INTEGER', earlier)
      await load('next', 'INTEGER', later)
      const next = { ...schemaOf('next', 'integer') }
      next.columns.push({ name: 'only next', type: 'string', nullable: true })
      const results = await judged(
        { bounds: BOUNDS(most), former: schemaOf('former', wasText ? 'string' : 'integer'), next },
        accepted,
      )
      const expected = walked(earlier, later)
      for (const [index, [differing, of]] of expected.entries()) {
        const { violations, total, passed, severity, name, compared } = results[index] as (typeof results)[number]
        const bound = most[index] as Threshold
        const isWithin = 'rows' in bound ? differing <= bound.rows : differing <= (bound.percent / 100) * of + 1e-9
        assert.deepEqual([violations, total, passed], [differing, of, isWithin], name)
        assert.deepEqual([severity, compared?.accepted], [accepted ? 'warn' : 'error', accepted], name)
      }
      const [nulls, fresh] = results.slice(5)
      const shareOf = (rows: readonly Row[]) => rows.filter(({ n }) => n === null).length / rows.length
      const difference = Math.abs(shareOf(later) - shareOf(earlier))
      const isWithin = earlier.length === 0 || later.length === 0 || difference <= 0.25 + 1e-9
      assert.equal(nulls?.passed, isWithin, 'null_share')
      assert.deepEqual([fresh?.passed, fresh?.total], [true, 0], 'a column that is new')
    }),
    { numRuns: 120 },
  )
})

it('of text that is no value of the new type has changed, and what cannot be matched has not passed', async () => {
  await connection.run(`CREATE OR REPLACE TEMP TABLE former AS SELECT * FROM
    (VALUES (1, '', NULL, 'five'), (2, '', NULL, '5'), (3, '', NULL, NULL), (4, '', NULL, 'four')) v("i d", k, "ci""ty", n)`)
  await connection.run(`CREATE OR REPLACE TEMP TABLE next AS SELECT * FROM
    (VALUES (1, '', NULL, 5), (2, '', NULL, 5), (3, '', NULL, NULL), (4, '', NULL, NULL)) v("i d", k, "ci""ty", n)`)
  const bounds = BOUNDS(Array.from({ length: 5 }, () => ({ rows: 1 })))
  const tables = { bounds, former: schemaOf('former', 'string'), next: schemaOf('next', 'integer') }
  const changed = (await judged(tables))[4]
  assert.deepEqual([changed?.violations, changed?.total, changed?.passed], [2, 4, false])
  assert.deepEqual(changed?.reads, { output: ['i d', 'k', 'n'], raw: [], classes: ['n'] })
  const others = await judged({ ...tables, former: schemaOf('former', 'string', ['i d']) })
  assert.deepEqual(
    others.map(({ violations }) => violations),
    [0, null, null, null, null, 0, null],
  )
})
