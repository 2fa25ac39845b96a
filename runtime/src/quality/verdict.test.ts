import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Check } from '../manifest/manifest-set.ts'
import type { CheckResult } from './check-result.ts'
import { decide, judge, quarantineCondition, scoreOf } from './verdict.ts'

const CHECK: Check = {
  name: 'c',
  description: '',
  severity: 'error',
  dimension: 'validity',
  weight: 1,
  threshold: { rows: 0 },
  onError: 'block',
  rule: { kind: 'not_null', columns: ['id'] },
}

function result(fields: Partial<CheckResult>): CheckResult {
  return { ...judge(CHECK, { violations: 1, total: 10 }), ...fields }
}

describe('judge', () => {
  const passes = (threshold: Check['threshold'], violations: number, total: number): boolean =>
    judge({ ...CHECK, threshold }, { violations, total }).passed

  it('bears as many rows as the threshold says', () => {
    assert.equal(passes({ rows: 0 }, 0, 10), true)
    assert.equal(passes({ rows: 0 }, 1, 10), false)
    assert.equal(passes({ rows: 3 }, 3, 3), true)
    assert.equal(passes({ rows: 3 }, 4, 10_000), false)
  })

  it('bears as large a share as the threshold says', () => {
    assert.equal(passes({ percent: 1 }, 10, 1000), true)
    assert.equal(passes({ percent: 1 }, 11, 1000), false)
    assert.equal(passes({ percent: 0.1 }, 1, 1000), true)
    assert.equal(passes({ percent: 100 }, 0, 0), true)
    assert.equal(passes({ percent: 99 }, 1, 0), false)
  })

  it('does not pass what could not be run', () => {
    const { passed, violations, total } = judge({ ...CHECK, threshold: { percent: 100 } }, null)
    assert.deepEqual({ passed, violations, total }, { passed: false, violations: null, total: null })
  })
})

describe('scoreOf', () => {
  it('is the weighted share of what passed, by dimension too', () => {
    const score = scoreOf([
      result({ passed: true, weight: 2 }),
      result({ passed: false, weight: 1 }),
      result({ passed: true, weight: 1, dimension: 'timeliness' }),
      result({ passed: false, weight: 0, dimension: 'accuracy' }),
    ])
    assert.deepEqual(score, { overall: 75, byDimension: { validity: 66.66, timeliness: 100 } })
  })

  it('is 100 only when everything passed, and nothing without checks', () => {
    const many = Array.from({ length: 100_000 }, (_, index) => result({ passed: index > 0 }))
    assert.equal(scoreOf(many).overall, 99.99)
    assert.equal(scoreOf([result({ passed: true, weight: 0.1 }), result({ passed: true, weight: 0.2 })]).overall, 100)
    assert.deepEqual(scoreOf([]), { overall: null, byDimension: {} })
  })
})

describe('decide', () => {
  const failed = (name: string, fields: Partial<CheckResult>): CheckResult => result({ name, passed: false, ...fields })

  it('publishes where nothing grave failed', () => {
    const warned = failed('w', { severity: 'warn' })
    assert.deepEqual(decide([warned, result({ passed: true }), failed('p', { onError: 'publish' })]), {
      action: 'publish',
    })
  })

  it('takes the gravest consequence', () => {
    const quarantine = failed('q', { onError: 'quarantine' })
    assert.deepEqual(decide([quarantine, failed('q2', { onError: 'quarantine' })]), {
      action: 'quarantine',
      checks: ['q', 'q2'],
    })
    assert.deepEqual(decide([quarantine, failed('b', { onError: 'block' })]), { action: 'block', checks: ['b'] })
  })

  it('blocks where the bad rows could not be told from the good', () => {
    const broken = failed('q', { onError: 'quarantine', violations: null })
    assert.deepEqual(decide([broken]), { action: 'block', checks: ['q'] })
  })
})

describe('quarantineCondition', () => {
  it('joins the conditions, and refuses checks that have none', () => {
    const badRows = new Map([
      ['a', 'x'],
      ['b', 'y'],
    ])
    assert.equal(quarantineCondition(['a', 'b'], badRows), '(x) OR (y)')
    assert.throws(() => quarantineCondition(['c'], badRows), /does not say which rows/)
  })
})
