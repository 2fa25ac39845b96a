import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { heldTables } from './held-tables.ts'

const column = (name: string, at: number) => ({ name, type: 'long' as LogicalType, fieldId: at + 1 })
const table = (name: string, columns: readonly string[], schema = 'crm') => ({
  schema,
  table: name,
  columns: columns.map(column),
})

describe('tables that a PostgreSQL can hold', () => {
  it('have names that differ where it would cut them, the same each time', () => {
    const long = 'é'.repeat(40)
    const given = [table(`${long}a`, ['id']), table(`${long}b`, [`${long}a`, `${long}b`])]
    const held = heldTables(given)
    assert.equal(new Set(held.map((one) => one.table)).size, 2)
    assert.equal(new Set(held[1]?.columns.map(({ name }) => name)).size, 2)
    for (const { table: name } of held) assert.ok(Buffer.byteLength(name) <= 63, name)
    assert.deepEqual(heldTables(given), held)
  })

  it('lack columns of its own names and beyond its number, and are not of its schemas', () => {
    const wide = Array.from({ length: 1_700 }, (_, at) => `c${at}`)
    const held = heldTables([
      table('people', ['ctid', 'xmin', 'tableoid', 'id']),
      table('wide', wide),
      table('x', ['id'], 'pg_x'),
    ])
    assert.deepEqual(
      held.map((one) => [one.table, one.columns.length]),
      [
        ['people', 1],
        ['wide', 1_600],
      ],
    )
  })

  it('tell of masks by the names that are held', () => {
    const long = 'm'.repeat(80)
    const [held] = heldTables([{ ...table('people', ['id', long]), masked: [long] }])
    assert.deepEqual(held?.masked, [held?.columns[1]?.name])
  })
})
