/** A masked value is masked on every path. A store knows of masks only that a variant has its own rows. */
import { isSluiceError, type ReadPolicy, type Row } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf, pointPlan, seeAll } from '../reading.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const SECRET = 'secret-'

export const maskingChecks: readonly Check[] = [
  {
    id: 91,
    name: 'masked-value-never-in-output',
    level: 'core',
    async run(context) {
      const { clear, masked } = await twins(context, 'a')
      await clear.expectRows('the clear variant holds what the masked one hides')
      for (const way of masked.ways()) {
        await masked.expectRows('the masked variant shows its own rows', undefined, { way })
        const text = JSON.stringify(await masked.see({ policy: MASKED, way }), bigintText)
        expect(!text.includes(SECRET), () => ({
          what: 'a value of the clear variant stands in an answer of the masked one',
          where: `read ${way}, variant masked`,
          why: 'each variant is a dataset of its own',
          remedy: 'Use variantTable or cachePrefix of the SDK for every name.',
        }))
      }
      await clear.delta(
        rowsOf(SIMPLE, 50, 2, context.random).map((row) => changed(SIMPLE, row, { name: `${SECRET}new` })),
      )
      await masked.expectRows('writing the clear variant does not touch the masked one')
    },
  },
  {
    id: 92,
    name: 'filter-sort-group-on-masked-is-not-an-oracle',
    level: 'core',
    async run(context) {
      const { masked } = await twins(context, 'a')
      await masked.expectRows('the masked variant shows its rows')
      const [row = []] = [...masked.content.values()]
      for (const [tried, attempt] of selections(context, masked, row)) {
        await expectRefusal(
          {
            kind: 'PERMISSION',
            codes: ['column_masked'],
            tried,
            where: 'store.read, policy.maskedColumns',
            why: 'rows chosen by a masked column tell which of them share a hidden value',
          },
          attempt,
        )
      }
    },
  },
  {
    id: 93,
    name: 'non-interference-twin-stores',
    level: 'core',
    async run(context) {
      const first = await twins(context, 'a', 'x')
      const second = await twins(context, 'b', 'another and much longer value')
      await first.clear.expectRows('the hidden values must be there')
      await second.clear.expectRows('the hidden values must be there')
      const [one, other] = [await everything(context, first.masked), await everything(context, second.masked)]
      expect(one === other && one.includes('***'), () => ({
        what: 'two stores that differ in hidden values alone answer differently',
        where: 'every read of the masked variant, its digest and its errors',
        why: 'changing a hidden value changes no byte of any answer',
        remedy: 'Derive nothing of a masked variant from the clear one.',
      }))
    },
  },
  {
    id: 95,
    name: 'mask-type-preserving-or-declared-null',
    level: 'core',
    async run(context) {
      const { masked } = await twins(context, 'a')
      for (const way of masked.ways()) {
        const rows = await seeAll(context.store, way, {
          ...sightOf(masked),
          candidates: masked.candidates,
          policy: MASKED,
        })
        const isRight = rows.length === masked.content.size && rows.every((row) => row[2] === '***' && row[3] === null)
        expect(isRight, () => ({
          what: `masked columns came back as ${JSON.stringify(rows[0]?.slice(2, 4))} in ${rows.length} rows`,
          where: `read ${way} with maskedColumns name, amount`,
          why: 'a masked column keeps its type, and one masked by null stays null',
          remedy:
            'Leave the values of a masked variant as they were written; maskedColumns only refuses filters and orders.',
        }))
      }
    },
  },
]

const MASKED: ReadPolicy = { ...openPolicy(SIMPLE), maskedColumns: ['name', 'amount'] }

/** The same rows clear and masked: `name` redacted, `amount` null. */
async function twins(context: CheckContext, tenant: string, hidden = 'x') {
  const wish = { tenant, product: 'people', indexed: ['id', 'name'] }
  const clear = await context.dataset(SIMPLE, wish)
  const masked = await context.dataset(SIMPLE, { ...wish, variant: 'masked' })
  const rows = rowsOf(SIMPLE, 1, 6, context.random.fork('twins'))
  await fill(clear, rows, { name: `${SECRET}${hidden}`, amount: '77.77' })
  await fill(masked, rows, { name: '***', amount: null })
  return { clear, masked }
}

/** Every twin is committed at the same instant: an epoch's marks may show in an answer, and are to be equal. */
async function fill(
  dataset: Dataset,
  rows: readonly Row[],
  cells: Readonly<Record<string, string | null>>,
): Promise<void> {
  const upserts = rows.map((row) => changed(SIMPLE, row, cells))
  await dataset.apply(
    await dataset.prepare({ mode: 'full', upserts, commit: { committedAt: '2026-03-01T00:00:30.000000Z' } }),
  )
}

function sightOf({ target, template }: Dataset) {
  return { target, template }
}

/** Ways of choosing rows by a masked column, as far as the store has them. */
function selections({ store, capabilities }: CheckContext, masked: Dataset, row: Row) {
  const { target } = masked
  const tries: [string, () => Promise<unknown>][] = []
  const [operator] = capabilities.filters
  for (const way of masked.ways()) {
    if (way === 'key') {
      const policy = { ...openPolicy(SIMPLE), maskedColumns: ['id'] }
      const plan = pointPlan('key', row, { ...sightOf(masked), candidates: [], policy })
      tries.push(['a key over a masked column', () => answerOf(store, target, plan)])
      continue
    }
    if (operator) {
      const filters = [{ column: 'name', operator, values: ['***'] }]
      const plan = planOf(SIMPLE, way, { filters, policy: MASKED })
      tries.push([`a filter on a masked column (${way})`, () => answerOf(store, target, plan)])
    }
    if (way === 'scan') {
      const orderBy = [{ column: 'amount', direction: 'asc' as const }]
      const plan = planOf(SIMPLE, way, { orderBy, policy: MASKED })
      tries.push(['an order by a masked column', () => answerOf(store, target, plan)])
    }
  }
  if (tries.length > 0) return tries
  throw new CheckFailure({
    what: 'the store has no way of choosing rows',
    where: 'capabilities',
    why: 'nothing would be proven',
    remedy: 'Declare an operation.',
  })
}

/** All that can be had of a dataset, as one text. */
async function everything(context: CheckContext, masked: Dataset): Promise<string> {
  const { store, capabilities } = context
  const parts: unknown[] = []
  for (const way of masked.ways()) {
    const sight = { ...sightOf(masked), candidates: masked.candidates, policy: MASKED }
    parts.push(await seeAll(store, way, sight))
    const [row = []] = masked.candidates
    const plan =
      way === 'range' || way === 'scan' ? planOf(SIMPLE, way, { policy: MASKED }) : pointPlan(way, row, sight)
    if (capabilities.jsonBatches) parts.push(await answerOf(store, masked.target, { ...plan, encoding: 'json' }))
    parts.push(await answerOf(store, masked.target, { ...plan, limit: 0 }).catch(errorParts))
  }
  if (capabilities.digest) parts.push(await store.digest?.(masked.target, callDeadline()))
  if (capabilities.recover) parts.push((await store.recover?.(masked.target))?.epoch)
  return JSON.stringify(parts, bigintText)
}

function errorParts(error: unknown): unknown {
  if (!isSluiceError(error)) throw error
  const { kind, code, message, remedy, details } = error
  return { kind, code, message, remedy, details }
}

function bigintText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value
}
