import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { AnomalyRule, ManifestSet } from '../manifest/manifest-set.ts'
import { judgeAnomaly } from './anomaly.ts'
import type { Measurement } from './measures.ts'
import type { Taught } from './taught.ts'
import { basisOf } from './teaching.ts'
import { decide, scoreOf } from './verdict.ts'

const RULE: AnomalyRule = {
  ...{ kind: 'anomaly', metric: 'row_count', column: null, sensitivity: 'normal' },
  ...{ minHistory: 3, window: 9, learnFrom: null },
}

function judged(
  value: number | null,
  values: readonly number[],
  rule: Partial<AnomalyRule> = {},
  more: Partial<Taught> = {},
  measured: Partial<Measurement> = {},
) {
  const check = {
    ...({ name: 'c', description: '', severity: 'error', dimension: 'completeness', weight: 1 } as const),
    ...({ threshold: { rows: 0 }, onError: 'block' } as const),
    rule: { ...RULE, ...rule },
  }
  const chance = { buckets: 10, noise: 0.001 }
  const measurement: Measurement = {
    value,
    rows: 1000,
    ...(rule.metric === 'drift' && value !== null ? { chance } : {}),
    ...measured,
  }
  const taught = { epochs: values.length, values, profiles: [], ...more }
  return judgeAnomaly(check, { measurement, taught, basis: 'b' }, null)
}

describe('an anomaly check', () => {
  it('learns until it knows enough epochs, and then judges', () => {
    const young = judged(1, [1000, 1000])
    assert.deepEqual([young.learning, young.passed, young.violations, young.measured?.upper], [true, true, 0, null])
    const grown = judged(1, [1000, 1000, 1000])
    assert.deepEqual([grown.learning, grown.passed, grown.violations, grown.total], [undefined, false, 1, 1])
    const { lower, upper } = grown.measured ?? {}
    assert.deepEqual([lower, upper], [900, 1100])
    for (const [value, passed] of [
      [899, false],
      [900, true],
      [1100, true],
      [1101, false],
    ] as const) {
      assert.equal(judged(value, [1000, 1000, 1000]).passed, passed, String(value))
    }
  })

  it('fails where nothing is left to measure and every epoch that it knows had something', () => {
    const share = { metric: 'null_share', column: 'a' } as const
    const gone = { rows: 0 }
    for (const [found, isLearning, why] of [
      [judged(null, [0.1, 0.1, 0.1], share, {}, gone), false, 'rows were always there'],
      [judged(null, [0.1, 0.1], share, {}, gone), true, 'it knows too few epochs'],
      [judged(null, [0.1, 0.1, 0.1], share, { epochs: 4 }, gone), true, 'the table was empty before'],
    ] as const) {
      assert.deepEqual(
        [found.learning === true, found.passed, found.measured?.value],
        [isLearning, isLearning, null],
        why,
      )
    }
    const drift = { metric: 'drift', column: 'a' } as const
    const some = { kind: 'numbers', edges: [], counts: [0, 9] } as const
    const none = { kind: 'numbers', edges: [], counts: [0, 0] } as const
    const now = { ...gone, profile: none }
    for (const [profiles, epochs, isLearning] of [
      [[some, some], 3, false],
      [[some, some], 2, true],
      [[some, none], 3, true],
      [[], 3, true],
    ] as const) {
      const found = judged(null, [], drift, { epochs, profiles }, now)
      assert.deepEqual([found.learning === true, found.passed], [isLearning, isLearning], JSON.stringify(profiles))
    }
    const incomparable = judged(null, [], drift, { epochs: 3, profiles: [some] }, { rows: 9, profile: some })
    assert.equal(incomparable.learning, true, 'there are values, and nothing to compare them with')
  })

  it('fails where it could not be run', () => {
    const rule = { ...RULE, kind: 'anomaly' } as const
    const check = { name: 'c', description: '', severity: 'error', dimension: 'validity', weight: 1 } as const
    const failed = judgeAnomaly({ ...check, threshold: { rows: 0 }, onError: 'block', rule }, null, null)
    assert.deepEqual(
      [failed.passed, failed.violations, failed.measured, failed.learning],
      [false, null, undefined, undefined],
    )
  })

  it('of a drift needs epochs to compare with, whatever they drifted', () => {
    const profiles = [{ kind: 'numbers', edges: [], counts: [9] }] as const
    const drift = { metric: 'drift', column: 'a' } as const
    assert.equal(judged(9, [], drift, { epochs: 3 }).learning, true)
    assert.equal(judged(9, [], drift, { epochs: 2, profiles }).learning, true)
    assert.deepEqual(
      [judged(9, [], drift, { epochs: 3, profiles }).passed, judged(0.2, [], drift, { epochs: 3, profiles }).passed],
      [false, true],
    )
  })

  it('that learns keeps nothing back and counts for no score', () => {
    const learning = judged(1, [])
    assert.deepEqual(decide([learning]), { action: 'publish' })
    assert.deepEqual(scoreOf([learning]), { overall: null, byDimension: {} })
    assert.equal(scoreOf([judged(1, [1000, 1000, 1000]), learning]).overall, 0)
  })
})

it('the basis of what was learned is which rows there are, and nothing else', () => {
  const column = { name: 'a', type: 'string', description: '', classification: 'public' }
  const input = { name: 's', connection: 'c', table: 't', columns: null, where: null, mode: 'full' }
  const of = (change: object = {}) =>
    basisOf({
      inputs: [input],
      compute: { transform: null },
      output: { columns: [column], primaryKey: ['a'], writeMode: 'merge', keepMissing: false },
      ...change,
    } as unknown as ManifestSet)
  const output = { columns: [column], primaryKey: ['a'], writeMode: 'merge', keepMissing: false }
  assert.equal(
    of(),
    of({ output: { ...output, columns: [{ ...column, description: 'x', classification: 'pii.name' }] } }),
  )
  assert.equal(of(), of({ inputs: [{ ...input, mode: 'cdc' }], quality: { checks: [1] }, serving: {} }))
  const others = [
    of({ inputs: [{ ...input, where: 'a > 1' }] }),
    of({ inputs: [{ ...input, table: 'u' }] }),
    of({ compute: { transform: 'SELECT 1' } }),
    of({ output: { ...output, columns: [{ ...column, type: 'integer' }] } }),
    of({ output: { ...output, writeMode: 'append' } }),
    of({ output: { ...output, keepMissing: true } }),
    of({ output: { ...output, primaryKey: ['a', 'b'] } }),
  ]
  assert.equal(new Set([of(), ...others]).size, 8)
})
