import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTenantScope, parseKeyTemplate, type TableSchema, type Target, type Value } from '@sluice/sdk'
import fc from 'fast-check'
import { endOf, identityText, isKeyedByIdentity, physicalKey, prefixOf } from './keys.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'a', type: 'long', nullable: false },
    { name: 'b', type: 'decimal(20,4)', nullable: false },
    { name: 'c', type: 'double', nullable: false },
    { name: 'd', type: 'string', nullable: true },
  ],
  primaryKey: ['a'],
}

function target(tenant: string, domain = 'sales', product = 'orders', variant = 'clear'): Target {
  return { scope: openTenantScope(tenant), domain, product, variant, schema: SCHEMA, config: {} }
}

test('prefixes are readable, and no dataset’s keys lie among another’s', () => {
  assert.equal(prefixOf(target('acme')), 'acme:sales:orders:')
  assert.equal(prefixOf(target('acme', 'sales', 'orders', 'masked')), 'acme:sales:orders__masked:')
  const name = fc.string({ unit: fc.constantFrom('a', ':', ';', '%', '3', 'A', '😀'), minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(name, name, name, name, fc.string(), (tenant, domain, other, product, key) => {
      const prefix = prefixOf(target(tenant, domain, product))
      const foreign = physicalKey(prefixOf(target(other, domain, product)), key)
      if (tenant === other) return
      assert.ok(
        Buffer.compare(Buffer.from(foreign), Buffer.from(prefix)) < 0 ||
          Buffer.compare(Buffer.from(foreign), Buffer.from(endOf(prefix))) >= 0,
      )
    }),
  )
})

test('no key outgrows LMDB, and long ones stay apart', () => {
  const long = '😀'.repeat(127)
  const prefixes = [
    prefixOf(target(long)),
    prefixOf(target(long, 'sales', 'order')),
    prefixOf(target(`${long.slice(2)}x`)),
  ]
  assert.equal(new Set(prefixes).size, 3)
  const keys = prefixes.flatMap((prefix) =>
    ['x'.repeat(5000), `${'x'.repeat(4999)}y`, 'x'].map((key) => physicalKey(prefix, key)),
  )
  assert.equal(new Set(keys).size, keys.length)
  for (const key of keys) assert.ok(Buffer.byteLength(key) <= 1210, `${Buffer.byteLength(key)}`)
  for (const [index, key] of keys.entries()) assert.ok(key.startsWith(prefixes[Math.floor(index / 3)] ?? '?'))
})

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
