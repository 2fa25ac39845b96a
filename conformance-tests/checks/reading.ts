/** What a plan asks for is what the answer holds: columns, rows, order, pages. */

import {
  compareAs,
  type Filter,
  type FilterOperator,
  type ReadOperation,
  type Row,
  rowPasses,
  type Value,
} from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal, vacuous } from '../check.ts'
import { describeDifference, differenceOf, indexOf, keyText } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, pagesOf, planOf, pointPlan } from '../reading.ts'
import { anyOperation, filter, operation } from '../requirements.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'

const COLUMNS = SIMPLE.columns.map((column) => column.name)

export const readingChecks: readonly Check[] = [
  {
    id: 51,
    name: 'projection-returns-only-requested',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 6)
      const [row = []] = [...dataset.content.values()]
      for (const way of dataset.ways()) {
        for (const columns of [['name', 'id'], ['amount'], [...COLUMNS].reverse()]) {
          await expectProjection(context, dataset, way, row, columns)
        }
      }
    },
  },
  {
    id: 52,
    name: 'filter-ops-agree-with-oracle',
    level: 'core',
    requires: [filter('eq')],
    async run(context) {
      const dataset = await filled(context, 40)
      const ways = dataset.ways().filter((way) => way !== 'key')
      let excluded = 0
      for (const way of ways) {
        for (let trial = 0; trial < (context.level === 'core' ? 40 : 200); trial += 1) {
          const filters = randomFilters(context, dataset, way)
          excluded += await expectFiltered(context, dataset, way, filters)
        }
      }
      expect(ways.length > 0 && excluded > 0, () => vacuous('no filter excluded a row'))
    },
  },
  {
    id: 53,
    name: 'order-total-and-stable',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      const dataset = await filled(context, 40)
      for (const column of COLUMNS) {
        for (const direction of ['asc', 'desc'] as const) {
          const plan = planOf(SIMPLE, 'scan', { orderBy: [{ column, direction }] })
          const first = await answerOf(context.store, dataset.target, plan)
          expectOrdered(first.rows, column, direction)
          const again = await answerOf(context.store, dataset.target, plan)
          const keys = (rows: readonly Row[]) => rows.map((row) => keyText(SIMPLE, row)).join()
          expect(first.rows.length === 40 && keys(first.rows) === keys(again.rows), () => ({
            what: `two scans ordered by ${column} ${direction} gave ${first.rows.length} and ${again.rows.length} rows in different orders`,
            where: 'read scan, orderBy',
            why: 'rows that are equal in the asked column still need one order, or pages overlap',
            remedy: 'Add the key columns to the order.',
          }))
        }
      }
    },
  },
  {
    id: 54,
    name: 'pagination-no-skip-no-dup-under-concurrent-writes',
    level: 'core',
    requires: [anyOperation('scan', 'range')],
    async run(context) {
      const dataset = await filled(context, 43)
      for (const way of dataset.ways().filter((name) => name === 'scan' || name === 'range')) {
        for (const column of way === 'scan' ? ['name', 'amount', 'rank', 'active', 'id'] : ['at']) {
          for (const direction of ['asc', 'desc'] as const) {
            await expectPages(context, dataset, way, way === 'scan' ? [{ column, direction }] : [])
          }
        }
        await expectPagesWhileWritten(context, way)
      }
    },
  },
  {
    id: 55,
    name: 'bad-cursor-is-INVALID_DATA',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      const dataset = await filled(context, 12)
      const read = (after: readonly Value[]) =>
        answerOf(context.store, dataset.target, planOf(SIMPLE, 'scan', { limit: 5, after }))
      const first = await answerOf(context.store, dataset.target, planOf(SIMPLE, 'scan', { limit: 5 }))
      expect(first.rows.length === 5 && first.next !== undefined, () => vacuous('the first page had no next one'))
      expect((await read(first.next)).rows.length === 5, () => vacuous('a true cursor gave no second page'))
      for (const after of [[], [...first.next, 1n], first.next.map(() => true), first.next.map(() => "x' or true")]) {
        await expectRefusal(
          {
            kind: 'INVALID_DATA',
            tried: `a cursor of ${after.length} values of other types`,
            where: 'read scan, after',
            why: 'a cursor of another read would skip or repeat rows without a word',
          },
          () => read(after),
        )
      }
    },
  },
  {
    id: 56,
    name: 'limits-rows-bytes-enforced',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 30)
      const { store, capabilities } = context
      for (const way of dataset.ways().filter((name) => name === 'scan' || name === 'range')) {
        for (const limit of [1, 7, 29]) {
          const { rows, next } = await answerOf(store, dataset.target, planOf(SIMPLE, way, { limit }))
          expect(rows.length === limit && next !== undefined, () => ({
            what: `a limit of ${limit} gave ${rows.length} rows ${next === undefined ? 'and no cursor' : ''}`,
            where: `read ${way}, limit`,
            why: 'a client asked for so many rows, and more are there',
            remedy: 'Stop at the limit, and give the position of the last row as next.',
          }))
        }
      }
      await dataset.expectRows('the rows must be there before a limit can mean anything')
      const [way = 'scan'] = dataset.ways()
      const [row = []] = dataset.candidates
      for (const limit of [0, -1, 1.5, capabilities.limits.maxReadRows + 1]) {
        await expectRefusal(
          {
            kind: 'INVALID_DATA',
            tried: `a limit of ${limit}`,
            where: `read ${way}, limit`,
            why: 'the store declares its limit, and a read beyond it is unbounded',
          },
          () => answerOf(store, dataset.target, pointPlan(way, row, sightOf(dataset), { limit })),
        )
      }
    },
  },
]

async function filled(context: CheckContext, count: number): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, { indexed: COLUMNS })
  await dataset.full(context.random.shuffled(rowsOf(SIMPLE, 1, count, context.random)))
  return dataset
}

function sightOf({ target, template }: Dataset) {
  return { target, template, candidates: [] }
}

async function expectProjection(
  { store, capabilities }: CheckContext,
  dataset: Dataset,
  way: ReadOperation,
  row: Row,
  columns: readonly string[],
): Promise<void> {
  const plan = pointPlan(way, row, sightOf(dataset), { columns, ...(way === 'range' ? { filters: [] } : {}) })
  const { rows } = await answerOf(store, dataset.target, plan)
  const wanted = columns.map((name) => row[indexOf(SIMPLE, name)] ?? null)
  const found = rows.some(
    (given) => given.length === columns.length && given.every((cell, index) => cell === wanted[index]),
  )
  expect(found, () => projected(way, columns, `${rows.length} rows of ${rows[0]?.length ?? 0} columns`))
  if (!capabilities.jsonBatches) return
  const { objects } = await answerOf(store, dataset.target, { ...plan, encoding: 'json' })
  const names = Object.keys(objects[0] ?? {})
  const isSame = names.length === columns.length && columns.every((name) => names.includes(name))
  expect(isSame, () => projected(way, columns, `objects of ${names.join(', ')}`))
}

function projected(way: ReadOperation, columns: readonly string[], given: string) {
  return {
    what: `a plan for ${columns.join(', ')} gave ${given}`,
    where: `read ${way}, columns`,
    why: 'a column that was not asked for may be one that must not be seen',
    remedy: 'Give exactly the columns of the plan, in its order.',
  }
}

/** One filter or two; for `get` the operators that a point read has. */
function randomFilters(
  { random, capabilities }: CheckContext,
  dataset: Dataset,
  way: ReadOperation,
): readonly Filter[] {
  const rows = [...dataset.content.values()]
  const points: readonly FilterOperator[] = ['eq', 'in']
  const operators = capabilities.filters.filter((name) => way !== 'get' || points.includes(name))
  return Array.from({ length: random.integer(1, 2) }, () => {
    const column = random.pick(COLUMNS)
    const operator = random.pick(operators)
    const cells = rows.map((row) => row[indexOf(SIMPLE, column)] ?? null).filter((cell) => cell !== null)
    const count = operator === 'in' ? random.integer(1, 4) : 1
    return { column, operator, values: Array.from({ length: count }, () => random.pick(cells)) }
  })
}

/** How many rows the filters leave out. */
async function expectFiltered(
  { store }: CheckContext,
  dataset: Dataset,
  way: ReadOperation,
  filters: readonly Filter[],
): Promise<number> {
  const all = [...dataset.content.values()]
  const expected = all.filter((row) => filters.every((one) => filterPasses(one, row)))
  const { rows } = await answerOf(store, dataset.target, planOf(SIMPLE, way, { filters }))
  const difference = differenceOf(SIMPLE, expected, rows)
  if (difference === null) return all.length - expected.length
  const shown = filters.map(({ column, operator, values }) => `${column} ${operator} ${values.map(String).join(', ')}`)
  throw new CheckFailure({
    what: `a filter gives other rows than it means: ${describeDifference(difference)}`,
    where: `read ${way} with ${shown.join(' and ')}`,
    why: 'filters compare by the column’s type, are joined by AND, and a null never matches',
    remedy: 'Compare with rowPasses of the SDK.',
  })
}

function filterPasses({ column, operator, values }: Filter, row: Row): boolean {
  const operands = values.map((literal) => ({ literal }))
  const [value = { literal: null }] = operands
  const predicate =
    operator === 'in' ? ({ op: 'in', column, values: operands } as const) : ({ op: operator, column, value } as const)
  return rowPasses(predicate, SIMPLE, row, {})
}

function expectOrdered(rows: readonly Row[], column: string, direction: 'asc' | 'desc'): void {
  const index = indexOf(SIMPLE, column)
  const type = SIMPLE.columns[index]?.type ?? 'string'
  const sign = direction === 'asc' ? 1 : -1
  for (const [position, row] of rows.entries()) {
    const before = rows[position - 1]
    if (!before || compareCells(type, before[index] ?? null, row[index] ?? null) * sign <= 0) continue
    throw new CheckFailure({
      what: `ordered by ${column} ${direction}, ${String(before[index])} stands before ${String(row[index])}`,
      where: 'read scan, orderBy',
      why: 'values order by their type, text by its UTF-8 bytes, and null stands above every value',
      remedy: 'Order with a binary collation, nulls last when ascending and first when descending.',
    })
  }
}

function compareCells(type: Parameters<typeof compareAs>[0], left: Value, right: Value): number {
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1
  return compareAs(type, left, right)
}

async function expectPages(
  { store }: CheckContext,
  dataset: Dataset,
  way: ReadOperation,
  orderBy: readonly { readonly column: string; readonly direction: 'asc' | 'desc' }[],
): Promise<void> {
  const plan = planOf(SIMPLE, way, { limit: 10, orderBy })
  const { rows, pages } = await pagesOf(() => store, dataset.target, plan, { most: 20 })
  const difference = differenceOf(SIMPLE, [...dataset.content.values()], rows)
  const by = orderBy.map(({ column, direction }) => `${column} ${direction}`).join() || 'time'
  expect(difference === null && pages === 5, () => ({
    what: `43 rows in pages of 10 came as ${pages} pages: ${difference ? describeDifference(difference) : 'all rows once'}`,
    where: `read ${way} ordered by ${by}, following next`,
    why: 'each row stands on exactly one page, nulls and equal values included',
    remedy: 'Continue strictly after the last row in the total order, with nulls where the order has them.',
  }))
  for (const { column, direction } of orderBy) expectOrdered(rows, column, direction)
}

/** Between two pages rows come, go and change: those that were there all the time come exactly once. */
async function expectPagesWhileWritten(context: CheckContext, way: 'scan' | 'range' | ReadOperation): Promise<void> {
  const dataset = await filled(context, 40)
  const lasting = new Set([...dataset.content.values()].filter(([id]) => Number(id) % 2 === 0).map(([id]) => id))
  const seen: Value[] = []
  let after: readonly Value[] | undefined
  let pages = 0
  do {
    const orderBy = way === 'scan' ? [{ column: 'id', direction: 'asc' as const }] : []
    const plan = planOf(SIMPLE, way, { limit: 10, orderBy, ...(after ? { after } : {}) })
    const answer = await answerOf(context.store, dataset.target, plan)
    seen.push(...answer.rows.map(([id]) => id ?? null))
    after = answer.next
    pages += 1
    const rows = [...dataset.content.values()]
    const gone = rows.filter(([id]) => !lasting.has(id ?? null)).slice(0, 3)
    await dataset.delta(rowsOf(SIMPLE, 200 + pages * 5, 5, context.random), gone)
  } while (after !== undefined && pages < 40)
  const times = (id: Value) => seen.filter((one) => one === id).length
  const wrong = [...lasting].filter((id) => times(id ?? null) !== 1)
  expect(wrong.length === 0 && pages > 3, () => ({
    what: `${wrong.length} rows that were there all the time came not once, over ${pages} pages`,
    where: `read ${way}, pages, with writes between them`,
    why: 'a page begins after the last row of the former, wherever that row stands by now',
    remedy: 'Continue from the position in `after`, and count no rows.',
  }))
}
