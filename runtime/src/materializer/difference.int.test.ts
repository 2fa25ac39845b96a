import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { TableSchema } from '@sluice/sdk'
import fc from 'fast-check'
import { difference, keyViolations, mergeSelect, unseenSelect } from './difference.ts'

/** Key (a, "b""c"), value v. */
const SCHEMA: TableSchema = {
  primaryKey: ['a', 'b"c'],
  columns: [
    { name: 'v', type: 'double', nullable: true },
    { name: 'a', type: 'integer', nullable: false },
    { name: 'b"c', type: 'string', nullable: false },
  ],
}

type Cells = readonly [v: number | null, a: number | null, b: string | null]

const row: fc.Arbitrary<Cells> = fc.tuple(
  fc.constantFrom<(number | null)[]>(null, 0, 1, 2.5, Number.NaN, Number.POSITIVE_INFINITY),
  fc.integer({ min: 0, max: 3 }),
  fc.constantFrom('', 'x', "o'neil"),
)
const table = fc.uniqueArray(row, { maxLength: 10, selector: keyOf })

function keyOf([, a, b]: Cells): string {
  return JSON.stringify([a, b])
}

function textOf(cells: readonly unknown[]): string {
  return JSON.stringify(cells.map((cell) => (typeof cell === 'number' ? String(cell) : cell)))
}

function literal(cell: number | string | null): string {
  if (cell === null) return 'NULL'
  return typeof cell === 'string' ? `'${cell.replaceAll("'", "''")}'` : `'${cell}'`
}

describe('the SQL that separates two states of a table', () => {
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

  async function load(name: string, rows: readonly Cells[]): Promise<void> {
    await connection.run(`CREATE OR REPLACE TEMP TABLE ${name} (v DOUBLE, a INTEGER, "b""c" VARCHAR)`)
    const values = rows.map((cells) => `(${cells.map(literal).join(', ')})`)
    if (values.length > 0) await connection.run(`INSERT INTO ${name} VALUES ${values.join(', ')}`)
  }

  async function select(sql: string): Promise<readonly string[]> {
    return (await (await connection.run(sql)).getRowsJS()).map(textOf).sort()
  }

  function property(check: (earlier: readonly Cells[], later: readonly Cells[]) => Promise<void>): Promise<void> {
    return fc.assert(
      fc.asyncProperty(table, table, async (earlier, later) => {
        await load('earlier', earlier)
        await load('later', later)
        await check(earlier, later)
      }),
      { numRuns: 150 },
    )
  }

  it('finds the rows that are new or other, and the keys that are gone', async () => {
    const sql = difference('earlier', 'later', SCHEMA)
    await property(async (earlier, later) => {
      const known = new Map(earlier.map((cells) => [keyOf(cells), textOf(cells)]))
      const upserts = later.filter((cells) => known.get(keyOf(cells)) !== textOf(cells))
      const kept = new Set(later.map(keyOf))
      const deletes = earlier.filter((cells) => !kept.has(keyOf(cells))).map(([, a, b]) => [a, b])
      assert.deepEqual(await select(sql.upserts), upserts.map(textOf).sort())
      assert.deepEqual(await select(sql.deletes), deletes.map(textOf).sort())
    })
  })

  it('merges: a key of the output takes the place of the one before', async () => {
    await property(async (earlier, later) => {
      const merged = new Map([...earlier, ...later].map((cells) => [keyOf(cells), textOf(cells)]))
      assert.deepEqual(await select(mergeSelect('earlier', 'later', SCHEMA)), [...merged.values()].sort())
    })
  })

  it('appends only keys that have not been seen', async () => {
    await property(async (earlier, later) => {
      const seen = new Set(earlier.map(keyOf))
      const added = later.filter((cells) => !seen.has(keyOf(cells)))
      assert.deepEqual(await select(unseenSelect('earlier', 'later', SCHEMA)), added.map(textOf).sort())
    })
  })

  it('appends without a key what comes more often than before, nulls and repeated rows included', async () => {
    const schema: TableSchema = { ...SCHEMA, primaryKey: [] }
    const cells = fc.tuple(
      fc.constantFrom<(number | null)[]>(null, 1, Number.NaN),
      fc.option(fc.integer({ min: 0, max: 1 })),
      fc.constantFrom('x', null),
    )
    const rows = fc.array(cells, { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(rows, rows, async (earlier, later) => {
        await load('earlier', earlier)
        await load('later', later)
        const left = earlier.map(textOf)
        const added = later.map(textOf).filter((text) => {
          const at = left.indexOf(text)
          if (at >= 0) left.splice(at, 1)
          return at < 0
        })
        const unseen = unseenSelect('earlier', 'later', schema)
        assert.deepEqual(await select(unseen), added.sort())
        const all = await select(`SELECT v, a, "b""c" FROM earlier UNION ALL ${unseen}`)
        assert.deepEqual(all, [...earlier.map(textOf), ...added].sort())
      }),
      { numRuns: 150 },
    )
  })

  it('counts rows with a null in the key and keys that come again', async () => {
    const cells = fc.tuple(fc.constant(null), fc.option(fc.integer({ min: 0, max: 2 })), fc.constantFrom('x', null))
    await fc.assert(
      fc.asyncProperty(fc.array(cells, { maxLength: 10 }), async (rows) => {
        await load('earlier', rows)
        const counts = new Map<string, number>()
        for (const one of rows) counts.set(keyOf(one), (counts.get(keyOf(one)) ?? 0) + 1)
        const nulls = rows.filter(([, a, b]) => a === null || b === null).length
        const repeated = [...counts.values()].filter((count) => count > 1).length
        const [found] = await (await connection.run(keyViolations('earlier', SCHEMA))).getRowsJS()
        assert.deepEqual(found?.map(Number), [nulls, repeated])
      }),
      { numRuns: 100 },
    )
  })
})
