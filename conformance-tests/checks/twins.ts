/** Masked variants as their product grows, and by every way of reading. */
import { type ReadPolicy, type Row, type TableSchema, toJsonValue } from '@sluice/sdk'
import { type Check, expect, expectRefusal } from '../check.ts'
import { type CheckContext, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const SECRET = 'hidden-'
const GROWN: TableSchema = {
  ...SIMPLE,
  columns: [...SIMPLE.columns, { name: 'email', type: 'string', nullable: true }],
}
const MASKED: ReadPolicy = { ...openPolicy(GROWN), maskedColumns: ['name', 'email'] }

export const twinChecks: readonly Check[] = [
  {
    id: 94,
    name: 'new-classified-column-masked-from-first-read',
    level: 'core',
    async run(context) {
      const { clear, masked } = await grown(context)
      await clear.expectRows('the clear variant holds what the masked one hides')
      for (const way of masked.ways()) {
        const text = shownText(await masked.see({ way, policy: MASKED }))
        expect(!text.includes(SECRET), () => told(`read ${way} of the masked variant, just after the column was added`))
      }
      await masked.expectRows('before its first value a new column is null')
      const upserts = [...masked.content.values()].map((row) => changed(GROWN, row, { email: '***' }))
      await masked.delta(upserts)
      for (const way of masked.ways())
        await masked.expectRows('and then it holds what was written masked', undefined, { way })
      const [way = 'scan'] = masked.ways()
      if (way === 'key' || context.capabilities.filters.length === 0) return
      const [operator = 'eq'] = context.capabilities.filters
      await expectRefusal(
        {
          kind: 'PERMISSION',
          codes: ['column_masked'],
          tried: 'a filter on the new masked column',
          where: `read ${way}`,
          why: 'the column is masked from its first day',
        },
        () => {
          const filters = [{ column: 'email', operator, values: ['***'] }]
          return answerOf(context.store, masked.target, planOf(GROWN, way, { filters, policy: MASKED }))
        },
      )
    },
  },
  {
    id: 96,
    name: 'mask-parity-across-paths',
    level: 'core',
    async run(context) {
      const { masked } = await grown(context)
      await masked.delta([...masked.content.values()].map((row) => changed(GROWN, row, { email: '***' })))
      await masked.expectRows('the masked rows must be there')
      const [row = []] = [...masked.content.values()]
      const index = GROWN.columns.map(({ name }) => name)
      for (const way of masked.ways()) {
        for (const encoding of context.capabilities.jsonBatches
          ? (['columns', 'json'] as const)
          : (['columns'] as const)) {
          const sight = { target: masked.target, template: masked.template, candidates: [], policy: MASKED }
          const plan =
            way === 'scan' || way === 'range'
              ? planOf(GROWN, way, { policy: MASKED, encoding })
              : pointPlan(way, row, sight, { encoding })
          const answer = await answerOf(context.store, masked.target, plan)
          const given =
            encoding === 'json'
              ? answer.objects[0]
              : Object.fromEntries(
                  (answer.rows[0] ?? []).map((cell, at) => [
                    index[at],
                    toJsonValue(cell, GROWN.columns[at]?.type ?? 'string'),
                  ]),
                )
          expect(given?.['name'] === '***' && given['email'] === '***', () => ({
            what: `masked columns are ${JSON.stringify([given?.['name'], given?.['email']])} instead of *** and ***`,
            where: `read ${way}, encoding ${encoding}`,
            why: 'a mask that holds on one path only is none',
            remedy: 'Read every encoding from the variant’s own rows.',
          }))
        }
      }
    },
  },
]

/** Twins of a product that has just got a column with values to hide. */
async function grown(context: CheckContext): Promise<{ readonly clear: Dataset; readonly masked: Dataset }> {
  const rows = rowsOf(SIMPLE, 1, 6, context.random)
  const wish = { product: 'people', indexed: ['id', 'name'] }
  const clear = await context.dataset(SIMPLE, wish)
  const masked = await context.dataset(SIMPLE, { ...wish, variant: 'masked' })
  await clear.full(rows.map((row) => changed(SIMPLE, row, { name: `${SECRET}name` })))
  await masked.full(rows.map((row) => changed(SIMPLE, row, { name: '***' })))
  const [wideClear, wideMasked] = [context.grown(clear, GROWN, wish), context.grown(masked, GROWN, wish)]
  for (const { target } of [wideClear, wideMasked]) {
    await context.store.provision(target, 'apply')
    await context.store.rls.install(target, FORCED_POLICY)
  }
  await wideClear.delta([...wideClear.content.values()].map((row) => changed(GROWN, row, { email: `${SECRET}mail` })))
  return { clear: wideClear, masked: wideMasked }
}

function shownText(rows: readonly Row[]): string {
  return rows.map((row) => row.map(String).join()).join('\n')
}

function told(where: string) {
  return {
    what: 'a value of the clear variant stands in an answer of the masked one',
    where,
    why: 'a column is classified before its first value is read, or it never was',
    remedy: 'Give every variant rows of its own; a new column is null until its epoch comes.',
  }
}
