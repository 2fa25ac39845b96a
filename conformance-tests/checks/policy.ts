/** What a reader's policy says holds for every row, column and word of an answer. */
import { type ReadPolicy, type RowPredicate, rowPasses, type TableSchema } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { operation } from '../requirements.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import { ordinary } from '../values.ts'

const CLAIMS = { name: 'aé', rank: 3, amount: '12.50', nothing: null }

export const policyChecks: readonly Check[] = [
  {
    id: 83,
    name: 'policy-ir-all-operators-agree-with-oracle',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 30)
      let excluded = 0
      let allowed = 0
      // At the value itself the operators part: random ones seldom meet it.
      const middle = { literal: [...dataset.content.values()][14]?.[0] ?? null }
      for (const op of ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const) {
        await expectAllowed(dataset, { op, column: 'id', value: middle })
      }
      for (let trial = 0; trial < (context.level === 'core' ? 60 : 300); trial += 1) {
        const rows = randomPredicate(context, dataset, 3)
        const left = await expectAllowed(dataset, rows)
        allowed += left
        excluded += dataset.content.size - left
      }
      expect(allowed > 0 && excluded > 0, () => vacuous(`predicates let ${allowed} rows pass and ${excluded} not`))
    },
  },
  {
    id: 84,
    name: 'policy-null-semantics-deny',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 30)
      const name: RowPredicate = { op: 'eq', column: 'name', value: { literal: 'a' } }
      const all = [...dataset.content.values()]
      expect(all.some((row) => row[2] === null) && all.some((row) => row[2] !== null), () =>
        vacuous('no row has a null'),
      )
      const predicates: readonly RowPredicate[] = [
        { op: 'ne', column: 'name', value: { literal: 'no such name' } },
        { op: 'not', of: name },
        { op: 'not', of: { op: 'or', of: [name, { op: 'eq', column: 'name', value: { literal: null } }] } },
        { op: 'or', of: [name, { op: 'not', of: name }] },
        { op: 'not', of: { op: 'in', column: 'name', values: [{ literal: 'a' }, { literal: null }] } },
        {
          op: 'and',
          of: [
            { op: 'is_null', column: 'name' },
            { op: 'not', of: name },
          ],
        },
        { op: 'not', of: { op: 'is_null', column: 'name' } },
        { op: 'is_null', column: 'name' },
      ]
      for (const rows of predicates) await expectAllowed(dataset, rows)
    },
  },
  {
    id: 85,
    name: 'policy-claim-missing-denies',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 20)
      await expectSome(dataset, { op: 'ge', column: 'rank', value: { literal: -50 } })
      for (const claim of ['missing', 'nothing', 'constructor', 'toString']) {
        for (const op of ['eq', 'ne', 'ge', 'le'] as const) {
          const rows: RowPredicate = { op, column: 'rank', value: { claim } }
          for (const predicate of [rows, { op: 'not', of: rows } as const]) {
            const left = await expectAllowed(dataset, predicate)
            expect(left === 0, () => vacuous('the oracle let a row pass without its claim'))
          }
        }
      }
    },
  },
  {
    id: 86,
    name: 'policy-change-effective-on-next-read',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 12)
      const open = await dataset.see({ policy: openPolicy(SIMPLE) })
      expect(open.length === 12, () => vacuous('the open policy does not show the rows'))
      for (const [version, rows] of [
        ['2', { op: 'none' }],
        ['3', { op: 'eq', column: 'id', value: { literal: 3n } }],
        ['4', { op: 'all' }],
      ] as const) {
        const seen = await dataset.see({ policy: { ...openPolicy(SIMPLE), version, rows } })
        const expected = [...dataset.content.values()].filter((row) => rowPasses(rows, SIMPLE, row, {}))
        const difference = differenceOf(SIMPLE, expected, seen)
        expect(difference === null, () => ({
          what: `the read after a change of policy goes by another one: ${difference && describeDifference(difference)}`,
          where: `read with policy version ${version}`,
          why: 'a grant that is taken away is gone with the next read',
          remedy: 'Key every cache by the policy’s version, or do not cache.',
        }))
      }
    },
  },
  {
    id: 87,
    name: 'describe-equals-installed',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 3)
      await dataset.expectRows('the rows must be there')
      for (const version of ['7', '8']) {
        await context.store.rls.install(dataset.target, { version, tenantIsolation: 'forced' })
        const described = await context.store.rls.describe(dataset.target)
        const isSame = described.version === version && described.tenantIsolation === 'forced'
        expect(isSame && described.enforcedBy.trim() !== '', () => ({
          what: `installed version ${version}, described ${JSON.stringify(described)}`,
          where: 'rls.describe',
          why: 'what is described is what an operator believes is in place',
          remedy: 'Store the version with the policy, and read it from the store.',
        }))
      }
    },
  },
  {
    id: 88,
    name: 'error-text-reveals-no-row-value-or-foreign-name',
    level: 'core',
    async run(context) {
      const secret = 'zebra-7f3a'
      const dataset = await context.dataset(SIMPLE, { tenant: 'owner', product: 'orders' })
      await dataset.full(rowsOf(SIMPLE, 1, 3, context.random).map((row) => row.with(2, secret)))
      await dataset.expectRows('the rows whose values must not be told must be there')
      const errors = await provoked(context, dataset, secret)
      expect(errors.length >= 4, () => vacuous(`only ${errors.length} of the provoked errors came`))
      for (const error of errors) expectDiscreet(error, [secret, dataset.target.scope.tenant, 'SELECT ', 'INSERT '])
    },
  },
  {
    id: 89,
    name: 'aggregate-and-count-respect-policy',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const wish = { product: 'sums', aggregates: [{ interval: '1 day', columns: ['rank'] }] }
      const mine = await context.dataset(SIMPLE, { ...wish, tenant: 'a' })
      const theirs = await context.dataset(SIMPLE, { ...wish, tenant: 'b' })
      await mine.full(rowsOf(SIMPLE, 1, 10, context.random))
      const before = await aggregate(context, mine, openPolicy(SIMPLE))
      expect(before !== '[]', () => vacuous('the aggregate is empty'))
      await theirs.full(rowsOf(SIMPLE, 1, 40, context.random.fork('other')))
      const after = await aggregate(context, mine, openPolicy(SIMPLE))
      const none = await aggregate(context, mine, { ...openPolicy(SIMPLE), rows: { op: 'none' } })
      expect(before === after && none === '[]', () => ({
        what:
          before === after
            ? 'an aggregate shows rows that the policy hides'
            : 'an aggregate counts another tenant’s rows',
        where: 'read aggregate',
        why: 'a sum over hidden rows tells them',
        remedy: 'Keep aggregates per tenant, and refuse or recompute them under a row policy.',
      }))
    },
  },
]

async function filled(context: CheckContext, count: number): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE)
  const [first = [], second = [], ...others] = rowsOf(SIMPLE, 1, count, context.random)
  await dataset.full([first.with(2, null), second.with(2, 'a'), ...others])
  return dataset
}

/** How many rows pass. */
async function expectAllowed(dataset: Dataset, rows: RowPredicate): Promise<number> {
  const expected = [...dataset.content.values()].filter((row) => rowPasses(rows, SIMPLE, row, CLAIMS))
  const seen = await dataset.see({ policy: { ...openPolicy(SIMPLE), rows, claims: CLAIMS } })
  const difference = differenceOf(SIMPLE, expected, seen)
  if (difference === null) return expected.length
  throw new CheckFailure({
    what: `a row policy shows other rows than it means: ${describeDifference(difference)}`,
    where: `read ${dataset.ways()[0]} under ${JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))}`,
    why: 'comparisons follow SQL: with a null on either side they are unknown, and unknown denies',
    remedy: 'Compare with rowPasses of the SDK.',
  })
}

async function expectSome(dataset: Dataset, rows: RowPredicate): Promise<void> {
  const left = await expectAllowed(dataset, rows)
  expect(left > 0, () => vacuous('the open predicate lets no row pass'))
}

function randomPredicate(context: CheckContext, dataset: Dataset, depth: number): RowPredicate {
  const { random } = context
  const nested = () => randomPredicate(context, dataset, depth - 1)
  if (depth > 0 && random.chance(0.5)) {
    if (random.chance(0.3)) return { op: 'not', of: nested() }
    return { op: random.pick(['and', 'or'] as const), of: Array.from({ length: random.integer(1, 3) }, nested) }
  }
  const { name: column, type } = random.pick(SIMPLE.columns)
  if (random.chance(0.15)) return { op: 'is_null', column }
  const value = () => {
    if (random.chance(0.1)) return { literal: null }
    if (Object.hasOwn(CLAIMS, column) && random.chance(0.3)) return { claim: column }
    const cell = random.pick([...dataset.content.values()])[SIMPLE.columns.findIndex((other) => other.name === column)]
    return { literal: random.chance(0.7) ? (cell ?? null) : ordinary(type, random) }
  }
  if (random.chance(0.2)) return { op: 'in', column, values: Array.from({ length: random.integer(0, 3) }, value) }
  return { op: random.pick(['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const), column, value: value() }
}

async function aggregate({ store }: CheckContext, dataset: Dataset, policy: ReadPolicy): Promise<string> {
  const plan = planOf(AGGREGATE, 'aggregate', { interval: '1 day', range: { from: null, to: null }, policy })
  const visible = { ...policy, visibleColumns: [...policy.visibleColumns, ...plan.columns] }
  const { rows } = await answerOf(store, dataset.target, { ...plan, policy: visible })
  return JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
}

/** The part of a kept aggregate that every store names alike. */
const AGGREGATE: TableSchema = { columns: [{ name: 'bucket', type: 'timestamptz', nullable: false }], primaryKey: [] }

async function provoked(context: CheckContext, dataset: Dataset, secret: string): Promise<readonly Error[]> {
  const { store } = context
  const { target } = dataset
  const [way = 'scan'] = dataset.ways()
  const [row = []] = dataset.candidates
  const sight = { target, template: dataset.template, candidates: [] }
  const stranger = { ...target, scope: context.tenant('stranger'), product: 'unknown' }
  const stale = await dataset.prepare({ mode: 'full', upserts: [row], commit: { fence: 0n } })
  const gap = await dataset.prepare({ mode: 'delta', upserts: [row], commit: { epoch: 9, previousEpoch: 8 } })
  const hidden = { ...openPolicy(SIMPLE), visibleColumns: ['id', 'at'] }
  const filters = [{ column: 'name', operator: 'eq' as const, values: [secret] }]
  const tries: readonly (() => Promise<unknown>)[] = [
    () => store.write(target, stale.changes, stale.commit),
    () => store.write(target, gap.changes, gap.commit),
    () => answerOf(store, target, pointPlan(way, row, { ...sight, policy: hidden })),
    () => answerOf(store, target, pointPlan(way, row, sight, { filters: [...filters, { ...unknown(secret) }] })),
    () => answerOf(store, target, pointPlan(way, row, sight, { limit: 0 })),
    () => answerOf(store, stranger, pointPlan(way, row, { ...sight, target: stranger })),
    () => store.rls.describe(stranger),
  ]
  const outcomes = await Promise.allSettled(tries.map((attempt) => attempt()))
  return outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []))
}

function unknown(secret: string) {
  return { column: 'no_such_column', operator: 'eq' as const, values: [secret] }
}

function expectDiscreet(error: Error, words: readonly string[]): void {
  const { message, code, remedy, details } = error as Error & Readonly<Record<string, unknown>>
  const text = JSON.stringify([message, code, remedy, details])
  for (const word of words) {
    expect(!text.includes(word), () => ({
      what: `an error that a client may read holds ${JSON.stringify(word)}`,
      where: `${String(code)}: ${message}`,
      why: 'messages, remedies and details go out as they stand',
      remedy: 'Put what the driver says into cause, and write the message yourself.',
    }))
  }
}
