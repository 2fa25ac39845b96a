import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { outcomeText, type ProductOutcome } from '../../ingestion/product-outcome.ts'
import { QualityBlocked } from '../../materializer/prepare.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import type { Run } from '../../registry/runs.ts'
import { UNTOLD } from '../products/readable-product.ts'
import { blockedText, type Sight } from '../products/visible-quality.ts'
import { seenLines, seenRun } from './run-view.ts'

const OUTCOME = {
  id: 'prd_1',
  name: 'crm.people',
  materialization_id: 'mat_1',
  epoch: 3,
  state: 'succeeded',
  rows: 9,
  behind: [],
  stores: [{ endpoint: 'lookup', state: 'failed', epoch: 2, error: { code: 'c', message: 'gone; 7 values of a' } }],
  current_epoch: 3,
  reason: null,
} as const

const runOf = (kind: 'ingestion' | 'materialization', products: readonly ProductOutcome[]) =>
  ({
    connectionId: kind === 'ingestion' ? 'con_1' : null,
    productId: kind === 'ingestion' ? null : 'prd_1',
    state: 'succeeded',
    error: null,
    result: { products },
  }) as unknown as Run

const yes = async () => true
/** Also such as are the end of another, or look like the text around them. */
const COLUMNS = ['a', 'aa', 'b; 1 values of a', 'rows', '$&', 'lost something by the cast to its type'] as const

it('a run and its log tell no count of what is hidden today, and all others as they were told', async () => {
  const losses = fc.dictionary(fc.constantFrom(...COLUMNS), fc.integer({ min: 1, max: 12 }), { noNullPrototype: true })
  const cases = fc.record({
    lossy: losses,
    hidden: fc.subarray([...COLUMNS]),
    aside: fc.integer({ min: 0, max: 12 }),
    seesAside: fc.boolean(),
    isLate: fc.boolean(),
    kind: fc.constantFrom('ingestion' as const, 'materialization' as const),
  })
  await fc.assert(
    fc.asyncProperty(cases, async ({ lossy, hidden, aside, seesAside, isLate, kind }) => {
      const stores = isLate ? OUTCOME.stores : []
      const made: ProductOutcome = { ...OUTCOME, stores, lossy_values: lossy, quarantined_rows: aside }
      const open = Object.entries(lossy).filter(([column]) => !hidden.includes(column as 'a'))
      const seen = { ...made, lossy_values: Object.fromEntries(open), quarantined_rows: seesAside ? aside : null }
      const sight = {
        clearColumns: async () => (column: string) => !hidden.includes(column as 'a'),
        seesAside: async () => seesAside,
        blockedText: async () => null,
      }
      const run = runOf(kind, [made])
      assert.deepEqual((await seenRun(run, yes, sight)).result?.['products'], [seen])
      const line = { at: new Date(0), level: 'warn', message: outcomeText(made) } as const
      const rights = { mayRead: yes, mayHear: yes, sight }
      const [shown] = await seenLines(run, [], [line], rights)
      assert.equal(shown?.message, outcomeText(seen))
      const [early] = await seenLines(runOf(kind, []), [], [line], rights)
      assert.equal(early?.message, 'crm.people: epoch 3 with 9 rows is published', 'while nobody knows the outcome')
    }),
  )
})

it('a line that was a warning for hidden values alone is none', async () => {
  const made: ProductOutcome = { ...OUTCOME, stores: [], lossy_values: { pay: 2 }, quarantined_rows: 0 }
  const line = { at: new Date(0), level: 'warn', message: outcomeText(made) } as const
  const levelFor = async (isClear: boolean) => {
    const sight = { clearColumns: async () => () => isClear, seesAside: yes, blockedText: async () => null }
    const [shown] = await seenLines(runOf('ingestion', [made]), [], [line], { mayRead: yes, mayHear: yes, sight })
    return shown?.level
  }
  assert.deepEqual([await levelFor(true), await levelFor(false)], ['warn', 'info'])
})

it('checks that let nothing be published are named to who sees them today, wherever the run speaks of them', async () => {
  const blocked = (...names: string[]) => new QualityBlocked(names, []).message
  const reason = { code: 'quality_blocked', message: blocked('a', 'b, c') }
  const made: ProductOutcome = {
    ...{ ...OUTCOME, epoch: null, state: 'failed', stores: [], lossy_values: {}, quarantined_rows: 0, reason },
  }
  const error = { ...reason, message: `crm.people: ${reason.message}` }
  const run = { ...runOf('ingestion', [made]), error }
  const line = { at: new Date(0), level: 'error', message: outcomeText(made) } as const
  for (const told of [null, blocked('a'), blocked()]) {
    const sight = { clearColumns: async () => () => true, seesAside: yes, blockedText: async () => told }
    const shown = told ?? reason.message
    const seen = await seenRun(run, yes, sight)
    const [outcome] = (seen.result as unknown as { products: ProductOutcome[] }).products
    const [text] = await seenLines(run, [], [line], { mayRead: yes, mayHear: yes, sight })
    assert.deepEqual(
      [outcome?.reason?.message, seen.error?.message, text?.message],
      [shown, `crm.people: ${shown}`, `crm.people: ${shown}; epoch 3 is served as before`],
    )
  }
})

it('a check is named where all its columns are seen, and all are where nothing is hidden', () => {
  const check = (name: string, column: string, passed = false) =>
    ({
      name,
      passed,
      severity: 'error',
      onError: 'block',
      reads: { output: [column], raw: [] },
    }) as unknown as CheckResult
  const columns = ['open', 'pay'].map((name) => ({
    ...{ name, type: 'integer' as const, nullable: true, classification: name === 'pay' ? 'pii.pay' : 'internal' },
  }))
  const sight = { columns, clear: new Set<string>(), hidden: new Map(), rules: { sensitive: [], strategies: {} } }
  const textOf = (checks: readonly CheckResult[], clear: Sight['clear'] = sight.clear) =>
    blockedText({ ...sight, clear }, { checks })
  const both = [check('o', 'open'), check('p', 'pay')]
  assert.equal(textOf(both, 'all'), null)
  assert.equal(textOf([check('o', 'open')]), null)
  assert.match(textOf(both) ?? '', /these checks failed: o$/)
  assert.match(textOf([check('o', 'open', true), check('p', 'pay')]) ?? '', /a check of hidden columns failed$/)
  assert.match(textOf([check('o', 'open'), check('p', 'pay', true)]) ?? '', /these checks failed: o$/)
  assert.match(blockedText(sight, undefined) ?? '', /a check of hidden columns failed$/)
})

it('a run does not say why a product failed that its reader may not read, by whatever name it begins', async () => {
  const reason = { code: 'transform_failed', message: 'the transform divides by nothing' }
  const failed = {
    ...OUTCOME,
    epoch: null,
    materialization_id: null,
    state: 'failed',
    reason,
  } as unknown as ProductOutcome
  const sight = {
    clearColumns: async () => () => true,
    seesAside: async () => true,
    blockedText: async () => null,
  }
  for (const message of [reason.message, `crm.people: ${reason.message}`]) {
    const run = { ...runOf('ingestion', [failed]), state: 'failed', error: { ...reason, message } } as Run
    assert.deepEqual((await seenRun(run, async () => false, sight)).error, UNTOLD, message)
    assert.equal((await seenRun(run, yes, sight)).error?.message, message)
  }
})

it('a run that was asked for a product has no lines of products made of it that its reader may not read', async () => {
  const own: ProductOutcome = { ...OUTCOME, stores: [], quarantined_rows: 0, lossy_values: {} }
  const closed: ProductOutcome = { ...own, id: 'prd_2', name: 'crm.closed' }
  const reason = { code: 'transform_failed', message: 'the transform divides by nothing' }
  const broken = { ...closed, id: 'prd_3', name: 'crm.broken', epoch: null, state: 'failed', reason } as ProductOutcome
  const run = runOf('materialization', [own, closed, broken])
  const lines = [own, closed, broken].map(
    (one) => ({ at: new Date(0), level: 'info', message: outcomeText(one) }) as const,
  )
  const other = { at: new Date(0), level: 'info', message: 'crm.later: epoch 1 with 7 rows is published' } as const
  const sight = { clearColumns: async () => () => true, seesAside: async () => true, blockedText: async () => null }
  const rights = { mayRead: yes, mayHear: async (id: string) => id === 'prd_1', sight }
  // In another attempt, nothing is known yet of those that lines of the first tell of.
  for (const attempt of [run, runOf('materialization', [])]) {
    const shown = await seenLines(attempt, [], [...lines, other], rights)
    assert.equal(shown.length, 1)
    assert.ok(outcomeText(own).startsWith(shown[0]?.message ?? 'nothing'))
  }
})
