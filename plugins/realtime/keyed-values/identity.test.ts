import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseKeyTemplate, type TableSchema, type Value } from '@sluice/sdk'
import { identityText, isKeyedByIdentity } from './identity.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'a', type: 'long', nullable: false },
    { name: 'b', type: 'decimal(20,4)', nullable: false },
    { name: 'c', type: 'double', nullable: false },
    { name: 'd', type: 'string', nullable: true },
  ],
  primaryKey: ['a'],
}

test('identities sort as the primary key does', () => {
  const cases: readonly (readonly [string, readonly Value[]])[] = [
    ['a', [-(2n ** 63n), -10n, -9n, -1n, 0n, 1n, 9n, 10n, 2n ** 63n - 1n]],
    ['b', ['-10.0000', '-9.9999', '-0.0001', '0.0000', '0.0001', '9.0000', '10.0000']],
    ['c', [Number.NEGATIVE_INFINITY, -1.5, -1e-300, 0, 1e-300, 1.5, Number.POSITIVE_INFINITY]],
    ['d', ['', 'A', 'a', 'aa', 'b', 'é', '😀']],
  ]
  for (const [column, values] of cases) {
    const texts = values.map((value) => identityText({ ...SCHEMA, primaryKey: [column] }, [value]))
    const sorted = [...texts].sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)))
    assert.deepEqual(texts, sorted, column)
  }
})

test('only a template of exactly the primary key names one row', () => {
  const named = (text: string, primaryKey: readonly string[]) => {
    const template = parseKeyTemplate(text)
    assert.ok('parts' in template)
    return isKeyedByIdentity(template, { ...SCHEMA, primaryKey })
  }
  assert.equal(named('x:{a}', ['a']), true)
  assert.equal(named('{b}:{a}', ['a', 'b']), true)
  assert.equal(named('{a}', ['a', 'b']), false)
  assert.equal(named('{a}:{b}', ['a']), false)
  assert.equal(named('{a}', []), false)
})
