/** Every way to read × pages × filters × orders × columns × policies × encodings, held to what the SDK means by a plan. */
import {
  answerFromRows,
  type Filter,
  isJsonBatch,
  type LogicalType,
  type Ordering,
  projectRow,
  type ReadOperation,
  type ReadPlan,
  type ReadPolicy,
  type Row,
  rowsOf as rowsOfBatch,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { cellsText, indexOf, sameJson, sameValue } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { openPolicy, planOf } from '../reading.ts'
import { anyOperation } from '../requirements.ts'
import { changed, HISTORY_SCHEMA, rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

/** How many plans of each order and page size; at `core` of each order with two sizes. */
const ROUNDS = { core: 1, full: 2, hard: 8 } as const
const COUNT = 13
const TIMES = ['2026-02-01T00:00:00.000000Z', '2026-02-01T00:00:00.000001Z', '2026-02-02T00:00:00.000000Z'] as const
const COMMITS = ['2026-03-01T00:00:00.000001Z', '2026-03-01T00:00:00.000002Z', '2026-03-01T00:00:00.000003Z'] as const
const STATES: TableSchema = { ...HISTORY_SCHEMA, primaryKey: ['id', 'valid_from'] }

export const everyPageChecks: readonly Check[] = [
  {
    id: 178,
    name: 'pages-hold-in-every-way-of-asking',
    level: 'core',
    requires: [anyOperation('scan', 'range', 'get')],
    async run(context) {
      const sources = [...(await currentSources(context)), ...(await historySources(context))]
      expect(sources.length > 0, () => vacuous('no way to read gives several rows'))
      for (const source of sources) {
        const tried = await expectSource(context, source)
        expect(tried > 0, () => vacuous(`no plan of ${source.name} had two pages`))
      }
    },
  },
]

/** A way to read with the rows that it reads of. */
interface Source {
  readonly name: string
  readonly dataset: Dataset
  readonly way: ReadOperation
  readonly schema: TableSchema
  readonly rows: readonly Row[]
  readonly history?: ReadPlan['history']
}

const indexed = SIMPLE.columns.map(({ name }) => name)

/** Few values of each, so that rows are alike in them, and nulls. */
async function currentSources(context: CheckContext): Promise<readonly Source[]> {
  const { random, capabilities } = context
  const dataset = await context.dataset(SIMPLE, { indexed })
  const rows = rowsOf(SIMPLE, 1, COUNT, random).map((row, index) =>
    changed(SIMPLE, row, {
      [TIME_COLUMN]: random.pick(TIMES),
      name: ['a', 'b', null][index % 3] ?? null,
      rank: [1, 2, null, 1][index % 4] ?? null,
    }),
  )
  await dataset.full(random.shuffled(rows))
  const ways = capabilities.operations.filter((way) => way === 'scan' || way === 'range' || way === 'get')
  return ways
    .filter((way) => way !== 'get' || pointFilters(context).length > 0)
    .map((way) => ({ name: `read ${way}`, dataset, way, schema: SIMPLE, rows }))
}

/** Nine rows in three states each. */
async function historySources(context: CheckContext): Promise<readonly Source[]> {
  const { operations, histories = [] } = context.capabilities
  if (!histories.includes('type_2')) return []
  const dataset = await context.dataset(SIMPLE, { indexed, history: { mode: 'type_2', tracked: ['name'] } })
  const rows = rowsOf(SIMPLE, 1, 9, context.random)
  const states: Row[] = []
  for (const [index, committedAt] of COMMITS.entries()) {
    const upserts = rows.map((row, at) => changed(SIMPLE, row, { name: ['a', null, 'b'][(index + at) % 3] ?? null }))
    const mode = index === 0 ? 'full' : 'delta'
    await dataset.apply(await dataset.prepare({ mode, upserts, commit: { committedAt } }))
    const end = COMMITS[index + 1] ?? null
    states.push(...upserts.map((row): Row => [...row, committedAt, end, end === null]))
  }
  const ways = operations.filter((way) => way === 'scan' || (way === 'get' && pointFilters(context).length > 0))
  return ways.flatMap((way): Source[] => {
    const common = { dataset, way, schema: STATES }
    const instant = COMMITS[1]
    return [
      { ...common, name: `read ${way} of all states`, rows: states, history: { kind: 'all' } },
      {
        ...common,
        name: `read ${way} of the states at an instant`,
        rows: states.slice(rows.length, 2 * rows.length),
        history: { kind: 'at', instant },
      },
    ]
  })
}

/** By keys and by another column; each leaves several rows where it can. */
function pointFilters({ capabilities }: CheckContext): readonly (readonly Filter[])[] {
  const { filters } = capabilities
  const ids = Array.from({ length: COUNT }, (_, at) => BigInt(at + 1)).filter((id) => id !== 4n)
  return [
    ...(filters.includes('in') ? [[{ column: 'id', operator: 'in', values: ids } as const]] : []),
    ...(filters.includes('eq') ? [[{ column: 'name', operator: 'eq', values: ['a'] } as const]] : []),
  ]
}

function filtersOf(context: CheckContext, way: ReadOperation): readonly (readonly Filter[])[] {
  const points = pointFilters(context)
  if (way === 'get') return points
  const { filters } = context.capabilities
  const wide = [
    { column: 'id', operator: 'ge', values: [3n] },
    { column: 'id', operator: 'ne', values: [5n] },
    { column: 'rank', operator: 'le', values: [2] },
  ] as const
  return [[], [], ...points, ...wide.filter(({ operator }) => filters.includes(operator)).map((one) => [one])]
}

const asc = (column: string): Ordering => ({ column, direction: 'asc' })
const desc = (column: string): Ordering => ({ column, direction: 'desc' })

const ORDERS: readonly (readonly Ordering[])[] = [
  [],
  [desc('id')],
  [asc('name')],
  [asc('name'), desc('rank')],
  [desc('name')],
  [desc('rank'), asc('name')],
  [desc(TIME_COLUMN)],
  [asc(TIME_COLUMN), desc('rank')],
]

/** One row, two, and what is near to all of them. */
const SIZES = [() => 1, () => 2, (all: number) => all - 1, (all: number) => all, (all: number) => all + 1] as const

async function expectSource(context: CheckContext, source: Source): Promise<number> {
  const { random, level } = context
  let turned = 0
  for (const orderBy of ORDERS) {
    const sizes = level === 'core' ? [SIZES[0], random.pick(SIZES.slice(1))] : SIZES
    for (let round = 0; round < ROUNDS[level]; round += 1) {
      for (const size of sizes) turned += (await expectPages(context, source, { orderBy, size })) > 1 ? 1 : 0
    }
  }
  return turned
}

interface Asked {
  readonly orderBy: readonly Ordering[]
  readonly size: (all: number) => number
}

async function expectPages(context: CheckContext, source: Source, { orderBy, size }: Asked): Promise<number> {
  const { random, capabilities } = context
  const { schema, way, history, dataset } = source
  const bound = () => random.pick([null, null, ...TIMES])
  const base = planOf(schema, way, {
    orderBy,
    filters: random.pick(filtersOf(context, way)),
    columns: columnsFor(context, schema, orderBy),
    policy: random.chance(0.5) ? openPolicy(schema) : hiding(schema),
    encoding: capabilities.jsonBatches && random.chance(0.3) ? 'json' : 'columns',
    ...(history ? { history } : {}),
    ...(way === 'range' ? { range: { from: bound(), to: bound() } } : {}),
  })
  const wholes = meaningsOf(context, base, source)
  const count = wholes[0]?.length ?? 0
  const limit = Math.min(Math.max(1, size(count)), capabilities.limits.maxReadRows)
  const plan = { ...base, limit }
  const pages = Math.max(1, Math.ceil(count / limit))
  const given = await walked(context, dataset, plan, pages + 1)
  const isGiven = (whole: readonly Row[]) =>
    whole.length === given.rows.length && whole.every((row, at) => isSame(plan, schema, row, given.rows[at] ?? []))
  expect(given.pages === pages && wholes.some(isGiven), () => ({
    what: 'pages together are not the rows of the plan, each once and in its order',
    expected: `${count} rows on ${pages} pages: ${wholes.map((whole) => whole.map(cellsText).join(' ')).join(', or ')}`,
    came: `${given.rows.length} rows on ${given.pages} pages: ${given.rows.map((row) => row.map(String).join()).join(' ')}`,
    where: `${source.name}, ${toldPlan(plan)}`,
    why: 'whatever is asked for, a page that is full and not the last says where it goes on, and the next begins there',
    remedy:
      'Look one row beyond the limit in every way to read, and compare with totalOrder and answerFromRows of the SDK.',
  }))
  return pages
}

/** All columns, those that the order names, or others alone. */
function columnsFor(
  { random }: CheckContext,
  { columns }: TableSchema,
  orderBy: readonly Ordering[],
): readonly string[] {
  const names = columns.map(({ name }) => name)
  const ordered = orderBy.map(({ column }) => column)
  const others = names.filter((name) => !ordered.includes(name))
  return random.pick([names, others, others.slice(-1), ordered.length > 0 ? ordered : names])
}

function hiding(schema: TableSchema): ReadPolicy {
  return { ...openPolicy(schema), rows: { op: 'ge', column: 'id', value: { literal: 2n } } }
}

/** The key makes an order total; a store of ranges may have the time before it, as its rows lie. */
function meaningsOf(
  { capabilities }: CheckContext,
  plan: ReadPlan,
  { rows, schema }: Source,
): readonly (readonly Row[])[] {
  const { from = null, to = null } = plan.range ?? {}
  const time = indexOf(schema, TIME_COLUMN)
  const isIn = (row: Row) => (from === null || String(row[time]) >= from) && (to === null || String(row[time]) < to)
  const inOrder = (then: readonly string[]) =>
    answerFromRows({ ...plan, limit: rows.length + 1 }, schema, rows.filter(isIn), then).rows.map((row) =>
      projectRow(row, schema, plan.columns),
    )
  if (plan.operation === 'range' && plan.orderBy.length === 0) return [inOrder([TIME_COLUMN])]
  return capabilities.operations.includes('range') ? [inOrder([]), inOrder([TIME_COLUMN])] : [inOrder([])]
}

interface Walked {
  readonly rows: readonly (readonly unknown[])[]
  readonly pages: number
}

async function walked({ store }: CheckContext, { target }: Dataset, plan: ReadPlan, most: number): Promise<Walked> {
  const rows: (readonly unknown[])[] = []
  let pages = 0
  let after: readonly Value[] | undefined
  do {
    const asked: ReadPlan = after === undefined ? plan : { ...plan, after }
    after = undefined
    for await (const batch of store.read(target, asked)) {
      after = batch.next
      if (!isJsonBatch(batch)) rows.push(...rowsOfBatch(batch))
      else {
        const objects = JSON.parse(batch.json) as Readonly<Record<string, unknown>>[]
        rows.push(...objects.map((object) => plan.columns.map((name) => object[name])))
      }
    }
    pages += 1
  } while (after !== undefined && pages < most)
  return { rows, pages }
}

function isSame({ columns, encoding }: ReadPlan, schema: TableSchema, wanted: Row, given: readonly unknown[]): boolean {
  const type = (name: string): LogicalType => schema.columns[indexOf(schema, name)]?.type ?? 'string'
  return columns.every((name, at) =>
    encoding === 'json'
      ? sameJson(type(name), wanted[at] ?? null, given[at])
      : sameValue(type(name), wanted[at] ?? null, (given[at] ?? null) as Value),
  )
}

function toldPlan({ limit, orderBy, filters, columns, range, encoding }: ReadPlan): string {
  const order = orderBy.map(({ column, direction }) => `${column} ${direction}`).join(', ') || 'no order'
  const by = filters.map(({ column, operator, values }) => `${column} ${operator} ${values.map(String).join()}`)
  const bounds = range === undefined ? '' : `, from ${range.from ?? 'the beginning'} to ${range.to ?? 'the end'}`
  return `pages of ${limit}, ${order}, ${by.join() || 'no filter'}${bounds}, columns ${columns.join()}, ${encoding}`
}
