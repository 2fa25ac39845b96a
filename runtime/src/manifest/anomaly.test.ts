/** What an anomaly check means, and that nothing else is taken for one. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { parseEdited } from './editing.ts'
import { METRICS, SENSITIVITIES } from './files/quality.ts'

const COLUMNS = ['customer_id', 'full_name', 'country', 'revenue', 'last_order_at', 'order_count', 'nothing'] as const
const HELD = new Set(['customer_id', 'country', 'order_count'])

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

it('is what was written, with its defaults, or is refused', async () => {
  const writings = fc.record({
    metric: fc.constantFrom(...METRICS, 'mean'),
    column: optional(fc.constantFrom(...COLUMNS)),
    sensitivity: optional(fc.constantFrom(...SENSITIVITIES, 'none')),
    min_history: optional(fc.integer({ min: 0, max: 120 })),
    window: optional(fc.integer({ min: 0, max: 120 })),
    learn_from: optional(fc.constantFrom('2026-05-01', '2026-02-29', '2028-02-29', '26-05-01')),
  })
  await fc.assert(
    fc.asyncProperty(writings, async (written) => {
      const said = Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined))
      const edit = ['quality', 'row_count:\n      min: 1', `anomaly: ${JSON.stringify(said)}`] as const
      const parsed = await parseEdited('customers', [edit])
      const { metric, column, sensitivity, min_history: least, window, learn_from: from } = written
      const history = least ?? 7
      const isColumn =
        metric === 'row_count'
          ? column === undefined
          : column !== undefined &&
            column !== 'nothing' &&
            !(metric === 'null_share' && HELD.has(column)) &&
            !(metric === 'drift' && column === 'last_order_at')
      const isSound =
        metric !== 'mean' &&
        isColumn &&
        sensitivity !== 'none' &&
        history >= 3 &&
        history <= 100 &&
        (window === undefined || (window >= history && window <= 100)) &&
        from !== '2026-02-29' &&
        from !== '26-05-01'
      assert.equal(parsed.ok, isSound, JSON.stringify([written, parsed.problems]))
      if (!parsed.ok) return
      assert.deepEqual(parsed.manifests.quality.checks[6]?.rule, {
        kind: 'anomaly',
        metric,
        column: column ?? null,
        sensitivity: sensitivity ?? 'normal',
        minHistory: history,
        window: window ?? Math.max(30, history),
        learnFrom: from ?? null,
      })
    }),
    { numRuns: 300 },
  )
})
