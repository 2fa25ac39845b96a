import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLogicalType } from '@sluice/sdk'
import { carriageOf, type SourceType } from './types.ts'

function typeOf(name: string, other: Partial<SourceType> = {}): string {
  return carriageOf({ name, builtin: true, kind: 'b', category: 'U', modifier: -1, ...other }).type
}

function numeric(precision: number, scale: number): string {
  return typeOf('numeric', { modifier: ((precision << 16) | (scale & 0x7ff)) + 4 })
}

test('numerics keep their size where 38 digits hold it', () => {
  assert.equal(numeric(10, 2), 'decimal(10,2)')
  assert.equal(numeric(38, 38), 'decimal(38,38)')
  assert.equal(numeric(39, 0), 'string')
  assert.equal(numeric(1000, 1000), 'string')
  assert.equal(numeric(3, -2), 'decimal(5,0)')
  assert.equal(numeric(30, -10), 'string')
  assert.equal(numeric(2, 5), 'decimal(5,5)')
  assert.equal(typeOf('numeric'), 'decimal(38,9)')
  for (let scale = 0; scale <= 38; scale += 1) assert.ok(isLogicalType(numeric(38, scale)))
})

test('a type of the tenant’s own is not taken for PostgreSQL’s of the same name', () => {
  assert.equal(typeOf('date'), 'date')
  assert.equal(typeOf('date', { builtin: false }), 'string')
  assert.equal(typeOf('json', { builtin: false, kind: 'e', category: 'E' }), 'string')
  assert.equal(typeOf('hstore', { builtin: false }), 'json')
  assert.equal(typeOf('hstore', { builtin: false, kind: 'e' }), 'string')
})

test('structures travel as JSON, what has no counterpart as text', () => {
  assert.equal(typeOf('_int4', { category: 'A' }), 'json')
  assert.equal(typeOf('address', { builtin: false, kind: 'c', category: 'C' }), 'json')
  for (const name of ['inet', 'interval', 'time', 'timetz', 'bit', 'xml', 'point', 'int4range', 'tsvector', 'bpchar']) {
    assert.equal(typeOf(name), 'string', name)
  }
})
