/** Places for datasets: made once, grown with their schema, whatever they are called and whoever else makes them. */
import { isSluiceError, type TableSchema } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import { type CheckContext, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { hook } from '../requirements.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'

const ADDED: TableSchema = { ...SIMPLE, columns: [...SIMPLE.columns, { name: 'more', type: 'string', nullable: true }] }

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
    name: 'concurrent-apply-no-corruption',
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
    id: 24,
    name: 'long-and-unicode-identifiers',
    level: 'core',
    async run(context) {
      const long = 'a_name_that_is_longer_than_any_engine_lets_a_name_be_'.repeat(3)
      await expectDistinct(context, [`${long}one`, `${long}two`, 'naïve', 'naive', '表', '😀', 'e\u0301', 'é'])
    },
  },
  {
    id: 25,
    name: 'reserved-words-and-quotes-as-names',
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
    name: 'validate-says-why-and-agrees-with-apply',
    level: 'core',
    requires: [hook('validate')],
    async run(context) {
      const dataset = await filled(context)
      for (const schema of [SIMPLE, ADDED, ...UNFIT]) {
        const { target } = context.grown(dataset, schema)
        const verdicts = (await context.store.validate?.(target, SIMPLE)) ?? []
        const isJudged =
          verdicts.length === schema.columns.length && verdicts.every(({ reason }) => reason.trim() !== '')
        expect(isJudged, () =>
          wrongVerdict(`${verdicts.length} verdicts for ${schema.columns.length} columns, or one without a reason`),
        )
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
      const dataset = await filled(context)
      const wider = context.grown(dataset, ADDED)
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
    name: 'unfit-schema-is-conflict',
    level: 'core',
    async run(context) {
      const dataset = await filled(context)
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
      await dataset.delta(rowsOf(SIMPLE, 20, 2, context.random))
      await dataset.expectRows('and the dataset can be written to')
    },
  },
  {
    id: 31,
    name: 'drop-unknown-succeeds',
    level: 'core',
    async run(context) {
      const dataset = await filled(context)
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

async function filled(context: CheckContext): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE)
  await dataset.full(rowsOf(SIMPLE, 1, 6, context.random))
  await dataset.expectRows('the rows must be there first')
  return dataset
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

/** Products and domains of these names are all there at once, each with rows of its own. */
async function expectDistinct(context: CheckContext, names: readonly string[]): Promise<void> {
  const datasets: Dataset[] = []
  for (const [index, name] of names.entries()) {
    for (const wish of [{ product: name }, { product: 'p', domain: name }]) {
      const dataset = await context.dataset(SIMPLE, wish)
      await dataset.full(rowsOf(SIMPLE, index * 3 + 1, 2, context.random))
      datasets.push(dataset)
    }
  }
  const everything = datasets.flatMap(({ candidates }) => candidates)
  for (const dataset of datasets) {
    dataset.candidates.push(...everything)
    const { domain, product } = dataset.target
    await dataset.expectRows(`${domain}.${product} is a dataset of its own among ${names.join(', ')}`)
  }
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
