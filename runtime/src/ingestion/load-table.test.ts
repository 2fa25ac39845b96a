/** Which rows count of those that came, and when the keys that a source gives are no measure of what is gone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import type { Column, LogicalType } from '@sluice/sdk'
import { newestByKey, SweepHeld, sweepOf, unlikeKeys } from './load-table.ts'
import type { ReadOutcome } from './read-table.ts'

const keysRead = (rejected: number) => ({ outcome: () => ({ rowCount: 5, bytes: 9, rejected }) as ReadOutcome })

test('a read of keys that rejected some takes nothing away', () => {
  const found = { unexplained: 1, outdated: 2 }
  assert.deepEqual(sweepOf(keysRead(0), { gone: 3, ...found }), { removed: 3, keys: 5, bytes: 9, ...found })
  assert.deepEqual(sweepOf(keysRead(2), { gone: 0, ...found }).removed, 0)
  assert.throws(() => sweepOf(keysRead(2), { gone: 3, ...found }), SweepHeld)
})

test('keys of another type than those of the rows are compared with none', () => {
  const columns = (id: LogicalType, v: LogicalType): readonly Column[] => [
    { name: 'id', type: id, nullable: false },
    { name: 'v', type: v, nullable: true },
  ]
  const rows = { columns: columns('long', 'string'), primaryKey: ['id'] }
  assert.equal(unlikeKeys({ columns: columns('long', 'json') }, rows), null)
  assert.ok(unlikeKeys({ columns: columns('json', 'string') }, rows) instanceof SweepHeld)
  assert.ok(unlikeKeys({ columns: [] }, rows) instanceof SweepHeld)
})

test('of a key that comes more than once the newest counts, of rows as new as it the last', async () => {
  await using cleanup = new AsyncDisposableStack()
  const instance = cleanup.adopt(await DuckDBInstance.create(':memory:'), (one) => one.closeSync())
  const connection = cleanup.adopt(await instance.connect(), (one) => one.closeSync())
  await connection.run(`CREATE VIEW incoming AS SELECT * FROM (VALUES
    (1, 7, 'a'), (1, 9, 'b'), (1, 9, 'c'), (1, NULL, 'd'), (2, 1, 'e'), (2, 1, 'f')) v(id, moment, v)`)
  const shown = async (cursorColumn: string | null, marks = false) => {
    const columns = ['id', 'moment', 'v'].map((name) => ({ name, type: 'string', nullable: true }) as const)
    const read = { repeats: true, marks: false, schema: { columns, primaryKey: ['id'] } }
    const request = { primaryKey: ['id'], cursorColumn, read }
    const rows = await connection.runAndReadAll(`SELECT * FROM (${newestByKey(request, marks)}) ORDER BY id`)
    return rows.getRowsJson()
  }
  assert.deepEqual(await shown('moment'), [
    [1, 9, 'c'],
    [2, 1, 'f'],
  ])
  assert.deepEqual(await shown(null), [
    [1, null, 'd'],
    [2, 1, 'f'],
  ])
  assert.deepEqual(await shown('a column that is not shown'), await shown(null))
  assert.deepEqual((await shown('moment', true))[0], [1, 9, 'c', null])
})
