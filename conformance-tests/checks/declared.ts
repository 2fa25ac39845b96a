/** Operations of a plugin's own keep what every read keeps. */
import {
  CLEAR,
  type Column,
  type DeclaredOperation,
  declarationProblems,
  isJsonBatch,
  type OperationPlan,
  type ReadPolicy,
  type Row,
  rowPasses,
  rowsOf as rowsOfBatch,
  type ServingStore,
  type Target,
  type Value,
} from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal, type FailureParts, vacuous } from '../check.ts'
import { cellsText, describeDifference, differenceOf, indexOf, keyText } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { problemsOf } from '../json-schema.ts'
import { openPolicy, planOf } from '../reading.ts'
import { DECLARED_OPERATION } from '../requirements.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import { expectWholeBatch } from '../whole-batch.ts'

const ROWS = 40
const NAMES = SIMPLE.columns.map(({ name }) => name)

export const declaredChecks: readonly Check[] = [
  {
    id: 127,
    name: 'declared-operations-say-what-they-take',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const { plugin } = context
      await context.filled(4)
      const problems = [...declarationProblems(plugin)]
      for (const { name, declared, config } of operationsOf(context)) {
        const { example, inputSchema, adds = [] } = declared
        problems.push(...problemsOf(inputSchema, example).map((problem) => `the example of ${name}: ${problem}`))
        const unknown = problemsOf(inputSchema, { ...example, no_such_member: true })
        if (unknown.length === 0) problems.push(`${name} takes members of its input that it does not know`)
        const selected = plugin.selects?.({ operation: name, input: example, config, schema: SIMPLE }) ?? []
        problems.push(
          ...selected.filter((column) => !NAMES.includes(column)).map((column) => `${name} selects by ${column}`),
          ...adds.filter((column) => NAMES.includes(column.name)).map((column) => `${name} adds ${column.name} anew`),
        )
      }
      expect(problems.length === 0, () => ({
        what: problems.slice(0, 5).join('; '),
        where: 'capabilities.declared and selects',
        why: 'the runtime mounts an operation, and decides who may ask for it, by what is declared alone',
        remedy: 'Correct what is named.',
      }))
    },
  },
  {
    id: 128,
    name: 'operation-gives-rows-of-the-dataset',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const dataset = await context.filled(ROWS)
      await eachTrial(context, dataset, async (trial) => {
        const rows = await expectRowsOf(dataset, trial, await whole(context.store, dataset, trial))
        const added = (trial.declared.adds ?? []).map(({ name }) => name)
        for (const columns of [['rank', 'id'], [...added, 'id'], ['id']]) {
          const page = await pageOf(context.store, dataset.target, trial, { columns })
          const wanted = rows.map((row) => columns.map((name) => row[trial.columns.indexOf(name)] ?? null))
          expectSame(
            trial,
            wanted,
            page.rows,
            `asked for ${columns.join(', ')}`,
            'a reader gets what he asked for, in his order',
          )
        }
        const expected = context.knobs.operations?.[trial.name]?.expected?.(trial.input, SIMPLE, [
          ...dataset.content.values(),
        ])
        if (expected)
          expectSame(
            trial,
            expected.map(keyOf),
            rows.map(keyOf),
            'beside what its author expects',
            'these rows, in this order, are what the operation promises',
          )
      })
    },
  },
  {
    id: 129,
    name: 'operation-pages-without-gap-or-double',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const dataset = await context.filled(ROWS)
      let turned = 0
      await eachTrial(context, dataset, async (trial) => {
        const rows = await whole(context.store, dataset, trial)
        for (const limit of new Set([1, 2, 3, rows.length - 1, rows.length, rows.length + 1])) {
          if (limit < 1) continue
          const given: Row[] = []
          let after: readonly Value[] | undefined
          do {
            const page = await pageOf(context.store, dataset.target, trial, { limit, ...(after ? { after } : {}) })
            expect(page.rows.length <= limit, () => broken(trial, `it gave ${page.rows.length} rows of ${limit}`))
            if (page.next !== undefined) turned += 1
            given.push(...page.rows)
            after = page.next
          } while (after !== undefined && given.length <= rows.length)
          expectSame(trial, rows, given, `page by page of ${limit}`, 'pages together are the answer, in one order')
        }
      })
      expect(turned > 0, () => vacuous('no answer had more than one page', INPUTS_REMEDY))
    },
  },
  {
    id: 130,
    name: 'operation-hangs-on-its-target-alone',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const dataset = await context.filled(ROWS)
      const before = await answersOf(context, dataset)
      const foreign = rowsOf(SIMPLE, 1, 3 * ROWS, context.random)
      const { domain, product } = dataset.target
      const others = [
        await context.dataset(SIMPLE, { tenant: 'b', domain, product }),
        await context.dataset(SIMPLE, { domain, product, variant: `${CLEAR}x` }),
        await context.dataset(SIMPLE, { domain, product: `${product}x` }),
      ]
      for (const other of others) {
        await other.full(foreign)
        const after = await answersOf(context, dataset)
        expect(JSON.stringify(after) === JSON.stringify(before), () => ({
          what: 'an answer has changed when rows of another tenant, variant or product were written',
          where: 'store.operate, rows and added columns',
          why: 'scores and orders that hang on others’ rows tell what others have',
          remedy: 'Keep an index, and the statistics that it ranks by, for each target by itself.',
        }))
        await eachTrial(context, other, async (trial) => {
          await expectRowsOf(other, trial, await whole(context.store, other, trial))
        })
      }
    },
  },
  {
    id: 131,
    name: 'operation-obeys-the-policy',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const { store } = context
      const dataset = await context.filled(ROWS)
      let excluded = 0
      await eachTrial(context, dataset, async (trial) => {
        const all = await whole(store, dataset, trial)
        const middle = [...dataset.content.values()][ROWS / 2]?.[0] ?? null
        for (const rows of [
          { op: 'none' },
          { op: 'le', column: 'id', value: { literal: middle } },
          { op: 'not', of: { op: 'is_null', column: 'rank' } },
          { op: 'ge', column: 'id', value: { claim: 'middle' } },
        ] as const) {
          const claims = { middle }
          const policy: ReadPolicy = { ...openPolicy(SIMPLE), rows, claims }
          const given = await pagedBy(store, dataset, trial, policy)
          const content = new Map([...dataset.content.values()].map((row) => [keyText(SIMPLE, row), row]))
          const passes = (row: Row) => rowPasses(rows, SIMPLE, content.get(keyOf(row)) ?? [], claims)
          const wanted = all.filter(passes).map(keyOf)
          excluded += all.length - wanted.length
          expectSame(
            trial,
            wanted.toSorted(),
            given.map(keyOf).toSorted(),
            `under the policy ${rows.op}`,
            'a row that the policy hides is not there',
          )
        }
      })
      expect(excluded > 0, () => vacuous('no policy hid a row that an operation gives', INPUTS_REMEDY))
      const bare = await context.dataset(SIMPLE, { policy: 'none' })
      const written = await bare.full(rowsOf(SIMPLE, 1, ROWS, context.random)).then(
        () => true,
        () => false,
      )
      if (written) {
        await eachTrial(
          context,
          bare,
          async (trial) => {
            const rows = await whole(store, bare, trial)
            expect(rows.length === 0, () => broken(trial, `it gave ${rows.length} rows of a dataset without a policy`))
          },
          { mayFindNothing: true },
        )
      }
    },
  },
  {
    id: 132,
    name: 'operation-refuses-what-reads-refuse',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const { store, capabilities } = context
      const dataset = await context.filled(ROWS)
      const empty = await context.dataset(SIMPLE)
      await eachTrial(
        context,
        dataset,
        async (trial) => {
          const ask = (parts: Partial<OperationPlan>, target = dataset.target) => pageOf(store, target, trial, parts)
          await ask({})
          const where = `store.operate, ${trial.name}`
          const why = 'operations are held to what every read is held to'
          const refused = (tried: string, kind: FailureKind, run: () => Promise<unknown>) =>
            expectRefusal({ kind, tried, where, why }, run)
          await refused('an operation that is not declared', 'UNSUPPORTED', () =>
            ask({ operation: 'no_such_operation' }),
          )
          const policy = { ...openPolicy(SIMPLE), visibleColumns: NAMES.filter((name) => name !== 'amount') }
          await refused('a column that the reader may not see', 'PERMISSION', () =>
            ask({ policy, columns: ['id', 'amount'] }),
          )
          for (const limit of [0, -1, 1.5, capabilities.limits.maxReadRows + 1]) {
            await refused(`a limit of ${limit}`, 'INVALID_DATA', () => ask({ limit }))
          }
          await refused('a cursor of something else', 'INVALID_DATA', () =>
            ask({ after: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] }),
          )
          await refused('an operation before the first write', 'TRANSIENT', () => ask({}, empty.target))
          const ended = AbortSignal.abort()
          await refused('an operation whose caller has gone', 'TRANSIENT', () => ask({ signal: ended }))
        },
        { mayFindNothing: true },
      )
      await dataset.expectRows('what was refused must leave no effect')
    },
  },
  {
    id: 133,
    name: 'operation-follows-every-write',
    level: 'core',
    requires: [DECLARED_OPERATION],
    async run(context) {
      const dataset = await context.filled(ROWS)
      const [first, second, ...rest] = [...dataset.content.values()]
      if (!first || !second) throw new CheckFailure(vacuous('there are no rows'))
      const moved = [...first.slice(0, 2), second[2] ?? null, ...first.slice(3)]
      const steps: readonly (() => Promise<unknown>)[] = [
        () => dataset.delta([moved], [second]),
        () => dataset.delta(rowsOf(SIMPLE, ROWS + 1, 5, context.random), rest.slice(0, 5)),
        () => dataset.full(rowsOf(SIMPLE, 20, ROWS, context.random)),
      ]
      for (const step of steps) {
        await step()
        await eachTrial(context, dataset, async (trial) => {
          const page = await pageOf(context.store, dataset.target, trial, {})
          expect(page.epoch === dataset.epoch, () =>
            broken(trial, `it says epoch ${page.epoch} at epoch ${dataset.epoch}`),
          )
          await expectRowsOf(dataset, trial, page.rows)
        })
        // After each one: a full set may be what puts right again what deltas have left.
        await expectAsWrittenAtOnce(context, dataset)
      }
      const before = await answersOf(context, dataset)
      await context.reopen()
      const reopened = await answersOf(context, dataset)
      expect(JSON.stringify(reopened) === JSON.stringify(before), () => ({
        what: 'an operation answers otherwise after the store was opened again',
        where: 'store.operate',
        why: 'an index is as durable as the rows that it is of',
        remedy: 'Keep the index with the rows, or make it anew from them before the first answer.',
      }))
    },
  },
]

async function expectAsWrittenAtOnce(context: CheckContext, dataset: Dataset): Promise<void> {
  const fresh = await context.dataset(SIMPLE)
  await fresh.full([...dataset.content.values()])
  const [given, anew] = [await answersOf(context, dataset), await answersOf(context, fresh, dataset)]
  expect(JSON.stringify(given) === JSON.stringify(anew), () => ({
    what: 'the same rows are answered otherwise where they were written at once',
    where: `store.operate at epoch ${dataset.epoch}, after deltas, deletes or a full set`,
    why: 'what an operation gives hangs on the rows that there are, and not on how they came',
    remedy: 'Take what a write replaces or deletes out of the index and its statistics.',
  }))
}

type FailureKind = 'UNSUPPORTED' | 'PERMISSION' | 'INVALID_DATA' | 'TRANSIENT'

export interface Trial {
  readonly name: string
  readonly declared: DeclaredOperation
  readonly input: Readonly<Record<string, unknown>>
  /** All that can be asked for: the dataset's, and what is added. */
  readonly columns: readonly string[]
}

export const INPUTS_REMEDY = 'Name inputs that find several of the rows under knobs.operations in conformance.ts.'

function operationsOf(context: CheckContext) {
  const { config } = context.targetFor(SIMPLE)
  return Object.entries(context.capabilities.declared ?? {}).map(([name, declared]) => ({ name, declared, config }))
}

export function trialsOf(context: CheckContext, dataset: Dataset): readonly Trial[] {
  const rows = [...dataset.content.values()]
  return operationsOf(context).flatMap(({ name, declared }) => {
    const columns = [...NAMES, ...(declared.adds ?? []).map((column: Column) => column.name)]
    const inputs = context.knobs.operations?.[name]?.inputs(SIMPLE, rows) ?? [declared.example]
    return inputs.map((input) => ({ name, declared, input, columns }))
  })
}

/** Each operation with each of its inputs, of which one at least has to find something. */
async function eachTrial(
  context: CheckContext,
  dataset: Dataset,
  run: (trial: Trial) => Promise<void>,
  { mayFindNothing = false }: { readonly mayFindNothing?: boolean } = {},
): Promise<void> {
  const trials = trialsOf(context, dataset)
  for (const trial of trials) await run(trial)
  if (mayFindNothing) return
  const found = await Promise.all(trials.map((trial) => whole(context.store, dataset, trial)))
  expect(
    found.some((rows) => rows.length > 1),
    () => vacuous('no input finds two rows', INPUTS_REMEDY),
  )
}

interface OperationPage {
  readonly rows: readonly Row[]
  readonly epoch: number
  readonly next: readonly Value[] | undefined
}

export async function pageOf(
  store: ServingStore,
  target: Target,
  { name, input, columns }: Trial,
  parts: Partial<OperationPlan>,
): Promise<OperationPage> {
  const { policy, timeoutMs, signal } = planOf(SIMPLE, 'scan')
  const plan: OperationPlan = { operation: name, input, columns, limit: 100, policy, timeoutMs, signal, ...parts }
  if (store.operate === undefined) throw new CheckFailure(vacuousHook())
  const rows: Row[] = []
  let last: { readonly epoch: number; readonly next?: readonly Value[] } | null = null
  for await (const batch of store.operate(target, plan)) {
    if (isJsonBatch(batch)) throw new CheckFailure(broken({ name, input }, 'it gave JSON: an operation gives columns'))
    expectWholeBatch(batch, plan.columns.length, `store.operate, ${name}`)
    rows.push(...rowsOfBatch(batch))
    last = batch
  }
  if (last === null)
    throw new CheckFailure(broken({ name, input }, 'it ended without a batch, so that no epoch is known'))
  return { rows, epoch: last.epoch, next: last.next }
}

export async function whole(store: ServingStore, { target }: Dataset, trial: Trial, policy = openPolicy(SIMPLE)) {
  return (await pageOf(store, target, trial, { policy })).rows
}

/** Page by page of a few: a policy that holds for the first one alone is seen. */
async function pagedBy(store: ServingStore, { target }: Dataset, trial: Trial, policy: ReadPolicy): Promise<Row[]> {
  const rows: Row[] = []
  let after: readonly Value[] | undefined
  do {
    const page = await pageOf(store, target, trial, { policy, limit: 4, ...(after ? { after } : {}) })
    rows.push(...page.rows)
    after = page.next
  } while (after !== undefined && rows.length <= ROWS)
  return rows
}

/** The answers to all inputs that the rows of `of` suggest. */
async function answersOf(
  context: CheckContext,
  dataset: Dataset,
  of = dataset,
): Promise<readonly (readonly string[])[]> {
  const answers: (readonly string[])[] = []
  for (const trial of trialsOf(context, of)) answers.push((await whole(context.store, dataset, trial)).map(cellsText))
  return answers
}

/** Fails unless each row is one of the dataset, once, with its own values. */
async function expectRowsOf({ content }: Dataset, trial: Trial, rows: readonly Row[]): Promise<readonly Row[]> {
  const given = rows.map((row) => row.slice(0, NAMES.length))
  const wanted = new Map([...content.values()].map((row) => [keyText(SIMPLE, row), row]))
  const asked = given.map((row) => wanted.get(keyOf(row))).filter((row) => row !== undefined)
  const difference = differenceOf(SIMPLE, asked, given)
  if (difference === null) return rows
  throw new CheckFailure(broken(trial, `its rows are not those of the dataset: ${describeDifference(difference)}`))
}

const ID = indexOf(SIMPLE, 'id')
const keyOf = (row: Row) => cellsText([row[ID] ?? null])

function expectSame(
  trial: Trial,
  wanted: readonly unknown[],
  given: readonly unknown[],
  how: string,
  why: string,
): void {
  const text = (rows: readonly unknown[]) =>
    rows.map((row) => (Array.isArray(row) ? cellsText(row as Row) : String(row)))
  const [left, right] = [text(wanted), text(given)]
  if (JSON.stringify(left) === JSON.stringify(right)) return
  const at = left.findIndex((row, index) => row !== right[index])
  const first = at < 0 ? left.length : at
  throw new CheckFailure({
    ...broken(trial, `it gave other rows ${how}`),
    expected: `${left.length} rows, number ${first + 1} of them ${left[first] ?? 'none'}`,
    came: `${right.length} rows, number ${first + 1} of them ${right[first] ?? 'none'}`,
    why,
  })
}

export function broken({ name, input }: Pick<Trial, 'name' | 'input'>, what: string): FailureParts {
  return {
    what: `the operation ${name}: ${what}`,
    where: `store.operate, input ${JSON.stringify(input)}`,
    why: 'readers trust what an operation gives as they trust a read',
    remedy: 'Answer from the rows of the served epoch, and from nothing else.',
  }
}

function vacuousHook(): FailureParts {
  return {
    what: 'operations are declared, and the store has no operate',
    where: 'store.operate',
    why: 'the runtime calls it for each declared operation',
    remedy: 'Write it, or leave capabilities.declared out.',
  }
}
