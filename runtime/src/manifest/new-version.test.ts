/** What quality.yaml may say of new versions, and that nothing else is taken for it. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { parseEdited } from './editing.ts'
import type { Threshold } from './manifest-set.ts'

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

/** As they are written, and what they mean; null: nothing. */
const MOST: readonly (readonly [number | string, Threshold | null])[] = [
  [0, { rows: 0 }],
  [12, { rows: 12 }],
  ['2.5%', { percent: 2.5 }],
  ['100 %', { percent: 100 }],
  [-1, null],
  ['101%', null],
]
const most = fc.constantFrom(...MOST)
const column = fc.constantFrom('customer_id', 'full_name', 'country', 'revenue', 'nothing')
const ofColumns = fc.array(fc.record({ columns: fc.uniqueArray(column, { minLength: 1, maxLength: 2 }), most }), {
  minLength: 1,
  maxLength: 2,
})

it('is what was written, or is refused', async () => {
  const writings = fc.record({
    rows: optional(most),
    leaving: optional(most),
    joining: optional(most),
    changed: optional(ofColumns),
    null_share: optional(ofColumns),
  })
  await fc.assert(
    fc.asyncProperty(writings, fc.boolean(), async (written, isAlone) => {
      const said: Record<string, unknown> = {}
      const meant: unknown[] = []
      let isSound = true
      for (const metric of ['rows', 'leaving', 'joining'] as const) {
        const bound = written[metric]
        if (bound === undefined) continue
        said[metric] = bound[0]
        meant.push({ metric, column: null, atMost: bound[1] })
        isSound &&= bound[1] !== null
      }
      for (const metric of ['changed', 'null_share'] as const) {
        const bounds = written[metric]
        if (bounds === undefined) continue
        said[metric] = bounds.map(({ columns, most: [atMost] }) => ({
          columns: isAlone && columns.length === 1 ? columns[0] : columns,
          at_most: atMost,
        }))
        const all = bounds.flatMap(({ columns }) => columns)
        isSound &&= new Set(all).size === all.length && !all.includes('nothing')
        isSound &&= !(metric === 'changed' && all.includes('customer_id'))
        for (const { columns, most: one } of bounds) {
          isSound &&= one[1] !== null && (metric === 'changed' || 'percent' in one[1])
          for (const name of columns) meant.push({ metric, column: name, atMost: one[1] })
        }
      }
      isSound &&= Object.keys(said).length > 0
      const edit = ['quality', 'checks:\n', `new_version: ${JSON.stringify(said)}\nchecks:\n`] as const
      const parsed = await parseEdited('customers', [edit])
      assert.equal(parsed.ok, isSound, JSON.stringify([said, parsed.problems]))
      if (parsed.ok) assert.deepEqual(parsed.manifests.quality.newVersion, meant)
    }),
    { numRuns: 80 },
  )
})

it('finds rows by an identity, and has names that no check may take', async () => {
  const bounds = ['quality', 'checks:\n', 'new_version: { leaving: 1 }\nchecks:\n'] as const
  const without = ['output', 'role: identity', 'role: attribute'] as const
  const { problems } = await parseEdited('customers', [bounds, without])
  assert.match(JSON.stringify(problems), /new_version\.leaving.*no column with role: identity/)
  const named = ['quality', 'name: id_present', 'name: "new_version: rows"'] as const
  assert.match(JSON.stringify((await parseEdited('customers', [named])).problems), /those of the bounds/)
})
