import assert from 'node:assert/strict'
import { test } from 'node:test'
import { physicalColumns, quoteIdentifier, quoteLiteral } from './identifiers.ts'

test('quotes end where they should', () => {
  assert.equal(quoteIdentifier('a"b'), '"a""b"')
  assert.equal(quoteLiteral(`a'b\\`), `'a''b\\'`)
})

test('columns keep their names, and those that cannot get one that is free', () => {
  const long = 'n'.repeat(70)
  const names = ['id', 'tenant_id', 'tenant_id__value', 'ctid', 'row_number', `${long}1`, `${long}2`, 'Ünïcode']
  const physical = physicalColumns(names)
  assert.deepEqual([...physical.keys()].sort(), [...names].sort())
  assert.equal(new Set(physical.values()).size, names.length)
  assert.equal(physical.get('id'), 'id')
  assert.equal(physical.get('tenant_id__value'), 'tenant_id__value')
  for (const name of physical.values()) {
    assert.ok(Buffer.byteLength(name) <= 63, name)
    assert.ok(!['tenant_id', 'ctid', 'row_number'].includes(name), name)
  }
  assert.deepEqual(physicalColumns(names), physical)
})
