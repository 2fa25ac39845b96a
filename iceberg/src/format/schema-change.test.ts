import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType, TableSchema } from '@sluice/sdk'
import { planSchema, type SchemaChange } from './schema-change.ts'
import { fromIceberg, type LakeSchema, toIceberg } from './table-schema.ts'

const schema = (columns: Record<string, LogicalType>, primaryKey: readonly string[] = []): TableSchema => ({
  columns: Object.entries(columns).map(([name, type]) => ({ name, type, nullable: !primaryKey.includes(name) })),
  primaryKey,
})

const start = planSchema(null, [], 0, {
  target: schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string' }, ['id']),
  rows: 'rewrite',
})

function change(target: TableSchema, options: Partial<SchemaChange> = {}) {
  return planSchema(start.schema, [start.schema], start.lastColumnId, { target, rows: 'keep', ...options })
}

const ids = ({ schema: { fields } }: { schema: LakeSchema }) =>
  Object.fromEntries(fields.map(({ name, id }) => [name, id]))
const refused = { kind: 'CONFIG', code: 'lake_schema_change_refused' } as const

test('the identity is required and marked', () => {
  assert.deepEqual(start.schema.identifierFieldIds, [1])
  assert.deepEqual(toIceberg(start.schema).fields[0], { id: 1, name: 'id', required: true, type: 'int' })
})

test('columns keep their ids when they are renamed, reordered and widened; new ones get new ids', () => {
  const target = schema({ text: 'string', amount: 'decimal(20,2)', id: 'long', extra: 'json' }, ['id'])
  const plan = change(target, { renames: { text: 'note' } })
  assert.deepEqual(ids(plan), { text: 3, amount: 2, id: 1, extra: 4 })
  assert.deepEqual([plan.schema.schemaId, plan.lastColumnId, plan.isNew], [1, 4, true])
})

test('a column that was dropped and is added again is another one', () => {
  const dropped = change(schema({ id: 'integer', amount: 'decimal(9,2)' }, ['id']))
  const again = planSchema(dropped.schema, [start.schema, dropped.schema], dropped.lastColumnId, {
    target: schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string' }, ['id']),
    rows: 'keep',
  })
  assert.deepEqual(ids(again), { id: 1, amount: 2, note: 4 })
})

test('the same schema again is no new one', () => {
  const same = change(schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string' }, ['id']))
  assert.deepEqual([same.schema.schemaId, same.isNew], [0, false])
})

test('what would make rows that stay unreadable is refused with the column', () => {
  const bad: [Record<string, LogicalType>, string][] = [
    [{ id: 'integer', amount: 'decimal(9,3)', note: 'string' }, 'amount'],
    [{ id: 'integer', amount: 'decimal(8,2)', note: 'string' }, 'amount'],
    [{ id: 'integer', amount: 'double', note: 'string' }, 'amount'],
    [{ id: 'string', amount: 'decimal(9,2)', note: 'string' }, 'id'],
    [{ id: 'integer', amount: 'decimal(9,2)', note: 'json' }, 'note'],
  ]
  for (const [columns, column] of bad) {
    assert.throws(() => change(schema(columns, ['id'])), { ...refused, message: new RegExp(`"${column}"`) })
  }
  assert.throws(
    () => change(schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string', more: 'long' }, ['id', 'more'])),
    refused,
  )
  assert.throws(
    () => change(schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string' }, ['id', 'note'])),
    refused,
  )
})

test('where all rows are replaced, a column of another type is another column', () => {
  const plan = change(schema({ id: 'string', amount: 'double', note: 'string' }, ['id', 'note']), { rows: 'rewrite' })
  assert.deepEqual(ids(plan), { id: 4, amount: 5, note: 3 })
})

test('names that the engine could not tell apart or uses itself are refused', () => {
  const bad: Record<string, LogicalType>[] = [
    { a: 'long', A: 'long' },
    { '': 'long' },
    { __sluice_0: 'long' },
    {},
    { 'a\0': 'long' },
  ]
  for (const columns of bad)
    assert.throws(() => planSchema(null, [], 0, { target: schema(columns), rows: 'rewrite' }), refused)
})

test('every logical type survives table metadata', () => {
  const types: LogicalType[] = [
    'string',
    'boolean',
    'integer',
    'long',
    'float',
    'double',
    'decimal(38,10)',
    'date',
    'timestamp',
    'timestamptz',
    'uuid',
    'binary',
    'json',
  ]
  const target = schema(Object.fromEntries(types.map((type) => [type, type])))
  const { schema: made } = planSchema(null, [], 0, { target, rows: 'rewrite' })
  assert.deepEqual(fromIceberg(JSON.parse(JSON.stringify(toIceberg(made)))), made)
})

test('columns that are told of otherwise have another schema of the same shape, and keep it until they are told of anew', () => {
  const target = schema({ id: 'integer', amount: 'decimal(9,2)', note: 'string', more: 'json' }, ['id'])
  const known: LakeSchema[] = []
  let current: LakeSchema | null = null
  const told = (comments?: Readonly<Record<string, string>>) => {
    const own = comments === undefined ? {} : { comments: new Map(Object.entries(comments)) }
    const plan = planSchema(current, known, 4, { target, rows: 'rewrite', ...own })
    current = fromIceberg(toIceberg(plan.schema))
    assert.deepEqual(current, plan.schema, 'as the table will have it')
    if (plan.isNew) known.push(current)
    return [plan.schema.schemaId, plan.isNew, Object.values(plan.schema.comments ?? {})]
  }
  const [one, other] = [
    { amount: 'class a', more: 'of a document' },
    { amount: 'class a', note: 'class b' },
  ]
  assert.deepEqual(told(), [0, true, []])
  assert.deepEqual(told(one), [1, true, ['class a']])
  assert.deepEqual(told(), [1, false, ['class a']], 'nobody has said anything else')
  assert.deepEqual(told(other), [2, true, ['class a', 'class b']])
  assert.deepEqual(told(one), [1, false, ['class a']])
  assert.deepEqual(told({}), [0, false, []])
  assert.equal(new Set(known.map(({ fields }) => JSON.stringify(fields))).size, 1)
})
