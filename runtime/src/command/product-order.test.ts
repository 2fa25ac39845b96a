import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inOrder, namedIn, usedIn } from './product-order.ts'

const namesOf = (products: Readonly<Record<string, readonly string[]>>) =>
  inOrder(Object.entries(products).map(([name, names]) => ({ name, names }))).map(({ name }) => name)

test('products come after those that they name, and else by name', () => {
  assert.deepEqual(namesOf({ 'b.z': [], 'a.a': ['b.y'], 'b.y': ['b.z', 'far.away'], 'a.b': [] }), [
    'b.z',
    'b.y',
    'a.a',
    'a.b',
  ])
})

test('a circle is named as it goes', () => {
  const said = /in a circle: a\.b names a\.c, which names a\.b$/
  assert.throws(() => namesOf({ 'a.a': ['a.b'], 'a.b': ['a.c'], 'a.c': ['a.b'] }), said)
  assert.throws(() => namesOf({ 'a.a': ['a.a'] }), /in a circle: a\.a names a\.a$/)
})

test('manifests name products as inputs and in schedules; what cannot be read names none', () => {
  const inputs = 'inputs:\n  - { name: a, product: crm.people }\n  - { name: b, connection: db, table: t }\n'
  const compute = 'trigger: schedule\nschedule: { after: [crm.people, crm.orders, 7] }\n'
  assert.deepEqual(namedIn({ inputs, compute }), ['crm.people', 'crm.orders'])
  const quality = 'uses:\n  - { product: crm.rules, checks: [a] }\n  - { checks: [b] }\n  - crm.none\n'
  assert.deepEqual(namedIn({ inputs, compute, quality }), ['crm.people', 'crm.orders', 'crm.rules'])
  assert.deepEqual(usedIn({ quality }), ['crm.rules'])
  assert.deepEqual(namedIn({ inputs: 'inputs: [\n', compute: '- a\n' }), [])
  assert.deepEqual(namedIn({ inputs: 'inputs: { product: a.b }\n', compute: 'schedule: [after]\n' }), [])
})
