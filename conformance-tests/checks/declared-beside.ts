/** Operations of a plugin's own: where their pages end, and datasets beside each other. */
import { CLEAR, type ReadPolicy, type Row } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { cellsText } from '../compare.ts'
import type { CheckContext, DatasetWish } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { openPolicy } from '../reading.ts'
import { DECLARED_OPERATION } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import { broken, INPUTS_REMEDY, pageOf, type Trial, trialsOf, whole } from './declared.ts'

const ROWS = 24

export const declaredBesideChecks: readonly Check[] = [
  {
    id: 163,
    name: 'pages-of-operations-end-with-their-last-row',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const dataset = await context.filled(ROWS)
      let exact = 0
      for (const trial of trialsOf(context, dataset)) {
        const { length } = await whole(context.store, dataset, trial)
        const sizes = Array.from({ length }, (_, index) => index + 1).filter((size) => length % size === 0)
        for (const limit of context.level === 'core' ? sizes.slice(-2) : sizes) {
          exact += 1
          await expectPages(context, dataset, trial, limit, length / limit)
        }
        const most = await pageOf(context.store, dataset.target, trial, { limit: length + 1 })
        expect(most.next === undefined, () =>
          broken(trial, `of ${length} rows, all in one page, it says that more follow`),
        )
      }
      expect(exact > 0, () => vacuous('no operation found a row', INPUTS_REMEDY))
    },
  },
  {
    id: 164,
    name: 'operations-on-twins-and-neighbours-hang-on-none-of-them',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      // The same keys in all of them, and other texts in each.
      const keys = rowsOf(SIMPLE, 1, ROWS, context.random)
      const texts = context.random.shuffled(keys).map((row) => row[2] ?? null)
      const contents = [0, 7, 13].map((by) =>
        keys.map((row, index) =>
          changed(SIMPLE, row, { name: by === 13 ? '***' : (texts[(index + by) % ROWS] ?? null) }),
        ),
      )
      const wishes: readonly DatasetWish[] = [
        { product: 'beside' },
        { product: 'beside', variant: 'masked_1' },
        { product: 'beside', variant: 'masked' },
      ]
      const alone: Dataset[] = []
      for (const rows of contents) alone.push(await filled(context, {}, rows))
      const beside: Dataset[] = []
      for (const [index, wish] of wishes.entries()) beside.push(await filled(context, wish, contents[index] ?? []))
      const trials = [...alone.flatMap((dataset) => trialsOf(context, dataset))]
      for (const trial of trials) {
        for (const [index, dataset] of beside.entries()) {
          const wanted = textOf(await whole(context.store, alone[index] as Dataset, trial))
          const given = textOf(await whole(context.store, dataset, trial))
          expect(wanted === given, () => ({
            ...broken(
              trial,
              `on the variant ${dataset.target.variant} it answers otherwise than on the same rows alone`,
            ),
            expected: wanted.slice(0, 300),
            came: given.slice(0, 300),
            why: `what is in ${CLEAR} and in other variants is told by an order or by rows that are found through it`,
            remedy: 'Keep an index of each variant by itself, and ask that one.',
          }))
        }
      }
    },
  },
  {
    id: 191,
    name: 'pages-of-operations-are-full-under-every-policy',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      // Every second row is hidden, among them the best ones of some input.
      const dataset = await context.filled(2 * ROWS)
      const shown = [...dataset.content.values()].filter((_, index) => index % 2 === 0).map(([id = null]) => id)
      const rows = { op: 'in', column: 'id', values: shown.map((literal) => ({ literal })) } as const
      const policy: ReadPolicy = { ...openPolicy(SIMPLE), rows }
      let tried = 0
      for (const trial of trialsOf(context, dataset)) {
        const { length } = await whole(context.store, dataset, trial, policy)
        if (length < 2) continue
        tried += 1
        for (const limit of new Set([1, 2, Math.ceil(length / 2), length])) {
          await expectPages(context, dataset, trial, limit, Math.ceil(length / limit), policy)
        }
      }
      expect(tried > 0, () => vacuous('no operation found two rows that the policy shows', INPUTS_REMEDY))
    },
  },
]

async function expectPages(
  { store }: CheckContext,
  { target }: Dataset,
  trial: Trial,
  limit: number,
  wanted: number,
  policy: ReadPolicy = openPolicy(SIMPLE),
): Promise<void> {
  let pages = 0
  let short = 0
  let after: Awaited<ReturnType<typeof pageOf>>['next']
  do {
    const page = await pageOf(store, target, trial, { policy, limit, ...(after ? { after } : {}) })
    pages += 1
    after = page.next
    if (after !== undefined && page.rows.length < limit) short += 1
  } while (after !== undefined && pages <= wanted)
  expect(pages === wanted && after === undefined && short === 0, () => ({
    ...broken(trial, `its rows in pages of ${limit} are not full pages that end with the last row`),
    expected: `${wanted} pages, the last without next`,
    came: `${pages} pages${after === undefined ? '' : ', and next again'}, ${short} of them with fewer rows and next`,
    why: 'next says that a row follows the last one given: a page that is short, or leads to an empty one, tells of rows that are hidden',
    remedy: 'Apply the policy before the limit, ask for one row more than the page holds, and give next where it came.',
  }))
}

async function filled(context: CheckContext, wish: DatasetWish, rows: readonly Row[]): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, wish)
  const commit = { committedAt: '2026-03-01T00:00:30.000000Z' }
  await dataset.apply(await dataset.prepare({ mode: 'full', upserts: rows, commit }))
  return dataset
}

const textOf = (rows: readonly Row[]) => rows.map(cellsText).join('\n')
