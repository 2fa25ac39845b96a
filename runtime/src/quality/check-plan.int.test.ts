import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { TableSchema } from '@sluice/sdk'
import fc from 'fast-check'
import type { Check, Rule } from '../manifest/manifest-set.ts'
import { counting, countsOf, planChecks } from './check-plan.ts'
import type { CheckCount, CheckTable, CheckTables } from './check-tables.ts'
import { literal } from './literal.ts'
import { quarantineCondition } from './verdict.ts'

const SCHEMA: TableSchema = {
  primaryKey: ['id'],
  columns: [
    { name: 'id', type: 'integer', nullable: true },
    { name: 'na"me', type: 'string', nullable: true },
    { name: 'score', type: 'double', nullable: true },
    { name: 'seen', type: 'date', nullable: true },
  ],
}
const OUTPUT: CheckTable = { name: ['staged "rows"'], schema: SCHEMA }
const PARENTS: CheckTable = {
  name: ['parents'],
  schema: { primaryKey: [], columns: [{ name: 'id', type: 'integer', nullable: true }] },
}
const NOW = Date.UTC(2026, 5, 15, 12)
const TABLES: CheckTables = { output: OUTPUT, inputs: new Map([['parents', PARENTS]]), nowMs: NOW }

interface Data {
  readonly id: number | null
  readonly name: string | null
  readonly score: number | null
  readonly seen: string | null
}

const NAMES = ['ada', "o'neil", '{{this}}', 'bob', ''] as const

const rows = fc.array(
  fc.record({
    id: fc.option(fc.integer({ min: 0, max: 6 })),
    name: fc.option(fc.constantFrom(...NAMES)),
    score: fc.option(fc.constantFrom(-1, 0, 2.5, 10, 11, Number.NaN, Number.POSITIVE_INFINITY)),
    seen: fc.option(fc.constantFrom('2026-06-01', '2026-06-13', '2026-06-14')),
  }),
  { maxLength: 12 },
)

const PARENT_IDS = [1, 2, 3]

function check(name: string, rule: Rule): Check {
  const rest = {
    severity: 'error',
    dimension: 'validity',
    weight: 1,
    threshold: { rows: 0 },
    onError: 'block',
  } as const
  return { name, description: '', ...rest, rule }
}

/** Every rule about rows, with what it means said once more in JavaScript. */
const ROW_RULES: readonly (readonly [Rule, (row: Data, all: readonly Data[]) => boolean])[] = [
  [{ kind: 'not_null', columns: ['id', 'na"me'] }, (row) => row.id === null || row.name === null],
  [
    { kind: 'accepted_values', column: 'na"me', values: ["o'neil", '{{this}}'] },
    (row) => row.name !== null && row.name !== "o'neil" && row.name !== '{{this}}',
  ],
  [
    { kind: 'range', column: 'score', min: 0, max: '10', exclusive: false },
    (row) => row.score !== null && !(row.score >= 0 && row.score <= 10),
  ],
  [
    { kind: 'range', column: 'score', min: 0, max: null, exclusive: true },
    (row) => row.score !== null && !(row.score > 0),
  ],
  [
    { kind: 'matches', column: 'na"me', pattern: "[a-z']{3,}" },
    (row) => row.name !== null && !/^[a-z']{3,}$/.test(row.name),
  ],
  [
    { kind: 'unique', columns: ['id', 'na"me'] },
    (row, all) =>
      row.id !== null && row.name !== null && all.filter((it) => it.id === row.id && it.name === row.name).length > 1,
  ],
  [
    { kind: 'references', columns: ['id'], input: 'parents', inputColumns: ['id'] },
    (row) => row.id !== null && !PARENT_IDS.includes(row.id),
  ],
]

describe('planChecks', () => {
  let instance: DuckDBInstance
  let connection: DuckDBConnection

  before(async () => {
    instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    connection = await instance.connect()
    await connection.run('CREATE TABLE parents (id INTEGER)')
    await connection.run('INSERT INTO parents VALUES (1), (2), (3), (NULL)')
  })
  after(() => {
    connection.closeSync()
    instance.closeSync()
  })

  async function fill(data: readonly Data[]): Promise<void> {
    await connection.run(
      'CREATE OR REPLACE TABLE "staged ""rows""" (id INTEGER, "na""me" VARCHAR, score DOUBLE, seen DATE)',
    )
    if (data.length === 0) return
    const values = data.map(
      (row) =>
        `(${literal(row.id, 'integer')}, ${literal(row.name, 'string')}, ${literal(row.score, 'double')}, ${literal(row.seen, 'date')})`,
    )
    await connection.run(`INSERT INTO "staged ""rows""" VALUES ${values.join(', ')}`)
  }

  async function firstRow(sql: string): Promise<readonly unknown[]> {
    return (await connection.runAndReadAll(sql)).getRows()[0] ?? []
  }

  async function countAll(checks: readonly Check[], tables = TABLES): Promise<ReadonlyMap<string, CheckCount>> {
    const plan = planChecks(checks, tables)
    const counts = [...plan.counts]
    for (const statement of plan.statements) counts.push(...countsOf(statement, await firstRow(statement.sql)))
    return new Map(counts.map((count) => [count.name, count]))
  }

  async function countOne(rule: Rule, tables = TABLES): Promise<number | undefined> {
    return (await countAll([check('it', rule)], tables)).get('it')?.violations
  }

  it('counts what each rule means, and puts exactly those rows aside', async () => {
    const checks = ROW_RULES.map(([rule], index) => check(`check ${index}`, rule))
    const { badRows } = planChecks(checks, TABLES)
    await fc.assert(
      fc.asyncProperty(rows, async (data) => {
        await fill(data)
        const counts = await countAll(checks)
        for (const [index, [rule, violates]] of ROW_RULES.entries()) {
          const expected = data.filter((row) => violates(row, data)).length
          const name = `check ${index}`
          assert.deepEqual(counts.get(name), { name, violations: expected, total: data.length }, rule.kind)
          const aside = quarantineCondition([name], badRows)
          const [bad, good] = await firstRow(
            `SELECT count(*) FILTER (WHERE ${aside}), count(*) FILTER (WHERE NOT (${aside})) FROM "staged ""rows""" AS "this"`,
          )
          assert.deepEqual([Number(bad), Number(good)], [expected, data.length - expected], rule.kind)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('counts the rules that need only the row in one pass', () => {
    const checks = ROW_RULES.map(([rule], index) => check(`check ${index}`, rule))
    const { statements } = planChecks(checks, TABLES)
    assert.deepEqual(statements[0]?.checks, ['check 0', 'check 1', 'check 2', 'check 3'])
    assert.equal(statements.length, 4)
    const many = Array.from({ length: 120 }, (_, index) => check(`c${index}`, { kind: 'not_null', columns: ['id'] }))
    assert.deepEqual(
      planChecks(many, TABLES).statements.map((statement) => statement.checks.length),
      [50, 50, 20],
    )
  })

  it('holds row counts, freshness and schemas to their bounds', async () => {
    const row: Data = { id: 1, name: 'ada', score: 1, seen: '2026-06-13' }
    await fill([row, { ...row, seen: '2026-06-01' }])
    assert.equal(await countOne({ kind: 'row_count', min: 2, max: 2 }), 0)
    assert.equal(await countOne({ kind: 'row_count', min: 3, max: null }), 1)
    assert.equal(await countOne({ kind: 'row_count', min: null, max: 1 }), 1)
    const day = 86_400_000
    // At noon of the 15th, the 13th ended one and a half days ago.
    assert.equal(await countOne({ kind: 'freshness', column: 'seen', maxAgeMs: 2 * day }), 0)
    assert.equal(await countOne({ kind: 'freshness', column: 'seen', maxAgeMs: day }), 1)
    await fill([])
    assert.equal(await countOne({ kind: 'freshness', column: 'seen', maxAgeMs: 1000 * day }), 1)
    assert.equal(await countOne({ kind: 'schema', input: null, columns: ['id', 'SCORE'], exact: false }), 0)
    assert.equal(await countOne({ kind: 'schema', input: null, columns: ['id', 'gone'], exact: true }), 4)
    assert.equal(await countOne({ kind: 'schema', input: 'parents', columns: ['id'], exact: true }), 0)
  })

  it('reads timestamps without a zone as UTC and those with one by instant', async () => {
    for (const [type, sqlType] of [
      ['timestamp', 'TIMESTAMP'],
      ['timestamptz', 'TIMESTAMPTZ'],
    ] as const) {
      const output: CheckTable = {
        name: [type],
        schema: { primaryKey: [], columns: [{ name: 'at', type, nullable: true }] },
      }
      await connection.run(`CREATE OR REPLACE TABLE ${type} ("at" ${sqlType})`)
      await connection.run(
        `INSERT INTO ${type} VALUES (${literal(type === 'timestamp' ? '2026-06-15T11:00:00' : '2026-06-15T11:00:00Z', type)})`,
      )
      const fresh = (maxAgeMs: number) => countOne({ kind: 'freshness', column: 'at', maxAgeMs }, { ...TABLES, output })
      assert.equal(await fresh(3_600_000), 0, type)
      assert.equal(await fresh(3_599_999), 1, type)
    }
  })

  it('counts the rows of a query of the tenant, or the number it gives', async () => {
    await fill([
      { id: 1, name: 'ada', score: 1, seen: null },
      { id: 2, name: null, score: 1, seen: null },
    ])
    const [query] = planChecks(
      [check('q', { kind: 'sql', sql: 'SELECT id FROM {{ this }} -- {{this}}' })],
      TABLES,
    ).tenantChecks
    assert.equal(query?.sql, 'SELECT id FROM "staged ""rows""" -- "staged ""rows"""')
    const statement = (sql: string, columns: readonly string[]) => {
      const { before, after } = counting(columns, OUTPUT)
      return { sql: `${before}${sql}${after}`, checks: ['q'] }
    }
    const count = async (sql: string, columns: readonly string[]) => {
      const asked = statement(sql, columns)
      return countsOf(asked, await firstRow(asked.sql))[0]
    }
    assert.deepEqual(await count(query?.sql ?? '', ['id']), { name: 'q', violations: 2, total: 2 })
    assert.deepEqual(await count('SELECT 7 AS violations', ['violations']), { name: 'q', violations: 7, total: 2 })
    assert.deepEqual(await count('SELECT NULL AS violations', ['violations']), { name: 'q', violations: 0, total: 2 })
    assert.deepEqual(await count('SELECT 7 AS violations, 1 AS b', ['violations', 'b']), {
      name: 'q',
      violations: 1,
      total: 2,
    })
  })

  it('refuses a row that is not what was asked for', () => {
    const statement = { sql: '', checks: ['a'] }
    assert.throws(() => countsOf(statement, [1n]), /other columns/)
    assert.throws(() => countsOf(statement, [1n, 'x']), /no number/)
  })
})
