/** Plans as they come, made at random, held to what the SDK means by them. */
import {
  answerFromRows,
  type Filter,
  type FilterOperator,
  type Ordering,
  projectRow,
  type ReadOperation,
  type ReadPlan,
  type ReadPolicy,
  type Row,
  type TableSchema,
  toJsonValue,
  type Value,
} from '@sluice/sdk'
import { type Check, expect, expectRefusal, vacuous } from '../check.ts'
import { indexOf, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import type { Random } from '../random.ts'
import { answerOf, openPolicy, pagesOf, planOf } from '../reading.ts'
import { aggregateRows, aggregateSchema } from '../reference/aggregate.ts'
import { operation } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const TRIALS = { core: 12, full: 40, hard: 400 } as const

export const everyPlanChecks: readonly Check[] = [
  {
    id: 152,
    name: 'aggregates-answer-every-plan',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const kept = AGGREGATED.map((interval) => ({ interval, columns: MEASURED }))
      const dataset = await context.dataset(SIMPLE, { aggregates: kept })
      await dataset.full(sparseRows(context.random, 1, 40))
      await expectAggregates(context, dataset)
      const there = [...dataset.content.values()]
      await dataset.delta(sparseRows(context.random, 30, 20), there.slice(0, 8))
      await expectAggregates(context, dataset)
    },
  },
  {
    id: 153,
    name: 'masked-and-hidden-columns-decide-nothing-wherever-they-stand',
    level: 'core',
    async run(context) {
      const indexed = SIMPLE.columns.map(({ name }) => name)
      const dataset = await context.dataset(SIMPLE, { indexed })
      const rows = rowsOf(SIMPLE, 1, 8, context.random)
      await dataset.full(rows.map((row) => row.map((cell, at) => cell ?? STAND_INS[at] ?? null)))
      await dataset.expectRows('there must be rows that could be chosen')
      const ways = context.capabilities.operations.filter((way) => way !== 'key' && way !== 'aggregate')
      let tried = 0
      for (const way of ways) {
        for (let trial = 0; trial < TRIALS[context.level]; trial += 1) {
          tried += (await expectUndecided(context, dataset, way)) ? 1 : 0
        }
      }
      expect(tried > 0 || ways.length === 0, () => vacuous('no plan named several columns'))
    },
  },
]

const AGGREGATED = ['1 day', '1 week', '1 month'] as const
const MEASURED = ['rank', 'amount', 'name', 'active']
const DAY_MS = 86_400_000

/** On few days, of which some have no value in a column at all. */
function sparseRows(random: Random, from: number, count: number): readonly Row[] {
  const bare = random.pick(MEASURED)
  return rowsOf(SIMPLE, from, count, random).map((row) => {
    const day = random.integer(0, 20)
    const ms = Date.UTC(2024, 1, 20) + day * DAY_MS + random.integer(0, DAY_MS - 1)
    const at = new Date(ms).toISOString().replace('Z', `${String(random.integer(0, 999)).padStart(3, '0')}Z`)
    const none = MEASURED.filter((name, index) => day % (index + 2) === 0 || name === bare || random.chance(0.3))
    return changed(SIMPLE, row, { at, ...Object.fromEntries(none.map((name) => [name, null])) })
  })
}

async function expectAggregates(context: CheckContext, dataset: Dataset): Promise<void> {
  const { capabilities } = context
  let nothing = 0
  for (let trial = 0; trial < TRIALS[context.level]; trial += 1) {
    const interval = AGGREGATED[trial % AGGREGATED.length] ?? '1 day'
    const stored = storedFor(dataset)
    const schema = aggregateSchema(stored, interval)
    const plan = aggregatePlan(context, schema, interval)
    const lines = aggregateRows(stored, [...dataset.content.values()], plan)
    nothing += lines.filter((line) =>
      schema.columns.some(({ name }, at) => /_sum$/.test(name) && line[at] === null),
    ).length
    const wanted = answerFromRows({ ...plan, limit: 1000 }, schema, lines).rows
    const given = await pagesOf(() => context.store, dataset.target, plan, { most: lines.length + 2 })
    expectLines(plan, schema, wanted, given.rows)
    if (!capabilities.jsonBatches) continue
    const { objects } = await answerOf(context.store, dataset.target, { ...plan, encoding: 'json', limit: 1000 })
    const told = objects.map((object) => plan.columns.map((name) => object[name]))
    const texts = wanted.map((line) =>
      projectRow(line, schema, plan.columns).map((cell, at) =>
        toJsonValue(cell, typeOf(schema, plan.columns[at] ?? '')),
      ),
    )
    const isSame = told.length === texts.length && told.every((line, at) => areClose(line, texts[at] ?? []))
    expect(isSame, () =>
      wrongPlan(
        plan,
        `${texts.length} lines, first ${JSON.stringify(texts[0])}`,
        `${told.length} lines as JSON, first ${JSON.stringify(told[0])}`,
      ),
    )
  }
  expect(nothing > 0, () => vacuous('in no interval a column was without a value'))
}

/** Some columns, a range, an order that a reader may ask for, and pages of any size. */
function aggregatePlan({ random }: CheckContext, schema: TableSchema, interval: string): ReadPlan {
  const names = schema.columns.map(({ name }) => name)
  const columns = random.shuffled(names).slice(0, random.integer(1, names.length))
  const day = (offset: number) => `${new Date(Date.UTC(2024, 1, 18 + offset)).toISOString().slice(0, 19)}.000000Z`
  const [from, to] = [random.integer(0, 26), random.integer(0, 26)].toSorted((left, right) => left - right)
  const sorted = random.chance(0.5)
    ? ['bucket']
    : [random.pick(names.filter((name) => !name.endsWith('_avg'))), 'bucket']
  const orderBy = [...new Set(sorted)].map(
    (column): Ordering => ({ column, direction: random.chance(0.5) ? 'desc' : 'asc' }),
  )
  return planOf(schema, 'aggregate', {
    ...{ interval, columns, orderBy: random.chance(0.2) ? [] : orderBy, limit: random.integer(1, 9) },
    range: { from: random.chance(0.4) ? null : day(from ?? 0), to: random.chance(0.4) ? null : day(to ?? 26) },
    policy: { ...openPolicy(SIMPLE), visibleColumns: [...openPolicy(SIMPLE).visibleColumns, ...names] },
  })
}

function expectLines(plan: ReadPlan, schema: TableSchema, wanted: readonly Row[], given: readonly Row[]): void {
  const lines = wanted.map((line) => projectRow(line, schema, plan.columns))
  const isSame = lines.length === given.length && given.every((line, at) => areClose(line, lines[at] ?? []))
  const at = given.findIndex((line, index) => !areClose(line, lines[index] ?? []))
  const text = (all: readonly Row[]) =>
    `${all.length} lines, number ${Math.max(at, 0) + 1} ${all[Math.max(at, 0)]?.map(shown).join(', ') ?? 'none'}`
  expect(isSame, () => wrongPlan(plan, text(lines), text(given)))
}

function wrongPlan({ columns, orderBy, range, interval, limit }: ReadPlan, expected: string, came: string) {
  const order = orderBy.map(({ column, direction }) => `${column} ${direction}`).join(', ') || 'no order'
  return {
    what: 'the lines of an aggregate, or their order, are not those of the plan',
    expected,
    came,
    where: `read aggregate of ${interval}, ${columns.join(', ')}, by ${order}, from ${range?.from ?? 'the beginning'} to ${range?.to ?? 'the end'}, in pages of ${limit}`,
    why: 'an aggregate is read as every table is; what has no value is null, and its sum is not 0',
    remedy: 'Put columns, order and limit of the plan into the query, and leave sums of nothing null.',
  }
}

/** Averages may differ in the last digits, by the order in which they were added. */
function areClose(left: readonly unknown[], right: readonly unknown[]): boolean {
  return (
    left.length === right.length &&
    left.every((cell, at) => {
      const other = right[at]
      if (typeof cell !== 'number' || typeof other !== 'number') return Object.is(cell ?? null, other ?? null)
      return Math.abs(cell - other) <= 1e-9 * Math.max(1, Math.abs(other))
    })
  )
}

const typeOf = (schema: TableSchema, name: string) => schema.columns[indexOf(schema, name)]?.type ?? 'string'

function storedFor(dataset: Dataset): Parameters<typeof aggregateSchema>[0] {
  const aggregates = AGGREGATED.map((interval) => ({ interval, columns: MEASURED }))
  return {
    ...{ tenant: '', policy: null, fence: 0n, contents: [], servedEpoch: null },
    schema: dataset.target.schema,
    config: { time_column: 'at', continuous_aggregates: aggregates },
  }
}

/** In the place of nulls: no filter takes one. */
const STAND_INS: Row = [1n, '2026-03-01T00:00:00.000000Z', 'x', '1.00', 1, true]

const OPERATORS: readonly FilterOperator[] = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in']

/** A plan that is right, and the same with one column that may decide nothing, at a random place. False where it has no place. */
async function expectUndecided(
  context: CheckContext,
  { target, content }: Dataset,
  way: ReadOperation,
): Promise<boolean> {
  const { random, capabilities, store } = context
  const names = random.shuffled(SIMPLE.columns.map(({ name }) => name))
  const [bad = '', ...good] = names
  const operators = OPERATORS.filter(
    (name) => capabilities.filters.includes(name) && (way !== 'get' || name === 'eq' || name === 'in'),
  )
  const row = random.pick([...content.values()])
  const filterBy = (column: string): Filter => ({
    column,
    operator: random.pick(operators),
    values: [row[indexOf(SIMPLE, column)] as NonNullable<Value>],
  })
  const filters = operators.length === 0 ? [] : good.slice(0, random.integer(way === 'get' ? 1 : 0, 3)).map(filterBy)
  const orderBy =
    way === 'get'
      ? []
      : good.slice(3, 3 + random.integer(0, 2)).map((column): Ordering => ({ column, direction: 'asc' }))
  const places = [...(operators.length > 0 ? ['filters'] : []), ...(way === 'get' ? [] : ['orderBy'])]
  const place = places.length === 0 ? null : random.pick(places)
  if (place === null) return false
  const isHidden = random.chance(0.4)
  const open = openPolicy(SIMPLE)
  const policy: ReadPolicy = isHidden
    ? { ...open, visibleColumns: open.visibleColumns.filter((name) => name !== bad) }
    : { ...open, maskedColumns: [bad] }
  const columns = isHidden ? good : names
  const plan = planOf(SIMPLE, way, { columns, filters, orderBy, policy })
  await answerOf(store, target, plan)
  const wrong: ReadPlan =
    place === 'filters'
      ? { ...plan, filters: inserted(random, filters, filterBy(bad)) }
      : { ...plan, orderBy: inserted(random, orderBy, { column: bad, direction: random.chance(0.5) ? 'asc' : 'desc' }) }
  await expectRefusal(
    {
      kind: 'PERMISSION',
      codes: [isHidden ? 'column_not_visible' : 'column_masked'],
      tried: `a ${way} that names a ${isHidden ? 'hidden' : 'masked'} column in ${place}, among ${[...filters, ...orderBy].length} others`,
      where: `store.read, ${place} ${JSON.stringify(wrong[place as 'filters'].map(({ column }) => column))}`,
      why: 'rows chosen or ordered by a value that the reader may not see tell what it is, wherever in the plan it stands',
    },
    () => answerOf(store, target, wrong),
  )
  return filters.length + orderBy.length > 0
}

function inserted<T>(random: Random, items: readonly T[], item: T): readonly T[] {
  return items.toSpliced(random.integer(0, items.length), 0, item)
}
