/** Products whose schema grows, and products of one name whose schemas are others. */
import type { ReadPolicy, Row } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, indexOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import type { RankedTable } from '../ranked-table.ts'
import { takesFilters } from '../ranked-world.ts'
import { answerOf, openPolicy, planOf } from '../reading.ts'
import { rowsOf, SIMPLE, TIME_COLUMN, WIDER } from '../shapes.ts'

export const schemaChecks: readonly Check[] = [
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
]

async function expectGrown(context: CheckContext): Promise<void> {
  const old = await context.filled(24, { indexed: ['id', 'name', 'rank'] })
  const next = context.grown(old, WIDER, { indexed: ['id', 'name', 'rank', 'more'] })
  await context.store.provision(next.target, 'apply')
  const rows = [...next.content.values()]
  const more = indexOf(WIDER, 'more')
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
