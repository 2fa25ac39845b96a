/**
 * A sample of `npm run prove -- non-interference`: one pair of worlds that differ in every hidden value of a row at once
 * and in the neighbour's rows.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Deployment, openDeployment } from './deployment.ts'
import { EXCEPTIONS, type Heard, told } from './non-interference/comparison.ts'
import { comparePair, everyDifference } from './non-interference/pair.ts'
import { useMasks } from './non-interference/worlds.ts'

const SEED = 1
const OPERATIONS = 40

let deployment: Deployment

before(async () => {
  // Masks of every kind are the configuration of a runtime of its own.
  delete process.env['SLUICE_ACCEPTANCE_URL']
  useMasks(process.env)
  deployment = await openDeployment()
})

after(() => deployment?.stop())

describe('a reader without clearance', () => {
  it('is promised these exceptions and no others', () => {
    assert.deepEqual(Object.values(EXCEPTIONS), [
      'pseudonyms, and what they concede: which rows join, group and are null, and how many they are',
      'what the mask "partial" shows',
      'columns that the owner of their source has approved by name, and products listed as deployed before',
      'sizes and offsets in bytes of files that hold pseudonyms',
      'ids and times of epochs, snapshots and runs',
      'whether a blocking check on a hidden column let an epoch pass',
    ])
  })

  it('hears the same whatever is hidden from him', async () => {
    const { operations, interferences } = await comparePair(deployment, SEED, OPERATIONS, everyDifference(SEED))
    assert.ok(operations >= OPERATIONS)
    assert.deepEqual(interferences, [])
  })
})

describe('the comparison', () => {
  const answer = (body: unknown) => ({ status: 200, headers: {}, text: JSON.stringify(body) })
  const isSame = (one: unknown, other: unknown, hasPseudonyms = false) =>
    told(answer(one), ['own-a'], hasPseudonyms) === told(answer(other), ['own-b'], hasPseudonyms)

  it('sets aside which world it is, and keeps what is equal in each', () => {
    const hash = (digit: string) => digit.repeat(64)
    assert.ok(
      isSame({ tenant: 'own-a', at: '2026-01-01T00:00:00Z' }, { tenant: 'own-b', at: '2026-01-02T10:00:00.5Z' }),
    )
    assert.ok(isSame([hash('1'), hash('1'), hash('2')], [hash('8'), hash('8'), hash('9')]))
    assert.ok(!isSame([hash('1'), hash('1')], [hash('8'), hash('9')]))
    assert.ok(isSame({ 'total-files-size': '10' }, { 'total-files-size': '11' }, true))
    const [one, other] = ['one', 'other'].map((name) => ({ ...answer({}), headers: { etag: `"${name}"`, date: name } }))
    assert.equal(told(one as Heard, [], false), told(other as Heard, [], false))
  })

  it('compares a file to the byte, unless it has pseudonyms', () => {
    const file = (text: string): Heard => ({
      ...{ status: 200, text },
      headers: { 'content-type': 'application/vnd.apache.parquet' },
    })
    assert.notEqual(told(file('PAR1a'), [], false), told(file('PAR1b'), [], false))
    assert.equal(told(file('PAR1a'), [], true), told(file('PAR1b'), [], true))
  })

  it('finds a value, a length, a count, an order, a status and a size', () => {
    for (const [one, other] of [
      [{ salary: 100 }, { salary: 101 }],
      [{ name: 'x'.repeat(90) }, { name: 'x'.repeat(91) }],
      [{ rows: 3 }, { rows: 4 }],
      [
        [1, 2],
        [2, 1],
      ],
      [{ 'total-files-size': '10' }, { 'total-files-size': '11' }],
      [{ total: null }, { total: 0 }],
      [{ next_cursor: 'x'.repeat(80) }, { next_cursor: 'x'.repeat(90) }],
    ]) {
      assert.ok(!isSame(one, other), JSON.stringify(one))
    }
    const [head, body] = [{ status: 200, headers: {}, text: '' }, ['a']] as const
    const apart: readonly Partial<Heard>[] = [
      { status: 400 },
      { headers: { 'content-type': 'text/plain' } },
      { headers: { etag: 'W/"x"' } },
      { headers: { 'compressed-excess': '3' } },
    ]
    for (const change of apart) assert.notEqual(told(head, body, false), told({ ...head, ...change }, body, false))
  })
})
