import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pastsNamed, versionOfTag } from './past-names.ts'

test('pasts are found by domain and product, each once', () => {
  const sql = `SELECT * FROM sales."orders@v1.0.0" a JOIN "sales"."orders@2026-11-01" b USING (id)
    JOIN sales . "orders@v1.0.0" c USING (id) JOIN crm."orders@v9" d USING (id) JOIN sales."order@v8" e USING (id)`
  assert.deepEqual(pastsNamed(sql, 'sales', 'orders'), ['v1.0.0', '2026-11-01'])
  assert.deepEqual(pastsNamed(sql, 'crm', 'orders'), ['v9'])
  assert.deepEqual(pastsNamed('SELECT 1', 'sales', 'orders'), [])
})

test('too many are refused', () => {
  const sql = Array.from({ length: 21 }, (_, at) => `a."b@v${at}"`).join(' ')
  assert.throws(() => pastsNamed(sql, 'a', 'b'), { code: 'invalid_value' })
})

test('a long word costs no more than other text of its length', () => {
  // The square of this number of steps would take minutes.
  for (const word of ['a', '_', 'a"', '"a', 'a ', 'a.', 'a."', 'a."a@']) {
    assert.deepEqual(pastsNamed(word.repeat(300_000), 'sales', 'orders'), [])
  }
})

test('a tag is a v and a version', () => {
  assert.equal(versionOfTag('v1.2.0'), '1.2.0')
  assert.equal(versionOfTag('2026-11-01'), null)
  assert.equal(versionOfTag('4611686018427387905'), null)
})
