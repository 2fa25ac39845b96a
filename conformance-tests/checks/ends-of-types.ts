/**
 * Every way to read, with filters and policies, over values at the ends of their types: an answer is held to what the
 * places of values in hand-written lists say (`ranked-table.ts`).
 */
import type { Claims, Filter, ReadOperation, ReadPlan, ReadPolicy, Row } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, indexOf, keyText, sameJson, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { inZones } from '../machine-zone.ts'
import type { RankedFilter, RankedRow, RankedTable } from '../ranked-table.ts'
import { type RankedWorld, rankedWorld, takesFilters, typeOf, unsigned } from '../ranked-world.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { anyOperation, filter } from '../requirements.ts'

/** Far from UTC to both sides, and with half an hour. */
const ZONES = ['Pacific/Kiritimati', 'America/St_Johns']

const TIMED = /^(date|timestamp)/

export const endsOfTypesChecks: readonly Check[] = [
  {
    id: 134,
    name: 'filters-hold-at-the-ends-of-types',
    level: 'core',
    requires: [filter('eq'), anyOperation('scan', 'range', 'get')],
    async run(context) {
      const world = await rankedWorld(context)
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
      const world = await rankedWorld(context)
      const hidden = await expectPolicies(context, world)
      await context.reopen()
      await expectPolicies(context, world)
      expect(hidden > 0, () => vacuous('no policy hid a row'))
    },
  },
  {
    id: 139,
    name: 'reads-hold-in-every-time-zone',
    level: 'core',
    async run(context) {
      try {
        await inZones(context.level === 'core' ? [context.random.pick(ZONES)] : ZONES, async () => {
          await context.reopen()
          const world = await rankedWorld(context)
          const timed = world.table.ordered.filter((column) => TIMED.test(typeOf(world.table, column)))
          await expectPolicies(context, world, timed)
          if (world.dataset.ways().some(takesFilters)) await expectFilters(context, world, timed)
        })
      } finally {
        await context.reopen()
      }
    },
  },
]

/** By the columns given. Says how many rows were left out. */
async function expectFilters(
  context: CheckContext,
  world: RankedWorld,
  columns: readonly number[] = world.table.ordered,
): Promise<number> {
  const { table, dataset, rows } = world
  const isQuick = context.level !== 'hard'
  let excluded = 0
  for (const way of dataset.ways().filter(takesFilters)) {
    const operators = context.capabilities.filters.filter((name) => way !== 'get' || name === 'eq' || name === 'in')
    for (const column of columns) {
      // Below level hard some of them, and others after the store was opened anew.
      for (const operator of isQuick ? context.random.shuffled(operators).slice(0, 4) : operators) {
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
  { dataset, rows }: RankedWorld,
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
async function expectPolicies(
  context: CheckContext,
  world: RankedWorld,
  columns: readonly number[] = world.table.ordered,
): Promise<number> {
  const { table, rows } = world
  const trials = context.level === 'core' ? 1 : 2
  let hidden = 0
  for (const column of columns) {
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
  { dataset, rows }: RankedWorld,
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
