import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pastsNamed, versionOfTag } from './past-names.ts'

test('pasts are found by product, each once', () => {
  const tables = ['orders@v1.0.0', 'Orders@2026-11-01', 'orders@v1.0.0', 'order@v8', 'orders', 'orders@', 'orders@a@b']
  assert.deepEqual(pastsNamed(tables, 'orders'), ['v1.0.0', '2026-11-01'])
  assert.deepEqual(pastsNamed(tables, 'order'), ['v8'])
  assert.deepEqual(pastsNamed([], 'orders'), [])
})

test('too many are refused', () => {
  const tables = Array.from({ length: 21 }, (_, at) => `b@v${at}`)
  assert.throws(() => pastsNamed(tables, 'b'), { code: 'invalid_value' })
})

test('a tag is a v and a version', () => {
  assert.equal(versionOfTag('v1.2.0'), '1.2.0')
  assert.equal(versionOfTag('2026-11-01'), null)
  assert.equal(versionOfTag('4611686018427387905'), null)
})
