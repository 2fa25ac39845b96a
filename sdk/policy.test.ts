import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareAs, type RowPredicate, rowPasses } from './policy.ts'
import type { TableSchema } from './schema.ts'

const schema: TableSchema = {
  columns: [
    { name: 'amount', type: 'decimal(10,2)', nullable: true },
    { name: 'region', type: 'string', nullable: true },
  ],
  primaryKey: [],
}

function passes(predicate: RowPredicate, amount: string | null, region: string | null = 'eu'): boolean {
  return rowPasses(predicate, schema, [amount, region], { region: 'eu' })
}

test('decimals compare by size, not by their text', () => {
  const below: RowPredicate = { op: 'lt', column: 'amount', value: { literal: '10.00' } }
  assert.equal(passes(below, '9.00'), true)
  assert.equal(passes(below, '-11.00'), true)
  assert.equal(passes(below, '10.00'), false)
  assert.ok(compareAs('decimal(10,2)', '-2.50', '-10.00') > 0)
  assert.ok(compareAs('string', '9.00', '10.00') > 0)
})

test('unknown denies: null cells, claims that are not there, columns that are not there', () => {
  assert.equal(passes({ op: 'ne', column: 'amount', value: { literal: '1.00' } }, null), false)
  assert.equal(passes({ op: 'not', of: { op: 'eq', column: 'amount', value: { literal: '1.00' } } }, null), false)
  assert.equal(passes({ op: 'eq', column: 'region', value: { claim: 'team' } }, '1.00'), false)
  assert.equal(passes({ op: 'eq', column: 'missing', value: { literal: 'eu' } }, '1.00'), false)
  assert.equal(passes({ op: 'in', column: 'region', values: [] }, '1.00'), false)
  assert.equal(passes({ op: 'eq', column: 'region', value: { claim: 'region' } }, '1.00'), true)
})
