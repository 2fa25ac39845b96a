/** Pages of every order, over values at the ends of their types, and of more rows and columns than a batch has. */
import type { Ordering, ReadPlan, ReadPolicy, Row, Value } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, keyText, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import type { Rank, RankedRow, RankedTable } from '../ranked-table.ts'
import { nameOf, RANKED_ROWS, type RankedWorld, rankedWorld, unsigned } from '../ranked-world.ts'
import { answerOf, openPolicy, type Pages, pagesOf, planOf } from '../reading.ts'
import { anyOperation, operation } from '../requirements.ts'
import { rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

/** One row a page, pages that end with the last row, and others. */
const PAGES = [7, 20, 59, 60] as const

export const pageChecks: readonly Check[] = [
  {
    id: 136,
    name: 'orders-and-pages-hold-at-the-ends-of-types',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      const world = await rankedWorld(context)
      for (const column of world.table.ordered) {
        for (const direction of ['asc', 'desc'] as const) {
          await expectOrder(context, world, column, direction)
          await expectWholeOrder(context, world, column, direction)
        }
      }
    },
  },
  {
    id: 137,
    name: 'pages-hold-while-rows-come-and-go-in-every-order',
    level: 'full',
    requires: [operation('scan')],
    async run(context) {
      const { table } = await rankedWorld(context)
      const directions = ['asc', 'desc'] as const
      const all = table.ordered.flatMap((column) => directions.map((direction) => ({ column, direction })))
      const tried = context.level === 'hard' ? all : context.random.shuffled(all).slice(0, 6)
      for (const { column, direction } of tried) {
        await expectLastingRows(context, { column: nameOf(table, column), direction })
      }
    },
  },
  {
    id: 138,
    name: 'hidden-rows-leave-no-trace-in-pages',
    level: 'core',
    requires: [anyOperation('scan', 'range')],
    async run(context) {
      await expectNoTrace(context)
    },
  },
  {
    id: 142,
    name: 'more-rows-and-columns-than-a-batch',
    level: 'full',
    requires: [anyOperation('scan', 'range')],
    async run(context) {
      await expectLarge(context)
    },
  },
]

async function expectOrder(
  context: CheckContext,
  world: RankedWorld,
  column: number,
  direction: 'asc' | 'desc',
): Promise<void> {
  const { table, rows, dataset } = world
  const wide = context.capabilities.filters.filter(
    (operator) => operator === 'ne' || operator === 'le' || operator === 'ge',
  )
  // One that leaves many rows: pages of a few say little.
  const kept =
    wide.length > 0 && context.random.chance(0.5)
      ? [table.filter(context.random.pick(table.ordered), context.random.pick(wide), rows)]
      : []
  const { predicate, truth } = table.comparison(context.random.pick(table.ordered), rows)
  const isOpen = context.random.chance(0.5)
  const { claims, ranks } = table.claims(rows)
  const policy = isOpen ? openPolicy(table.schema) : { ...openPolicy(table.schema), rows: predicate, claims }
  const expected = rows.filter((row) => kept.every((one) => one.holds(row)) && (isOpen || truth(row, ranks) === 1))
  const orderBy: Ordering[] = [{ column: nameOf(table, column), direction }]
  const filters = kept.map((one) => one.filter)
  const limit = context.random.pick(PAGES)
  const plan = planOf(table.schema, 'scan', { orderBy, filters, policy, limit })
  const given = await walk(context, dataset, plan)
  const where = `read scan by ${nameOf(table, column)} ${direction}, pages of ${limit}`
  const difference = differenceOf(
    table.schema,
    expected.map(({ row }) => unsigned(row)),
    given.rows.map(unsigned),
  )
  const pages = Math.max(1, Math.ceil(expected.length / limit))
  expect(difference === null && given.pages === pages, () => ({
    what: `${expected.length} rows came as ${given.pages} pages: ${difference ? describeDifference(difference) : 'all rows once'}`,
    expected: `${pages} pages`,
    came: `${given.pages} pages`,
    where,
    why: 'each row stands on exactly one page, and the page that ends with the last row is the last',
    remedy:
      'Look one row beyond the limit, continue strictly after the last row, and leave out `next` where no row is left.',
  }))
  expectRanks(table, rows, given.rows, { column, direction, where })
}

/** The store is opened anew between some pages. */
function walk(context: CheckContext, { target }: Dataset, plan: ReadPlan): Promise<Pages> {
  return pagesOf(() => context.store, target, plan, {
    most: RANKED_ROWS + 2,
    async between() {
      if (context.random.chance(0.02)) await context.reopen()
    },
  })
}

/** Every row in one answer: values that are near each other meet. */
async function expectWholeOrder(
  context: CheckContext,
  { table, rows, dataset }: RankedWorld,
  column: number,
  direction: 'asc' | 'desc',
): Promise<void> {
  const orderBy: Ordering[] = [{ column: nameOf(table, column), direction }]
  const given = await answerOf(context.store, dataset.target, planOf(table.schema, 'scan', { orderBy }))
  const where = `read scan by ${nameOf(table, column)} ${direction}, in one page`
  expect(given.rows.length === rows.length, () => vacuous(`${given.rows.length} rows came`))
  expectRanks(table, rows, given.rows, { column, direction, where })
}

interface Asked {
  readonly column: number
  readonly direction: 'asc' | 'desc'
  readonly where: string
}

function expectRanks(
  table: RankedTable,
  all: readonly RankedRow[],
  given: readonly Row[],
  { column, direction, where }: Asked,
): void {
  const ranks = new Map(all.map((one) => [keyText(table.schema, one.row), one.ranks[column] ?? null]))
  const places = given.map((row) => heightOf(ranks.get(keyText(table.schema, row)) ?? null))
  const sign = direction === 'asc' ? 1 : -1
  const at = places.findIndex((place, index) => index > 0 && ((places[index - 1] ?? 0) - place) * sign > 0)
  expect(at < 0, () => ({
    what: `${shown(given[at - 1]?.[column] ?? null)} stands before ${shown(given[at]?.[column] ?? null)}`,
    where,
    why: 'values order by their type, text by its UTF-8 bytes, NaN above all numbers, and null above every value',
    remedy: 'Order with a binary collation and exact types, nulls last when ascending and first when descending.',
  }))
}

const heightOf = (rank: Rank): number => rank ?? Number.POSITIVE_INFINITY

/** Rows come and go between two pages: those that stay come exactly once, in whatever order. */
async function expectLastingRows(context: CheckContext, ordering: Ordering): Promise<void> {
  const { table, dataset, rows } = await rankedWorld(context)
  const staying = rows.filter((_, index) => index % 2 === 0)
  const leaving = rows.filter((_, index) => index % 2 === 1)
  const seen: string[] = []
  let after: readonly Value[] | undefined
  let pages = 0
  do {
    const plan = planOf(table.schema, 'scan', { limit: 9, orderBy: [ordering], ...(after ? { after } : {}) })
    const answer = await answerOf(context.store, dataset.target, plan)
    seen.push(...answer.rows.map((row) => keyText(table.schema, row)))
    after = answer.next
    pages += 1
    const coming = table.rows(1000 + pages * 10, 3).map(({ row }) => row)
    await dataset.delta(
      coming,
      leaving.splice(0, 3).map(({ row }) => row),
    )
  } while (after !== undefined && pages < 60)
  const wrong = staying.filter(({ row }) => seen.filter((key) => key === keyText(table.schema, row)).length !== 1)
  expect(wrong.length === 0 && pages > 3, () => ({
    what: `${wrong.length} rows that were there all the time came not once, over ${pages} pages`,
    where: `read scan by ${ordering.column} ${ordering.direction}, with writes between the pages`,
    why: 'a page begins after the last row of the former, wherever that row stands by now, or if it is gone',
    remedy: 'Continue from the values in `after`, and count no rows.',
  }))
  await context.release(dataset)
}

/** Two datasets, one of which has rows besides that the policy hides: their pages are the same, positions included. */
async function expectNoTrace(context: CheckContext): Promise<void> {
  const visible = rowsOf(SIMPLE, 1, 30, context.random)
  const hidden = rowsOf(SIMPLE, 101, 25, context.random)
  const mixed = context.random.shuffled([...visible, ...hidden])
  const [alone, among] = [
    await context.dataset(SIMPLE, { tenant: 'x' }),
    await context.dataset(SIMPLE, { tenant: 'y' }),
  ]
  await alone.full(visible)
  await among.full(mixed)
  const rows = { op: 'le', column: 'id', value: { literal: 100n } } as const
  const policy: ReadPolicy = { ...openPolicy(SIMPLE), rows }
  for (const way of alone.ways().filter((name) => name === 'scan' || name === 'range')) {
    for (const column of way === 'scan' ? ['name', 'amount', 'rank', 'active', 'id'] : [TIME_COLUMN]) {
      for (const limit of [1, 10, 15]) {
        const orderBy: Ordering[] = way === 'scan' ? [{ column, direction: 'desc' }] : []
        const plan = planOf(SIMPLE, way, { policy, limit, orderBy })
        const [left, right] = [await walk(context, alone, plan), await walk(context, among, plan)]
        expect(left.rows.length === 30 && textOf(left) === textOf(right), () => ({
          what: `pages of ${limit} are others where hidden rows stand beside the visible ones: ${left.pages} and ${right.pages} pages, ${left.rows.length} and ${right.rows.length} rows`,
          where: `read ${way} by ${column}, under a policy that hides rows`,
          why: 'a position that tells of a hidden row, or a page that it makes shorter, tells that the row is there',
          remedy: 'Apply the policy before the limit, and make `next` of the last row that the reader is given.',
        }))
      }
    }
  }
}

function textOf(answer: object): string {
  return JSON.stringify(answer, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
}

/** Two batches' worth of rows and then some, of more columns than engines like. */
async function expectLarge(context: CheckContext): Promise<void> {
  const { maxReadRows } = context.capabilities.limits
  const wide: RankedTable['schema'] = {
    ...SIMPLE,
    columns: [
      ...SIMPLE.columns,
      ...Array.from({ length: 60 }, (_, at) => ({ name: `c${at}`, type: 'integer', nullable: true }) as const),
    ],
  }
  const count = 4_500
  const dataset = await context.dataset(wide)
  const rows = rowsOf(wide, 1, count, context.random)
  await dataset.full(rows)
  for (const way of dataset.ways().filter((name) => name === 'scan' || name === 'range')) {
    for (const limit of [Math.min(maxReadRows, count), Math.min(maxReadRows, count / 3)]) {
      const { rows: given, pages } = await walk(context, dataset, planOf(wide, way, { limit }))
      const difference = differenceOf(wide, rows, given)
      expect(difference === null && pages === Math.ceil(count / limit), () => ({
        what: `${count} rows in pages of ${limit} came as ${pages}: ${difference ? describeDifference(difference) : 'all rows once'}`,
        where: `read ${way} of ${wide.columns.length} columns`,
        why: 'an answer holds what its limit allows, in as many batches as the store likes',
        remedy: 'Yield batch after batch until the limit, and give `next` with the last.',
      }))
    }
  }
}
