import assert from 'node:assert/strict'
import { it } from 'node:test'
import { carriedRows } from './carried-rows.ts'
import { judge, scoreOf } from './verdict.ts'

const input = (table: string, rejected: number) => ({
  input: { connection: 'db', table },
  columns: ['id', 'N'],
  rejected,
})

it('is said of inputs that lack rows alone, in steps, and by all of their columns', () => {
  assert.deepEqual(carriedRows([input('t', 0)], 5), [])
  assert.deepEqual(carriedRows([], 0), [])
  const unbelievable = [Number.NaN, Number.POSITIVE_INFINITY, -1, 0.5, 1e300].map((rejected) => input('t', rejected))
  assert.deepEqual(carriedRows(unbelievable, 5), [])
  const [result] = carriedRows([input('t', 7), input('u', 0), input('s.v', 8)], 900)
  assert.deepEqual([result?.passed, result?.violations, result?.worth], [false, 100, 0.9])
  assert.deepEqual(result?.reads?.raw, [
    '["db","public.t","id"]',
    '["db","public.t","n"]',
    '["db","s.v","id"]',
    '["db","s.v","n"]',
  ])
})

it('lowers the score by the share of rows that are missing, and never leaves it whole', () => {
  const scored = (rejected: number, rows: number) => scoreOf(carriedRows([input('t', rejected)], rows)).overall
  assert.deepEqual([scored(0, 10), scored(1, 9), scored(1, 99_999_999), scored(5, 0)], [null, 90, 99.99, 0])
  const rule = { kind: 'not_null', columns: ['id'] } as const
  const kept = { description: '', severity: 'error', dimension: 'validity', weight: 3, onError: 'block' } as const
  const passed = judge({ ...kept, name: 'c', threshold: { rows: 0 }, rule }, { violations: 0, total: 10 })
  const score = scoreOf([passed, ...carriedRows([input('t', 1)], 1)])
  assert.deepEqual(score, { overall: 87.5, byDimension: { completeness: 50, validity: 100 } })
})
