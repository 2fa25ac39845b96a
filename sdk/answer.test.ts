import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerFromRows, isSluiceError, projectRow, type ReadPlan, type Row, type TableSchema } from '@sluice/sdk'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'price', type: 'decimal(5,2)', nullable: true },
    { name: 'city', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

const rows: readonly Row[] = [
  [3, '9.50', 'Bern'],
  [1, '10.00', 'Bern'],
  [2, null, 'Basel'],
  [4, '9.50', null],
]

function plan(parts: Partial<ReadPlan> = {}): ReadPlan {
  const columns = schema.columns.map(({ name }) => name)
  const policy = { version: '1', rows: { op: 'all' }, claims: {}, visibleColumns: columns, maskedColumns: [] } as const
  const signal = new AbortController().signal
  return {
    operation: 'scan',
    columns,
    filters: [],
    orderBy: [],
    limit: 10,
    policy,
    timeoutMs: 1,
    signal,
    encoding: 'columns',
    ...parts,
  }
}

const ids = (parts: Partial<ReadPlan>) => answerFromRows(plan(parts), schema, rows).rows.map(([id]) => id)

test('rows come by key, or by what was asked for and then by key, null above every value', () => {
  assert.deepEqual(ids({}), [1, 2, 3, 4])
  assert.deepEqual(ids({ orderBy: [{ column: 'price', direction: 'asc' }] }), [3, 4, 1, 2])
  assert.deepEqual(ids({ orderBy: [{ column: 'price', direction: 'desc' }] }), [2, 1, 3, 4])
})

test('filters and the policy both hold, and null matches nothing', () => {
  assert.deepEqual(ids({ filters: [{ column: 'price', operator: 'lt', values: ['10.00'] }] }), [3, 4])
  assert.deepEqual(ids({ filters: [{ column: 'city', operator: 'ne', values: ['Basel'] }] }), [1, 3])
  assert.deepEqual(ids({ filters: [{ column: 'id', operator: 'in', values: [4, 2] }] }), [2, 4])
  const policy = { ...plan().policy, rows: { op: 'eq', column: 'city', value: { claim: 'city' } } as const }
  assert.deepEqual(ids({ policy: { ...policy, claims: { city: 'Bern' } } }), [1, 3])
  assert.deepEqual(ids({ policy }), [])
})

test('pages follow one another without a gap, and a position of another read is refused', () => {
  const orderBy = [{ column: 'price', direction: 'asc' }] as const
  const first = answerFromRows(plan({ orderBy, limit: 2 }), schema, rows)
  assert.deepEqual(first.next, ['9.50', 4])
  const second = answerFromRows(plan({ orderBy, limit: 2, ...(first.next ? { after: first.next } : {}) }), schema, rows)
  assert.deepEqual(
    second.rows.map(([id]) => id),
    [1, 2],
  )
  assert.equal(second.next, undefined)
  for (const after of [[1], ['a', 'b'], [null, 1, 2]]) {
    assert.throws(
      () => answerFromRows(plan({ orderBy, after }), schema, rows),
      (error) => isSluiceError(error, 'INVALID_DATA'),
    )
  }
})

test('a projection has the plan’s columns in its order', () => {
  assert.deepEqual(projectRow([1, '2.00', 'x'], schema, ['city', 'id']), ['x', 1])
})
