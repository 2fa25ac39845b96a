/** Every way to read that a store declares, on one dataset that is set up for all of them. */
import type { OperationPlan, ReadBatch, ReadOperation, ReadPlan, Row, ServingStore, Target } from '@sluice/sdk'
import { CheckFailure, vacuous } from './check.ts'
import { INPUTS_REMEDY, type Trial, trialsOf, whole } from './checks/declared.ts'
import { indexOf } from './compare.ts'
import type { CheckContext, DatasetWish } from './context.ts'
import type { Dataset } from './dataset.ts'
import { openPolicy, planOf, pointPlan } from './reading.ts'
import { changed, HISTORY_SCHEMA, rowsOf, SIMPLE, TIME_COLUMN } from './shapes.ts'

/** What one call asks for beside what its way is about. */
export type Asking = Partial<Pick<ReadPlan, 'limit' | 'after' | 'timeoutMs' | 'signal' | 'encoding'>>

export interface Way {
  /** As a subject: `read scan of all states`. */
  readonly name: string
  /** False where it gives one row at most. */
  readonly isPaged: boolean
  /** Those that it can be asked for. */
  readonly encodings: readonly ReadPlan['encoding'][]
  read(store: ServingStore, target: Target, asking?: Asking): AsyncIterable<ReadBatch>
}

const INTERVAL = '1 day'

/** An endpoint that keeps whatever the store can keep. */
export function wishOfWays({ capabilities }: CheckContext): DatasetWish {
  const history = { mode: 'type_2', tracked: ['name'] } as const
  return {
    indexed: ['id', 'name'],
    aggregates: [{ interval: INTERVAL, columns: ['rank'] }],
    ...(capabilities.histories?.includes('type_2') ? { history } : {}),
  }
}

/** Rows of several days, so that aggregates have several lines, too. */
export function rowsOfDays({ random }: CheckContext, count: number): readonly Row[] {
  return rowsOf(SIMPLE, 1, count, random).map((row, index) =>
    changed(SIMPLE, row, { [TIME_COLUMN]: `2026-02-${String((index % 28) + 1).padStart(2, '0')}T10:00:00.000000Z` }),
  )
}

export interface Readable {
  readonly dataset: Dataset
  readonly ways: readonly Way[]
}

/** A dataset of so many rows, with every way to read it. */
export async function readable(context: CheckContext, count: number): Promise<Readable> {
  const dataset = await context.dataset(SIMPLE, wishOfWays(context))
  const rows = rowsOfDays(context, count)
  await dataset.full(rows)
  return { dataset, ways: await waysOf(context, dataset, rows) }
}

/** The dataset holds the rows, which are `rowsOfDays`. */
export async function waysOf(context: CheckContext, dataset: Dataset, rows: readonly Row[]): Promise<readonly Way[]> {
  const { jsonBatches } = context.capabilities
  const plans = plansOf(context, dataset, rows)
  const operations = await findingTrials(context, dataset)
  return [
    ...plans.map(
      ([name, plan]): Way => ({
        name: `read ${name}`,
        isPaged: plan.operation !== 'key',
        encodings: jsonBatches ? ['columns', 'json'] : ['columns'],
        read: (store, target, asking) => store.read(target, { ...plan, ...asking }),
      }),
    ),
    ...operations.map(
      ({ name, input, columns }): Way => ({
        name: `operate ${name}`,
        isPaged: true,
        encodings: ['columns'],
        read(store, target, { encoding: _, ...asking } = {}) {
          const { policy, timeoutMs, signal } = planOf(SIMPLE, 'scan')
          const plan: OperationPlan = { operation: name, input, columns, limit: 100, policy, timeoutMs, signal }
          return (store.operate as NonNullable<typeof store.operate>)(target, { ...plan, ...asking })
        },
      }),
    ),
  ]
}

/** Of each declared operation one input that finds several rows. */
async function findingTrials(context: CheckContext, dataset: Dataset): Promise<readonly Trial[]> {
  const found = new Map<string, Trial>()
  const trials = trialsOf(context, dataset)
  for (const trial of trials) {
    if (!found.has(trial.name) && (await whole(context.store, dataset, trial)).length > 1) found.set(trial.name, trial)
  }
  const missing = trials.find(({ name }) => !found.has(name))
  if (missing) throw new CheckFailure(vacuous(`no input of ${missing.name} finds two rows`, INPUTS_REMEDY))
  return [...found.values()]
}

type NamedPlan = readonly [name: string, plan: ReadPlan]

function plansOf(context: CheckContext, { target, template }: Dataset, rows: readonly Row[]): readonly NamedPlan[] {
  const { operations, filters: operators, histories = [] } = context.capabilities
  const ids = rows.slice(0, 9).map((row) => row[indexOf(SIMPLE, 'id')] as bigint)
  const isMany = operators.includes('in')
  const filters = [{ column: 'id', operator: isMany ? 'in' : 'eq', values: isMany ? ids : ids.slice(0, 1) }] as const
  const sight = { target, template, candidates: [] }
  const byWay: Readonly<Record<ReadOperation, () => ReadPlan>> = {
    scan: () => planOf(SIMPLE, 'scan'),
    range: () => planOf(SIMPLE, 'range'),
    get: () => planOf(SIMPLE, 'get', { filters }),
    key: () => pointPlan('key', rows[0] ?? [], sight),
    aggregate: aggregatePlan,
  }
  const plans = operations
    .filter((way) => way !== 'get' || isMany || operators.includes('eq'))
    .map((way): NamedPlan => [way, byWay[way]()])
  const states = operations.find((way) => way === 'scan') ?? operations.find((way) => way === 'get')
  if (!histories.includes('type_2') || states === undefined) return plans
  const asked = states === 'get' ? { filters } : {}
  const instant = '2030-01-01T00:00:00.000000Z'
  return [
    ...plans,
    [`${states} of all states`, planOf(HISTORY_SCHEMA, states, { ...asked, history: { kind: 'all' } })],
    [
      `${states} of the states at an instant`,
      planOf(HISTORY_SCHEMA, states, { ...asked, history: { kind: 'at', instant } }),
    ],
  ]
}

function aggregatePlan(): ReadPlan {
  const columns = ['bucket', 'rank_count']
  const policy = openPolicy(SIMPLE)
  return planOf(SIMPLE, 'aggregate', {
    ...{ interval: INTERVAL, columns, orderBy: [{ column: 'bucket', direction: 'asc' }] },
    range: { from: null, to: null },
    policy: { ...policy, visibleColumns: [...policy.visibleColumns, ...columns] },
  })
}

/** What was taken of an answer before it ended. */
export interface Taken {
  readonly rowCount: number
  readonly next: ReadBatch['next']
}

export async function takenOf(answer: AsyncIterable<ReadBatch>): Promise<Taken> {
  let rowCount = 0
  let next: ReadBatch['next']
  for await (const batch of answer) {
    rowCount += batch.rowCount
    next = batch.next
  }
  return { rowCount, next }
}
