/** What the statements measure, against the same said over rows in JavaScript. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import fc from 'fast-check'
import type { AnomalyRule, Check } from '../manifest/manifest-set.ts'
import type { CheckTable } from './check-tables.ts'
import type { NumberProfile, Profile } from './distribution.ts'
import { type Measurement, measureStatements } from './measures.ts'
import type { Taught } from './taught.ts'

const OUTPUT: CheckTable = {
  name: ['staged "rows"'],
  schema: {
    primaryKey: [],
    columns: [
      { name: 'na"me', type: 'string', nullable: true },
      { name: 'score', type: 'double', nullable: true },
    ],
  },
}

type Row = readonly [name: string | null, score: number | null]

let connection: DuckDBConnection

before(async () => {
  connection = await (await DuckDBInstance.create(':memory:')).connect()
  await connection.run('CREATE TABLE "staged ""rows""" ("na""me" VARCHAR, score DOUBLE)')
})
after(() => connection?.closeSync())

async function measured(
  rows: readonly Row[],
  metric: AnomalyRule['metric'],
  column: string | null,
  profiles: readonly Profile[] = [],
): Promise<Measurement> {
  await connection.run('DELETE FROM "staged ""rows"""')
  for (const [name, score] of rows) {
    const text = name === null ? 'NULL' : `'${name.replaceAll("'", "''")}'`
    await connection.run(
      `INSERT INTO "staged ""rows""" VALUES (${text}, ${score === null ? 'NULL' : `'${score}'::DOUBLE`})`,
    )
  }
  const rule = {
    kind: 'anomaly',
    metric,
    column,
    sensitivity: 'normal',
    minHistory: 3,
    window: 9,
    learnFrom: null,
  } as const
  const check = { name: 'c', rule } as unknown as Check
  const taught: Taught = { epochs: profiles.length, values: [], profiles }
  const [statement] = measureStatements([check], OUTPUT, new Map([['c', taught]]))
  assert.ok(statement)
  return statement.read((await connection.runAndReadAll(statement.sql)).getRows())
}

const NAMES = ['ada', "o'neil", '', 'bob', 'ünï', 'a"b'] as const
const rows = fc.array(
  fc.tuple(
    fc.option(fc.constantFrom(...NAMES)),
    fc.option(fc.constantFrom(-1, 0, 2.5, 10, 1e300, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)),
  ),
  { maxLength: 25 },
)

const plain = (all: readonly Row[]) => all.flatMap(([name]) => (name === null ? [] : [name]))
const numbers = (all: readonly Row[]) => all.flatMap(([, score]) => (score === null ? [] : [score]))

/** The index as it is written in books, of counts that were taken one by one. */
function index(expected: readonly number[], actual: readonly number[]): number {
  let total = 0
  const [e, a] = [expected, actual].map((counts) => counts.reduce((all, count) => all + count, 0) + counts.length / 2)
  for (const [at, count] of expected.entries()) {
    const [was, is] = [(count + 0.5) / (e as number), ((actual[at] as number) + 0.5) / (a as number)]
    total += (is - was) * Math.log(is / was)
  }
  return total
}

/** Of numbers below the lowest edge, up to each in turn, and of the rest: one that is none lies beyond every edge. */
function bucketed(all: readonly number[], edges: readonly number[]): readonly number[] {
  const found: number[] = Array(edges.length + 2).fill(0)
  for (const one of all) {
    const at = Number.isNaN(one) ? -1 : edges.findIndex((edge) => one <= edge)
    const isBelow = edges[0] !== undefined && one < edges[0]
    const bucket = isBelow ? 0 : at < 0 ? edges.length + 1 : at + 1
    found[bucket] = (found[bucket] as number) + 1
  }
  return found
}

const RUNS = { numRuns: 40 }

describe('what anomaly checks measure', () => {
  it('is rows, the share without a value, and different values', async () => {
    await fc.assert(
      fc.asyncProperty(rows, async (all) => {
        assert.equal((await measured(all, 'row_count', null)).value, all.length)
        const lacking = all.filter(([name]) => name === null).length
        const share = await measured(all, 'null_share', 'na"me')
        assert.deepEqual([share.value, share.rows], [all.length === 0 ? null : lacking / all.length, all.length])
        assert.equal((await measured(all, 'distinct', 'na"me')).value, new Set(plain(all)).size)
      }),
      RUNS,
    )
  })

  it('is how far numbers lie from where they lay, each epoch by its own buckets', async () => {
    await fc.assert(
      fc.asyncProperty(rows, rows, rows, async (first, second, now) => {
        const before: Profile[] = []
        for (const earlier of [first, second]) {
          const { profile } = await measured(earlier, 'drift', 'score')
          assert.ok(profile?.kind === 'numbers')
          assert.deepEqual(profile.counts, bucketed(numbers(earlier), profile.edges))
          assert.deepEqual(
            profile.edges,
            [...new Set(profile.edges)].toSorted((a, b) => a - b),
          )
          before.push(profile)
        }
        const { value } = await measured(now, 'drift', 'score', before)
        const known = (before as NumberProfile[]).filter(({ counts }) => counts.some((count) => count > 0))
        if (known.length === 0 || numbers(now).length === 0) return assert.equal(value, null)
        const each = known.map(({ edges, counts }) => index(counts, bucketed(numbers(now), edges)))
        const expected = each.reduce((all, one) => all + one, 0) / each.length
        assert.ok(Math.abs((value as number) - expected) < 1e-5, `${value} is not ${expected}`)
      }),
      RUNS,
    )
  })

  it('is how far categories lie from where they lay; those that are new count as others', async () => {
    await fc.assert(
      fc.asyncProperty(rows, rows, async (earlier, now) => {
        const { profile } = await measured(earlier, 'drift', 'na"me')
        assert.ok(profile?.kind === 'categories')
        const known = [...new Set(plain(earlier))]
        assert.equal(profile.others, 0, 'fewer than are named each')
        const of = (all: readonly string[]) => [
          ...known.map((name) => all.filter((one) => one === name).length),
          all.filter((one) => !known.includes(one)).length,
        ]
        const { value } = await measured(now, 'drift', 'na"me', [profile])
        if (known.length === 0 || plain(now).length === 0) return assert.equal(value, null)
        const expected = index(of(plain(earlier)), of(plain(now)))
        assert.ok(Math.abs((value as number) - expected) < 1e-5, `${value} is not ${expected}`)
      }),
      RUNS,
    )
  })

  it('names no category: the rarest of many are one', async () => {
    const many = Array.from({ length: 60 }, (_, at): Row => [`secret-${at % 30}`, null])
    const { profile } = await measured([...many, ['secret-0', null]], 'drift', 'na"me')
    assert.ok(profile?.kind === 'categories')
    assert.deepEqual([profile.names.length, profile.counts[0], profile.others], [20, 3, 20])
    assert.doesNotMatch(JSON.stringify(profile), /secret/)
  })

  it('tells of numbers below all that there were, and of those above', async () => {
    const always = (score: number) => Array.from({ length: 200 }, (): Row => [null, score])
    const { profile } = await measured(always(5), 'drift', 'score')
    assert.deepEqual(profile, { kind: 'numbers', edges: [5], counts: [0, 200, 0] })
    for (const [now, drifts] of [
      [3, true],
      [5, false],
      [7, true],
    ] as const) {
      const { value } = await measured(always(now), 'drift', 'score', profile === undefined ? [] : [profile])
      assert.equal((value as number) > 1, drifts, `${now}: ${value}`)
    }
  })

  it('compares with no profile of other buckets', async () => {
    const older = { kind: 'numbers', edges: [5], counts: [200, 0] } as const
    assert.equal((await measured([[null, 3]], 'drift', 'score', [older])).value, null)
  })

  it('has buckets of many numbers, each of about a tenth', async () => {
    const many = Array.from({ length: 1000 }, (_, at): Row => [null, (at * 7919) % 1000])
    const { profile } = await measured(many, 'drift', 'score')
    assert.ok(profile?.kind === 'numbers' && profile.counts.length === 11)
    const [least = 0, lowest = 0, ...others] = profile.counts
    assert.ok(
      [least + lowest, ...others].every((count) => count > 60 && count < 140),
      JSON.stringify(profile.counts),
    )
    const shifted = await measured(
      many.map(([, score]): Row => [null, (score as number) + 400]),
      'drift',
      'score',
      [profile],
    )
    assert.ok((shifted.value as number) > 1, String(shifted.value))
  })
})
