import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTenantScope, type TableSchema, type Target } from '@sluice/sdk'
import fc from 'fast-check'
import { endOf, physicalKey, prefixOf } from './keys.ts'

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
