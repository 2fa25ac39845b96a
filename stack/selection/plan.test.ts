import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isInOrder, longestFirst, type Plan, type Planned, planOf, wholePlan } from './plan.ts'
import type { GreenRecord, SuiteRecord } from './record.ts'

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
const SUITES = [...NAMES.map((name) => ({ name })), { name: 'crash', isAlwaysRun: true }]
const KEYS = new Map(SUITES.map(({ name }) => [name, `key of ${name}`]))

/** @param day of its last green */
function green(name: string, day: string, more: Partial<SuiteRecord> = {}): GreenRecord {
  const at = `2026-01-${day}T00:00:00.000Z`
  return { [name]: { key: `key of ${name}`, green: { at, commit: 'abc', seconds: 5 }, leftOutSince: null, ...more } }
}

const CHANGED = { key: 'of other files' }
const allGreen: GreenRecord = Object.assign({}, ...[...KEYS.keys()].map((name) => green(name, '01')))

const plan = (record: GreenRecord, commit = 'one', isAll = false): Plan =>
  planOf(SUITES, { keys: KEYS, record, commit, isAll })
const names = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name)
const due = ({ run }: Plan) => names(run.filter(({ isSample }) => !isSample))
const samples = ({ run }: Plan) => names(run.filter(({ isSample }) => isSample))

describe('the plan', () => {
  it('runs what always runs, first, though it is unchanged', () => {
    assert.deepEqual(due(plan(allGreen)), ['crash'])
    assert.equal(names(plan({}).run)[0], 'crash')
  })

  it('runs what has another key than the last time, has failed since, or was never green', () => {
    const record = { ...allGreen, ...green('b', '01', CHANGED), ...green('c', '01', { key: null }) }
    const { d: _, ...known } = record
    assert.deepEqual(due(plan(known)).toSorted(), ['b', 'c', 'crash', 'd'])
  })

  it('runs what was left out before all else, the longest first', () => {
    const record = {
      ...allGreen,
      ...green('a', '01', CHANGED),
      ...green('b', '09', { ...CHANGED, leftOutSince: '2026-01-12' }),
      ...green('c', '08', { ...CHANGED, leftOutSince: '2026-01-11' }),
    }
    assert.deepEqual(due(plan(record)), ['crash', 'c', 'b', 'a'])
  })

  it('then runs first what has not been green for the longest', () => {
    const record = {
      ...allGreen,
      ...green('a', '03', CHANGED),
      ...green('b', '02', CHANGED),
      ...green('c', '04', CHANGED),
    }
    const { d: _, ...known } = record
    assert.deepEqual(due(plan(known)), ['crash', 'd', 'b', 'a', 'c'])
  })

  it('goes without a record by the commit, the same for one and others for others', () => {
    const orders = ['one', 'two', 'three'].map((commit) => names(plan({}, commit).run).slice(1))
    for (const order of orders) assert.deepEqual(order.toSorted(), NAMES)
    assert.deepEqual(names(plan({}, 'one').run).slice(1), orders[0])
    assert.equal(new Set(orders.map(String)).size, 3)
  })

  it('skips what is unchanged, and tells since when', () => {
    const { skipped } = plan(allGreen)
    assert.equal(skipped.length, NAMES.length - 2)
    for (const { why } of skipped) assert.equal(why, 'unchanged since abc of 2026-01-01')
  })

  it('runs two of what is unchanged again, last, others with other commits', () => {
    const drawn = ['one', 'two', 'three', 'four', 'five'].map((commit) => plan(allGreen, commit))
    for (const one of drawn) {
      assert.equal(samples(one).length, 2)
      assert.deepEqual(names(one.run).slice(-2), samples(one))
      assert.deepEqual([...samples(one), ...names(one.skipped)].toSorted(), NAMES)
    }
    assert.ok(new Set(drawn.map((one) => String(samples(one)))).size > 1)
  })

  it('skips nothing where all are to run', () => {
    const whole = plan(allGreen, 'one', true)
    assert.deepEqual([whole.skipped, samples(whole)], [[], []])
    assert.deepEqual(due(whole).toSorted(), [...NAMES, 'crash'].toSorted())
  })

  it('is all, as it stands, where nobody asked for a selection', () => {
    assert.deepEqual(names(wholePlan(SUITES).run), [...NAMES, 'crash'])
  })
})

describe('where there is time for all', () => {
  const run = [...'abc'].map((name): Planned => ({ name, why: '', isSample: false }))
  const seconds = (name: string) => ({ a: 10, b: 40, c: 30 })[name] ?? 0

  it('the longest runs first, by as many at a time as there are', () => {
    assert.deepEqual(names(longestFirst(run, seconds, 40, 2)), ['b', 'c', 'a'])
    assert.deepEqual(names(longestFirst(run, seconds, 27, 3)), ['b', 'c', 'a'])
    assert.deepEqual(names(longestFirst(run, seconds, Number.POSITIVE_INFINITY, 2)), ['b', 'c', 'a'])
    const sampled = run.map((one) => ({ ...one, isSample: one.name === 'b' }))
    assert.deepEqual(names(longestFirst(sampled, seconds, 40, 2)), ['c', 'a', 'b'])
  })

  it('and where there is not, each waits its turn', () => {
    assert.deepEqual(names(longestFirst(run, seconds, 39, 2)), ['a', 'b', 'c'])
  })
})

describe('whether anything is owed', () => {
  const now = Date.parse('2026-01-03T12:00:00.000Z')
  const order = (more: GreenRecord = {}) =>
    isInOrder(SUITES, Object.assign({}, ...SUITES.map(({ name }) => green(name, '02')), more), now)

  it('is nothing where all were green within two days', () => {
    assert.equal(order(), true)
    assert.equal(order(green('b', '02', { leftOutSince: '2026-01-03T00:00:00.000Z' })), true)
  })

  it('is what failed, was never green, is green for long no more, or was left out for a day', () => {
    const owed = [
      green('b', '02', { key: null }),
      { b: { key: 'key of b', green: null, leftOutSince: null } },
      green('b', '01'),
      green('b', '02', { leftOutSince: '2026-01-02T11:00:00.000Z' }),
    ]
    for (const one of owed) assert.equal(order(one), false, JSON.stringify(one))
    assert.equal(isInOrder(SUITES, {}, now), false)
  })
})
