import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { Seeded } from '../../../test/crash/seeded.ts'
import { openDuckDb, prepare } from '../child/duckdb.ts'
import { GOOD } from './guard.fixture.ts'
import { qualifiedNames } from './names.ts'
import { tableKey } from './tree.ts'

let connection: DuckDBConnection

before(async () => {
  connection = await openDuckDb()
})

const named = (sql: string) => qualifiedNames(sql).map(({ schema, table }) => `${schema}.${table}`)

/** The tables with a schema in DuckDB's own tree; null where it takes the text for no statement. */
async function tablesOf(sql: string): Promise<readonly string[] | null> {
  const statement = await prepare(connection, 'SELECT json_serialize_sql($1::VARCHAR)::VARCHAR', [sql])
  const tree = JSON.parse(String((await (await statement.run()).getRows())[0]?.[0])) as { error: boolean }
  if (tree.error) return null
  const found: string[] = []
  const walk = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, schema_name: schema, table_name: table } = node as Readonly<Record<string, unknown>>
    if (type === 'BASE_TABLE' && schema !== '') found.push(tableKey([String(schema), String(table)]))
    for (const value of Object.values(node)) walk(value)
  }
  walk(tree)
  return found
}

/** Blanks and comments, some of which hold what would be a name elsewhere. */
const BETWEEN = [
  ' ',
  '\n\t',
  '\u00a0',
  '\u200b',
  '\u2060\ufeff',
  '\u3000',
  '/**/',
  '/* decoy.in_comment */',
  '/* " \' */',
  '/* /* decoy.deep */ decoy.less */',
  '-- decoy.line " \'\n',
  '--\r',
]
const TEXTS = [
  "'decoy.text'",
  "'it''s decoy.quoted'",
  "e'\\' decoy.escaped'",
  "E'\\\\'",
  "'\\'",
  '$$ decoy.dollars \' " $$',
  "$tag$ decoy.tagged $$ ' $tag$",
  "'/*'",
  "'--'",
  "'\"'",
  "x'ab'",
]
const SCHEMAS = ['sales', '"sales"', 'SALES', '"a.b"', '"it""s"', 'straße', '"--"', 's$$x', '_1']
const TABLES = ['orders', '"orders@v1.2.0"', '"public.orders"', 'été', '"/*"', '"\'"', 'e', 'E1', '"o""o"']

describe('names of tables', () => {
  it('are all that DuckDB finds in a statement, and none of a text or a comment', async () => {
    const random = new Seeded(7)
    let parsed = 0
    for (let at = 0; at < 1_500; at += 1) {
      const gap = () => Array.from({ length: 1 + random.below(2) }, () => random.pick(BETWEEN)).join('')
      const table = () => `${random.pick(SCHEMAS)}${gap()}.${gap()}${random.pick(TABLES)}`
      const head = `SELECT${gap()}${random.pick(TEXTS)}${gap()},${gap()}t${gap()}.x${gap()}FROM${gap()}${table()}`
      const sql = `${head}${gap()}t${gap()}JOIN${gap()}${table()}${gap()}AS u ON${gap()}${random.pick(TEXTS)}${gap()}= 1.5`
      const names = qualifiedNames(sql)
      const tables = await tablesOf(sql)
      if (tables === null) continue
      parsed += 1
      const found = new Set(names.map(({ schema, table: name }) => tableKey([schema, name])))
      assert.deepEqual(
        // Behind a comment with a quote in it DuckDB takes blanks of other scripts for letters: no table has such a name.
        tables.filter((key) => !found.has(key) && !/[\u00a0\u200b\u2060\u3000\ufeff]/.test(key)),
        [],
        JSON.stringify(sql),
      )
      assert.ok(!names.some(({ schema }) => schema === 'decoy'), JSON.stringify(sql))
    }
    assert.ok(parsed > 250, `only ${parsed} of the statements are DuckDB's`)
  })

  it('are all that the statements of the guard read', async () => {
    for (const sql of GOOD) {
      const found = new Set(qualifiedNames(sql).map(({ schema, table }) => tableKey([schema, table])))
      for (const key of (await tablesOf(sql)) ?? []) assert.ok(found.has(key), `${sql}: ${key}`)
    }
  })

  it('are as they are written, each once, in the order of the text', () => {
    const sql = 'SELECT o.id FROM Sales.Orders o JOIN "sales" . "orders@v1" p USING (id), Sales.Orders'
    assert.deepEqual(named(sql), ['o.id', 'Sales.Orders', 'sales.orders@v1'])
    assert.deepEqual(named('SELECT a.b.c'), ['a.b', 'b.c'])
    assert.deepEqual(named('SELECT 1.5, 2.e3, .7, x'), [])
  })

  it('are told of text that is no statement, and in the time of its length', () => {
    for (const sql of ['', '.', 'a.', '.b', "a.'b", '"', 'a."b', 'a./*b', 'a.$$b', '/*', "e'\\", 'a."b"""']) {
      assert.ok(named(sql).length <= 1, sql)
    }
    // The square of this number of steps would take minutes.
    for (const word of ['a', 'a.', '"', 'a"', "'", "e'", '/*', '$a', '$', '$$', '--', 'a."a@', '""', "''"]) {
      qualifiedNames(word.repeat(100_000))
    }
  })
})
