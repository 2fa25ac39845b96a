import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { carriedRows } from '../../quality/carried-rows.ts'
import type { CheckReading, CheckResult } from '../../quality/check-result.ts'
import type { Materialization } from '../../registry/materializations.ts'
import { type KeptQuality, type Sight, seesAside, seesCheck, shownQuality } from './visible-quality.ts'

const RAW = JSON.stringify(['crm', 'public.people', 'salary'])

const sight = (clear: Sight['clear'], more: Partial<Sight> = {}): Sight => ({
  columns: [
    { name: 'id', type: 'integer', nullable: false, classification: 'public' },
    { name: 'Email', type: 'string', nullable: true, classification: 'pii.identifier' },
  ],
  clear,
  hidden: new Map([[RAW, ['pay']]]),
  rules: { sensitive: ['pay'], strategies: {} },
  ...more,
})

const check = (name: string, reads: CheckReading | null, more: Partial<CheckResult> = {}): CheckResult => ({
  name,
  severity: 'error',
  dimension: 'validity',
  weight: 1,
  onError: 'block',
  passed: true,
  violations: 0,
  total: 9,
  reads,
  ...more,
})

const OPEN = check('open', { output: ['id'], raw: [] })
const EMAIL = check('email', { output: ['email'], raw: [] }, { passed: false, violations: 7 })
const SALARY = check('salary', { output: [], raw: [RAW] })
const UNKNOWN = check('unknown', null)

describe('results of checks', () => {
  it('say what rows that could not be carried cost to who may see all of the table alone', () => {
    const input = { connection: 'crm', table: 'people' }
    const lacking = { input, columns: ['id', 'salary'], rejected: 3 }
    const [carried] = carriedRows([lacking], 90) as [CheckResult]
    const whole = { quality: { checks: [OPEN, carried], by_dimension: {} }, qualityScore: 95, counts: { rows: 90 } }
    const told = (some: Sight) => {
      const { quality, qualityScore } = shownQuality(some, whole as unknown as Materialization)
      return [(quality as KeptQuality).checks.map(({ name }) => name), qualityScore]
    }
    assert.deepEqual(told(sight(new Set())), [['open'], 100])
    assert.deepEqual(told(sight(new Set(['pii.identifier']))), [['open'], 100], 'another class')
    for (const clear of [new Set(['pay']), 'all'] as const) {
      const [names, score] = told(sight(clear))
      assert.deepEqual(names, ['open', 'rows_carried'])
      assert.ok((score as number) < 100)
    }
  })

  it('are as hidden as all that the checks look at', () => {
    const seen = (some: Sight) =>
      [OPEN, EMAIL, SALARY, UNKNOWN].filter((one) => seesCheck(some, one)).map(({ name }) => name)
    assert.deepEqual(seen(sight(new Set())), ['open'])
    assert.deepEqual(seen(sight(new Set(['pii.identifier']))), ['open', 'email'])
    assert.deepEqual(seen(sight(new Set(['pay']))), ['open', 'salary'])
    assert.deepEqual(seen(sight('all')), ['open', 'email', 'salary', 'unknown'])
    const nothing = sight(new Set(), { columns: [], hidden: new Map() })
    assert.deepEqual(seen(nothing), ['open', 'email', 'salary', 'unknown'], 'where nothing is hidden')
  })

  it('are neither listed nor scored for who may not see them', () => {
    const made = {
      quality: { checks: [OPEN, EMAIL], by_dimension: {} },
      qualityScore: 50,
      counts: { rows: 9, quarantined: 7 },
    } as unknown as Materialization
    const aside = { ...made, quality: { checks: [OPEN, { ...EMAIL, onError: 'quarantine' }], by_dimension: {} } }
    const { quality, qualityScore, counts } = shownQuality(sight(new Set()), aside)
    assert.deepEqual(quality, { checks: [OPEN], by_dimension: { validity: 100 } })
    assert.deepEqual([qualityScore, counts], [100, { rows: 9 }])
    assert.deepEqual(shownQuality(sight(new Set()), made).counts, { rows: 9, quarantined: 7 })
    assert.equal(shownQuality(sight('all'), made).qualityScore, 50)
  })

  it('hide the rows that were put aside, whether they failed or not', () => {
    const aside = { ...EMAIL, onError: 'quarantine', passed: true } as const
    assert.equal(seesAside(sight(new Set()), { checks: [OPEN, aside] }), false)
    assert.equal(seesAside(sight(new Set(['pii.identifier'])), { checks: [OPEN, aside] }), true)
    assert.equal(seesAside(sight(new Set()), { checks: [OPEN, EMAIL] }), true)
  })
})
