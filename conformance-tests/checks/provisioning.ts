/** Places for datasets: made once, grown with their schema, whatever they are called and whoever else makes them. */
import { isSluiceError, type TableSchema } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import { type CheckContext, type DatasetWish, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { expectNameRefused, heldNames, refusedNames } from '../names.ts'
import { hook } from '../requirements.ts'
import { rowsOf, SIMPLE, WIDER } from '../shapes.ts'

/** Schemas that the rows of SIMPLE do not fit. */
const UNFIT: readonly TableSchema[] = [
  {
    ...SIMPLE,
    columns: SIMPLE.columns.map((column) => (column.name === 'name' ? { ...column, type: 'boolean' } : column)),
  },
  {
    ...SIMPLE,
    columns: SIMPLE.columns.map((column) => (column.name === 'amount' ? { ...column, type: 'date' } : column)),
  },
  { ...SIMPLE, primaryKey: ['id', 'at'] },
]

export const provisioningChecks: readonly Check[] = [
  {
    id: 21,
    name: 'apply-crash-midway-then-apply-completes',
    level: 'core',
    async run(context) {
      const trial = context.unprovisioned(SIMPLE)
      await context.store.provision(trial.target, 'apply')
      const points = context.host.met.length
      for (let point = 0; point < points; point += 1) {
        const dataset = context.unprovisioned(SIMPLE)
        context.host.crashAt(point)
        await context.store.provision(dataset.target, 'apply').catch(ignoreSluiceError)
        await context.reopen()
        await expectUsable(context, dataset)
      }
      await expectUsable(context, trial)
    },
  },
  {
    id: 22,
    name: 'concurrent-apply-one-winner-no-corruption',
    level: 'core',
    async run(context) {
      const wish = { product: 'contended' }
      const datasets = ['a', 'b', 'c'].map((tenant) => context.unprovisioned(SIMPLE, { ...wish, tenant }))
      const applies = datasets.flatMap((dataset) => [dataset, dataset, dataset])
      const outcomes = await Promise.allSettled(applies.map(({ target }) => context.store.provision(target, 'apply')))
      for (const outcome of outcomes) if (outcome.status === 'rejected') ignoreSluiceError(outcome.reason)
      for (const dataset of datasets) await expectUsable(context, dataset)
    },
  },
  {
    id: 23,
    name: 'same-name-other-schema-is-CONFLICT',
    level: 'core',
    async run(context) {
      const [other = SIMPLE] = UNFIT
      const mine = await context.dataset(SIMPLE, { product: 'twice', tenant: 'a' })
      await mine.full(rowsOf(SIMPLE, 1, 4, context.random))
      const theirs = await context.dataset(other, { product: 'twice', tenant: 'b' })
      await theirs.full(rowsOf(other, 1, 6, context.random))
      await mine.expectRows('another tenant’s product of the same name has columns of its own')
      await theirs.expectRows('and each sees its own rows')
      const { target } = context.grown(mine, other)
      await expectRefusal(
        {
          kind: 'CONFLICT',
          codes: ['schema_conflict'],
          tried: 'a second product of the same name with other columns',
          where: 'store.provision, mode apply',
          why: 'within a tenant a name is one product',
        },
        () => context.store.provision(target, 'apply'),
      )
      await mine.expectRows('the product that was there keeps its rows')
    },
  },
  {
    id: 24,
    name: 'max-length-and-unicode-identifiers',
    level: 'core',
    async run(context) {
      const long = 'a_name_that_is_longer_than_any_engine_lets_a_name_be_'.repeat(3)
      await expectDistinct(context, [`${long}one`, `${long}two`, 'naïve', 'naive', '表', '😀', 'e\u0301', 'é'])
    },
  },
  {
    id: 25,
    name: 'reserved-words-and-quote-characters-as-names',
    level: 'core',
    async run(context) {
      await expectDistinct(context, [
        'select',
        'order',
        'table',
        'user',
        'a"b',
        "a'b",
        'a`b',
        'a b',
        'a;b',
        'a--b',
        'a%b',
        '{a}',
      ])
      const names = ['select', 'order', 'a"b', "a'b", 'c d', 'user', '$1', '%s', '表']
      const columns = names.map((name) => ({ name, type: 'string' as const, nullable: true }))
      const schema: TableSchema = { ...SIMPLE, columns: [...SIMPLE.columns.slice(0, 2), ...columns] }
      const dataset = await context.dataset(schema)
      await dataset.full(rowsOf(schema, 1, 5, context.random))
      for (const way of dataset.ways()) {
        await dataset.expectRows('columns may be called what words and signs mean elsewhere', undefined, { way })
      }
    },
  },
  {
    id: 26,
    name: 'case-folding-no-collision',
    level: 'core',
    async run(context) {
      await expectDistinct(context, ['orders', 'Orders', 'ORDERS', 'orders_', 'orders__masked'])
    },
  },
  {
    id: 27,
    name: 'validate-verdict-reason-non-empty',
    level: 'core',
    requires: [hook('validate')],
    async run(context) {
      const dataset = await context.filled(6)
      for (const schema of [SIMPLE, WIDER, ...UNFIT]) {
        const { target } = context.grown(dataset, schema)
        const verdicts = (await context.store.validate?.(target, SIMPLE)) ?? []
        const isJudged =
          verdicts.length === schema.columns.length && verdicts.every(({ reason }) => reason.trim() !== '')
        expect(isJudged, () =>
          wrongVerdict(`${verdicts.length} verdicts for ${schema.columns.length} columns, or one without a reason`),
        )
      }
      await dataset.expectRows('judging a schema changes nothing')
    },
  },
  {
    id: 28,
    name: 'validate-agrees-with-apply',
    level: 'core',
    requires: [hook('validate')],
    async run(context) {
      const dataset = await context.filled(6)
      for (const schema of [SIMPLE, WIDER, ...UNFIT]) {
        const { target } = context.grown(dataset, schema)
        const verdicts = (await context.store.validate?.(target, SIMPLE)) ?? []
        const isRefused = await context.store.provision(target, 'plan').then(
          () => false,
          (error: unknown) => isConflict(error),
        )
        const isUnsatisfiable = verdicts.some(({ verdict }) => verdict === 'unsatisfiable')
        expect(isRefused === isUnsatisfiable, () =>
          wrongVerdict(
            `a schema that validate finds ${isUnsatisfiable ? 'un' : ''}satisfiable is ${isRefused ? 'refused' : 'accepted'}`,
          ),
        )
      }
      await dataset.expectRows('judging a schema changes nothing')
    },
  },
  {
    id: 29,
    name: 'add-nullable-column-keeps-rows',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(6)
      const wider = context.grown(dataset, WIDER)
      const plan = await context.store.provision(wider.target, 'plan')
      expect(plan.steps.length > 0, () => ({
        what: 'the plan for a new column is empty',
        where: 'store.provision, mode plan',
        why: 'the deployer is shown what will be done',
        remedy: 'Return a step for the column.',
      }))
      await expectUsable(context, wider, 'a new column is null in the rows that are there')
    },
  },
  {
    id: 30,
    name: 'narrow-is-UNSATISFIABLE',
    aliases: ['widen-type'],
    level: 'core',
    async run(context) {
      const dataset = await context.filled(6)
      for (const schema of UNFIT) {
        const { target } = context.grown(dataset, schema)
        for (const mode of ['plan', 'apply'] as const) {
          await expectRefusal(
            {
              kind: 'CONFLICT',
              codes: ['schema_conflict'],
              tried: 'provision with a schema that the rows do not fit',
              where: `store.provision, mode ${mode}`,
              why: 'rows are neither lost nor bent without a word',
            },
            () => context.store.provision(target, mode),
          )
        }
      }
      await dataset.expectRows('a refused schema leaves the rows as they were')
      await expectWidenedOrRefused(context, dataset)
      await dataset.delta(rowsOf(SIMPLE, 20, 2, context.random))
      await dataset.expectRows('and the dataset can be written to')
    },
  },
  {
    id: 34,
    name: 'sweep-only-prefix',
    level: 'core',
    async run(context) {
      const names = [
        'orders',
        'order',
        'orders_',
        'orders2',
        'orders__masked',
        'orders:x',
        'orders%',
        'Orders',
        'orders.x',
      ]
      const datasets: Dataset[] = []
      for (const [index, product] of heldNames(context, names).entries()) {
        const dataset = await context.dataset(SIMPLE, { product })
        await dataset.full(rowsOf(SIMPLE, index * 3 + 1, 3, context.random))
        datasets.push(dataset)
      }
      for (const product of refusedNames(context, names)) {
        await expectNameRefused(context, context.unprovisioned(SIMPLE, { product }))
      }
      const [gone, ...others] = datasets
      if (gone) await context.store.drop(gone.target, 'apply')
      for (const dataset of others) {
        await dataset.expectRows(`dropping orders leaves ${dataset.target.product}`)
      }
      const plan = gone ? await context.store.provision(gone.target, 'plan') : null
      expect((plan?.steps.length ?? 0) > 0, () => ({
        what: 'after a drop nothing would have to be made',
        where: 'store.drop, then store.provision in mode plan',
        why: 'a drop that removes nothing sweeps nothing',
        remedy: 'Remove everything below the dataset’s own name or prefix.',
      }))
    },
  },
  {
    id: 31,
    name: 'drop-unknown-succeeds',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(6)
      const unknown = context.unprovisioned(SIMPLE)
      for (let time = 0; time < 3; time += 1) {
        const plan = await context.store.drop(unknown.target, 'apply')
        expect(plan.steps.length === 0, () => ({
          what: `dropping what is not there planned: ${plan.steps.map(({ description }) => description).join('; ')}`,
          where: 'store.drop',
          why: 'of what is not there the plan is empty',
          remedy: 'Return steps only for what is removed.',
        }))
      }
      await context.store.dropTenant(context.tenant('nobody'))
      await dataset.expectRows('dropping the unknown touches nothing')
    },
  },
]

/** An integer may become a long, with its rows; where a store cannot do that it says so and keeps them as they are. */
async function expectWidenedOrRefused(context: CheckContext, dataset: Dataset): Promise<void> {
  const columns = SIMPLE.columns.map((column) =>
    column.name === 'rank' ? { ...column, type: 'long' as const } : column,
  )
  const wider = context.grown(dataset, { ...SIMPLE, columns })
  const isRefused = await context.store.provision(wider.target, 'apply').then(
    () => false,
    (error: unknown) => isConflict(error),
  )
  if (isRefused) return await dataset.expectRows('a wider type that is refused leaves the rows as they were')
  wider.content = new Map(
    [...wider.content].map(([key, row]) => [
      key,
      row.map((cell, index) => (index === 4 && cell !== null ? BigInt(Number(cell)) : cell)),
    ]),
  )
  await wider.expectRows('a wider type keeps the rows')
  await context.store.drop(wider.target, 'apply')
  await context.store.provision(dataset.target, 'apply')
  await context.store.rls.install(dataset.target, FORCED_POLICY)
  await dataset.full([...dataset.content.values()])
}

/** Provisioned anew, planned to nothing, written to and read. */
async function expectUsable(
  context: CheckContext,
  dataset: Dataset,
  why = 'the place is whole and can be used',
): Promise<void> {
  const { target } = dataset
  await context.store.provision(target, 'apply')
  const plan = await context.store.provision(target, 'plan')
  expect(plan.steps.length === 0, () => ({
    what: `after apply the plan still holds: ${plan.steps.map(({ description }) => description).join('; ')}`,
    where: 'store.provision',
    why,
    remedy: 'Let apply do whatever is missing, however much of it is there.',
  }))
  await context.store.rls.install(target, FORCED_POLICY)
  if (dataset.epoch > 0) await dataset.expectRows(why)
  const mode = dataset.epoch > 0 ? 'delta' : 'full'
  await dataset.apply(await dataset.prepare({ mode, upserts: rowsOf(target.schema, 30, 4, context.random) }))
  await dataset.expectRows(why)
}

/** Products and domains of these names are all there at once, each with rows of its own; or they are refused. */
async function expectDistinct(context: CheckContext, names: readonly string[]): Promise<void> {
  const datasets: Dataset[] = []
  for (const [index, name] of heldNames(context, names).entries()) {
    for (const wish of placesOf(name)) {
      const dataset = await context.dataset(SIMPLE, wish)
      await dataset.full(rowsOf(SIMPLE, index * 3 + 1, 2, context.random))
      datasets.push(dataset)
    }
  }
  for (const name of refusedNames(context, names)) {
    for (const wish of placesOf(name)) await expectNameRefused(context, context.unprovisioned(SIMPLE, wish))
  }
  const everything = datasets.flatMap(({ candidates }) => candidates)
  for (const dataset of datasets) {
    dataset.candidates.push(...everything)
    const { domain, product } = dataset.target
    await dataset.expectRows(`${domain}.${product} is a dataset of its own among ${names.join(', ')}`)
  }
}

function placesOf(name: string): readonly DatasetWish[] {
  return [{ product: name }, { product: 'p', domain: name }]
}

function isConflict(error: unknown): boolean {
  if (isSluiceError(error, 'CONFLICT')) return true
  throw error
}

function ignoreSluiceError(error: unknown): void {
  if (isSluiceError(error)) return
  throw new CheckFailure(
    {
      what: `provision threw something other than a SluiceError: ${String(error)}`,
      where: 'store.provision',
      why: 'the runtime decides by kind alone what to do next',
      remedy: 'Wrap what the driver throws, with the original as cause.',
    },
    error,
  )
}

function wrongVerdict(what: string) {
  return {
    what,
    where: 'store.validate',
    why: 'a deploy is refused or allowed by it, with its reasons shown',
    remedy: 'Judge each column as provision would, and say why.',
  }
}
