import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BrokenAnswer, checkedEvent } from './source-answers.ts'

const reject = (more: Readonly<Record<string, unknown>>) =>
  checkedEvent({ kind: 'reject', reason: 'r', column: 'c', ...more })

test('a rejected row is believed in bounded texts only', () => {
  assert.deepEqual(reject({}), { kind: 'reject', reason: 'r', column: 'c' })
  const whole = { key: { id: '1', part: null }, raw: 'NaN', carried: true }
  assert.deepEqual(reject({ ...whole, column: null, other: 1 }), {
    kind: 'reject',
    reason: 'r',
    column: null,
    ...whole,
  })
  const long = reject({ key: { id: 'k'.repeat(1e5) }, raw: 'r'.repeat(1e5), reason: 'w'.repeat(1e5) })
  assert.ok(JSON.stringify(long).length < 10_000)
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`c${at}`, '1']))
  for (const broken of [
    { key: [] },
    { key: 'id' },
    { key: null },
    { key: { id: 1 } },
    { key: { id: { a: 1 } } },
    { key: { ['n'.repeat(2_000)]: '1' } },
    { key: { '': '1' } },
    { key: many },
    { raw: 1 },
    { raw: null },
    { raw: { text: 'x' } },
    { carried: 1 },
    { reason: undefined },
    { column: '' },
  ]) {
    assert.throws(() => reject(broken), BrokenAnswer, JSON.stringify(broken).slice(0, 80))
  }
})
