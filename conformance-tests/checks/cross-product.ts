/**
 * Every way to read, with filters, policies, orders and pages, over values at the ends of their types: an answer is held to
 * what the places of values in hand-written lists say (`ranked-table.ts`).
 */
import type { Claims, Filter, Ordering, ReadOperation, ReadPlan, ReadPolicy, Row, Value } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, indexOf, keyText, sameJson, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { type Rank, type RankedFilter, type RankedRow, RankedTable } from '../ranked-table.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { anyOperation, filter, operation } from '../requirements.ts'
import { rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

const ROWS = 60

/** One row a page, pages that end with the last row, and others. */
const PAGES = [7, 20, 59, 60] as const

/** Far from UTC to both sides, and with half an hour. */
const ZONES = ['Pacific/Kiritimati', 'America/St_Johns']

interface World {
  readonly table: RankedTable
  readonly dataset: Dataset
  readonly rows: readonly RankedRow[]
}

export const crossProductChecks: readonly Check[] = [
  {
    id: 134,
    name: 'filters-hold-at-the-ends-of-types',
    level: 'core',
    requires: [filter('eq'), anyOperation('scan', 'range', 'get')],
    async run(context) {
      const world = await worldOf(context)
      const excluded = await expectFilters(context, world)
      await context.reopen()
      await expectFilters(context, world)
      expect(excluded > 0, () => vacuous('no filter excluded a row'))
    },
  },
  {
    id: 135,
    name: 'policies-hold-at-the-ends-of-types',
    level: 'core',
    async run(context) {
      const world = await worldOf(context)
      const hidden = await expectPolicies(context, world)
      await context.reopen()
      await expectPolicies(context, world)
      expect(hidden > 0, () => vacuous('no policy hid a row'))
    },
  },
  {
    id: 136,
    name: 'orders-and-pages-hold-at-the-ends-of-types',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      const world = await worldOf(context)
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
      const { table } = await worldOf(context)
      for (const column of table.ordered) {
        for (const direction of ['asc', 'desc'] as const) {
          await expectLastingRows(context, { column: nameOf(table, column), direction })
        }
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
    id: 139,
    name: 'reads-hold-in-every-time-zone',
    level: 'core',
    async run(context) {
      const before = process.env['TZ']
      try {
        for (const zone of ZONES) {
          process.env['TZ'] = zone
          await context.reopen()
          const world = await worldOf(context)
          await expectPolicies(context, world)
          if (world.dataset.ways().some(takesFilters)) await expectFilters(context, world)
        }
      } finally {
        if (before === undefined) delete process.env['TZ']
        else process.env['TZ'] = before
        await context.reopen()
      }
    },
  },
  {
    id: 140,
    name: 'reads-hold-after-a-column-was-added',
    level: 'core',
    async run(context) {
      await expectGrown(context)
    },
  },
  {
    id: 141,
    name: 'one-name-two-tenants-two-schemas',
    level: 'core',
    async run(context) {
      await expectTwoSchemas(context)
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

async function worldOf(context: CheckContext, tenant?: string): Promise<World> {
  const table = new RankedTable(context.capabilities, context.random)
  const rows = table.rows(1, ROWS)
  const dataset = await context.dataset(table.schema, {
    indexed: table.indexed,
    ...(tenant === undefined ? {} : { tenant }),
  })
  await dataset.full(context.random.shuffled(rows).map(({ row }) => row))
  await dataset.expectRows('the rows must be there before anything else can be said')
  return { table, dataset, rows }
}

const nameOf = (table: RankedTable, column: number): string => table.schema.columns[column]?.name ?? ''

const takesFilters = (way: ReadOperation): boolean => way !== 'key'

/** How many rows were left out. */
async function expectFilters(context: CheckContext, world: World): Promise<number> {
  const { table, dataset, rows } = world
  let excluded = 0
  for (const way of dataset.ways().filter(takesFilters)) {
    const operators = context.capabilities.filters.filter((name) => way !== 'get' || name === 'eq' || name === 'in')
    for (const column of table.ordered) {
      for (const operator of operators) {
        const filters = [table.filter(column, operator, rows)]
        if (context.random.chance(0.3)) {
          const other = context.random.pick(table.ordered)
          filters.push(table.filter(other, context.random.pick(operators), rows))
        }
        excluded += await expectFiltered(context, world, way, filters)
      }
    }
  }
  return excluded
}

async function expectFiltered(
  context: CheckContext,
  { dataset, rows }: World,
  way: ReadOperation,
  ranked: readonly RankedFilter[],
): Promise<number> {
  const filters = ranked.map((one) => one.filter)
  const expected = rows.filter((row) => ranked.every((one) => one.holds(row)))
  const plan = planOf(dataset.target.schema, way, { filters })
  await expectAnswer(context, dataset, plan, expected, `with ${filters.map(told).join(' and ')}`)
  return rows.length - expected.length
}

function told({ column, operator, values }: Filter): string {
  const first = values.slice(0, 5).map(shown)
  return `${column} ${operator} ${first.join(', ')}${values.length > 5 ? ` and ${values.length - 5} more` : ''}`
}

/** Two readers under policies of one version, who differ in their claims, by turns. Says how many rows were hidden. */
async function expectPolicies(context: CheckContext, world: World): Promise<number> {
  const { table, rows } = world
  const trials = context.level === 'core' ? 1 : 3
  let hidden = 0
  for (const column of table.ordered) {
    for (let trial = 0; trial < trials; trial += 1) {
      const { predicate, truth } = trial % 2 === 0 ? table.comparison(column, rows) : table.predicate(rows, 3)
      const readers = [table.claims(rows), table.claims(rows)]
      for (const { claims, ranks } of [...readers, ...readers.slice(0, 1)]) {
        const policy = { ...openPolicy(table.schema), rows: predicate, claims }
        const expected = rows.filter((row) => truth(row, ranks) === 1)
        hidden += rows.length - expected.length
        await expectSeen(context, world, policy, expected)
      }
    }
  }
  return hidden
}

async function expectSeen(
  context: CheckContext,
  { dataset, rows }: World,
  policy: ReadPolicy,
  expected: readonly RankedRow[],
): Promise<void> {
  const where = `under ${toldPolicy(policy)}`
  const { target, template } = dataset
  for (const way of dataset.ways()) {
    if (way === 'scan' || way === 'range') {
      await expectAnswer(context, dataset, planOf(target.schema, way, { policy }), expected, where)
      continue
    }
    // Point by point: some that are allowed, and some that are not.
    const sight = { target, template, candidates: [], policy }
    for (const one of context.random.shuffled(rows).slice(0, 4)) {
      const plan = pointPlan(way, one.row, sight)
      await expectAnswer(context, dataset, plan, expected.includes(one) ? [one] : [], where)
    }
  }
}

function toldPolicy({ rows, claims }: ReadPolicy): string {
  const text = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)
  return `${JSON.stringify(rows, text)} and claims ${JSON.stringify(claims as Claims, text)}`
}

/** The rows, whatever their order; where the store makes JSON, in both encodings. */
async function expectAnswer(
  { store, capabilities }: CheckContext,
  { target }: Dataset,
  plan: ReadPlan,
  expected: readonly RankedRow[],
  where: string,
): Promise<void> {
  const rows = expected.map(({ row }) => row)
  const given = await answerOf(store, target, plan)
  const difference = differenceOf(target.schema, rows.map(unsigned), given.rows.map(unsigned))
  if (difference !== null) throw wrongRows(`columns: ${describeDifference(difference)}`, plan, where)
  if (!capabilities.jsonBatches) return
  const { objects } = await answerOf(store, target, { ...plan, encoding: 'json' })
  const wrong = jsonDifference(target.schema, rows, objects)
  if (wrong !== null) throw wrongRows(`JSON: ${wrong}`, plan, where)
}

/** Zeros of a lake have no sign; whether a store keeps it is another check's to say. */
const unsigned = (row: Row): Row => row.map((cell) => (cell === 0 ? 0 : cell))

function jsonDifference(
  schema: RankedTable['schema'],
  rows: readonly Row[],
  objects: readonly Readonly<Record<string, unknown>>[],
): string | null {
  const [key = ''] = schema.primaryKey
  const found = new Map(objects.map((object) => [String(object[key]), object]))
  if (found.size !== rows.length || objects.length !== rows.length) {
    return `${objects.length} objects of ${found.size} keys in the place of ${rows.length}`
  }
  for (const row of rows) {
    const object = found.get(String(row[indexOf(schema, key)]))
    if (object === undefined) return `none for the key ${keyText(schema, row)}`
    const wrong = schema.columns.find(({ name, type }, at) => !sameJson(type, row[at] ?? null, object[name]))
    if (wrong) return `${wrong.name} of ${keyText(schema, row)} is ${JSON.stringify(object[wrong.name])}`
  }
  return null
}

function wrongRows(what: string, plan: ReadPlan, where: string): CheckFailure {
  return new CheckFailure({
    what: `a read gives other rows than it means, in ${what}`,
    where: `read ${plan.operation} ${where}`,
    why: 'values compare by their type and exactly: text by its UTF-8 bytes, numbers by size with NaN above all, and never by what a driver makes of them',
    remedy:
      'Compare in the engine by types that hold every value, with a binary collation, or with the SDK’s rowPasses.',
  })
}

async function expectOrder(
  context: CheckContext,
  world: World,
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

/** All pages of a plan; the store is opened anew before some. */
async function walk(
  context: CheckContext,
  { target }: Dataset,
  plan: ReadPlan,
): Promise<{ readonly rows: readonly Row[]; readonly pages: number; readonly ends: readonly (readonly Value[])[] }> {
  const rows: Row[] = []
  const ends: (readonly Value[])[] = []
  for (let pages = 1; ; pages += 1) {
    const after = ends.at(-1)
    const answer = await answerOf(context.store, target, { ...plan, ...(after ? { after } : {}) })
    rows.push(...answer.rows)
    if (answer.next === undefined || pages > ROWS + 1) return { rows, pages, ends }
    ends.push(answer.next)
    if (context.random.chance(0.02)) await context.reopen()
  }
}

/** Every row in one answer: values that are near each other meet. */
async function expectWholeOrder(
  context: CheckContext,
  { table, rows, dataset }: World,
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
  const { table, dataset, rows } = await worldOf(context)
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

async function expectGrown(context: CheckContext): Promise<void> {
  const old = await context.filled(24, { indexed: ['id', 'name', 'rank'] })
  const schema = { ...SIMPLE, columns: [...SIMPLE.columns, { name: 'more', type: 'string', nullable: true } as const] }
  const next = context.grown(old, schema, { indexed: ['id', 'name', 'rank', 'more'] })
  await context.store.provision(next.target, 'apply')
  const rows = [...next.content.values()]
  const more = indexOf(schema, 'more')
  await next.delta(rows.slice(0, 12).map((row, index) => row.with(more, index % 2 === 0 ? 'even' : 'odd')))
  for (const round of [1, 2]) {
    for (const way of next.ways())
      await next.expectRows('old rows have null in a new column, new ones their value', undefined, { way })
    await expectByNewColumn(context, next, more)
    if (round === 1) await context.reopen()
  }
}

async function expectByNewColumn({ store, capabilities }: CheckContext, dataset: Dataset, more: number): Promise<void> {
  const { schema } = dataset.target
  const rows = [...dataset.content.values()]
  const even = rows.filter((row) => row[more] === 'even')
  const policy: ReadPolicy = {
    ...openPolicy(schema),
    rows: { op: 'eq', column: 'more', value: { literal: 'even' } },
  }
  const filters = [{ column: 'more', operator: 'eq' as const, values: ['even'] }]
  expect(even.length === 6, () => vacuous('the new column has no values'))
  for (const way of dataset.ways()) {
    expectSame(schema, even, await dataset.see({ way, policy }), `read ${way} under a policy on the new column`)
    if (!takesFilters(way) || !capabilities.filters.includes('eq')) continue
    const answer = await answerOf(store, dataset.target, planOf(schema, way, { filters }))
    expectSame(schema, even, answer.rows, `read ${way} filtered by the new column`)
  }
}

function expectSame(
  schema: RankedTable['schema'],
  expected: readonly Row[],
  given: readonly Row[],
  where: string,
): void {
  const difference = differenceOf(schema, expected, given)
  expect(difference === null, () => ({
    what: `other rows than there are: ${difference && describeDifference(difference)}`,
    where,
    why: 'what the schema has grown by is read like every other column',
    remedy: 'Take the columns of the target that is given, and keep nothing prepared for the former schema.',
  }))
}

/** One product name in two tenants, with columns of the same names and other types, and other keys. */
async function expectTwoSchemas(context: CheckContext): Promise<void> {
  const other: RankedTable['schema'] = {
    columns: [
      { name: 'name', type: 'string', nullable: false },
      { name: TIME_COLUMN, type: 'timestamptz', nullable: false },
      { name: 'id', type: 'string', nullable: true },
      { name: 'rank', type: 'double', nullable: true },
    ],
    primaryKey: ['name'],
  }
  const mine = await context.filled(8, { tenant: 'a', product: 'same' })
  const theirs = await context.dataset(other, { tenant: 'b', product: 'same' })
  await theirs.full(rowsOf(other, 1, 5, context.random))
  await mine.expectRows('another tenant’s product of that name changes nothing')
  await theirs.expectRows('a tenant’s product is its own, whatever others have under its name')
  await expectNothingToDo(context, mine)
  await mine.delta(rowsOf(SIMPLE, 5, 6, context.random))
  await expectNothingToDo(context, theirs)
  await context.reopen()
  await mine.expectRows('and so after the store was opened anew')
  await theirs.expectRows('and so after the store was opened anew')
  await context.store.drop(theirs.target, 'apply')
  await mine.expectRows('dropping the one leaves the other')
  await expectNothingToDo(context, mine)
}

async function expectNothingToDo({ store }: CheckContext, { target }: Dataset): Promise<void> {
  const { steps } = await store.provision(target, 'plan')
  expect(steps.length === 0, () => ({
    what: `the plan of a tenant’s place holds ${steps.map(({ description }) => description).join('; ')}`,
    where: 'store.provision, mode plan, after another tenant’s product of that name was made or written',
    why: 'a plan that changes with what others do tells of them, and is never done',
    remedy: 'Keep each tenant’s place by itself, or compare with what this tenant’s schema needs.',
  }))
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
