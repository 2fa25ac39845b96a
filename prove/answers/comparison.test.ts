import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answersOf, onlyIn, plain, type Recorded, unsteadyIn } from './comparison.ts'

const recorded = (answer: unknown, more: Partial<Recorded> = {}): Recorded => ({
  test: 'a.test.ts',
  who: '["svc-viewers"]',
  method: 'GET',
  path: '/api/v1/products/prd_0123456789abcdef01234567',
  body: '',
  status: 200,
  headers: { 'content-type': 'application/json', date: 'now' },
  answer: JSON.stringify(answer),
  ...more,
})
const NONE = new Set<string>()
const differences = (one: Recorded, other: Recorded) => onlyIn(answersOf([one]), [answersOf([other])], NONE).length

test('ids, times and measures are of a run; everything else is of the answer', () => {
  const first = recorded({ id: 'run_0123456789abcdef01234567', at: '2026-01-01T00:00:00.1Z', took_ms: 3, rows: 1 })
  const second = recorded({ id: 'run_ffffffffffffffffffffffff', at: '2027-01-01T00:00:00Z', took_ms: 4, rows: 1 })
  assert.equal(differences(first, second), 0)
  assert.equal(differences(first, recorded({ ...JSON.parse(first.answer), rows: 2 })), 1)
  assert.equal(differences(first, { ...first, status: 201 }), 1)
  assert.equal(differences(first, { ...first, headers: { ...first.headers, 'cache-control': 'no-store' } }), 1)
  assert.equal(plain('a cat of 12 rows'), 'a cat of 12 rows')
})

test('words for people may change, and their code may not', () => {
  const problem = recorded({ code: 'product_paused', detail: 'is paused' }, { status: 409 })
  assert.equal(differences(problem, recorded({ code: 'product_paused', detail: 'paused' }, { status: 409 })), 0)
  assert.equal(differences(problem, recorded({ code: 'not_deployed', detail: 'is paused' }, { status: 409 })), 1)
})

test('what two runs of the base do not have in common is no difference, and a request of one side only neither', () => {
  const [queued, running] = [recorded({ state: 'queued' }), recorded({ state: 'running' })]
  const [first, second] = [answersOf([queued]), answersOf([queued, running])]
  const unsteady = unsteadyIn(first, second)
  assert.equal(unsteady.size, 1)
  assert.equal(onlyIn(answersOf([recorded({ state: 'failed' })]), [first, second], unsteady).length, 0)
  assert.equal(differences(queued, { ...running, path: '/elsewhere' }), 0)
  assert.equal(onlyIn(answersOf([recorded({ state: 'failed' })]), [first, second], NONE).length, 1)
})
