/** Ranges, aggregates and histories over values that are near each other or at the ends of their types: what must come is written down. */
import type { LogicalType, Row, RowPredicate, TableSchema, Value } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { cellsText, describeDifference, differenceOf, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, pagesOf, planOf } from '../reading.ts'
import { historyMode, operation } from '../requirements.ts'
import { changed, HISTORY_SCHEMA, rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

const ID = { name: 'id', type: 'long', nullable: false } as const

/** Ascending, a microsecond or a day apart, before 1970 and after it. */
const TIMES: Readonly<Partial<Record<LogicalType, readonly string[]>>> = {
  timestamptz: [
    '1969-12-31T23:59:59.999998Z',
    '1969-12-31T23:59:59.999999Z',
    '1970-01-01T00:00:00.000000Z',
    '2024-05-01T10:00:00.000001Z',
    '2024-05-01T10:00:00.000002Z',
    '2024-05-01T10:00:00.000999Z',
    '2024-05-01T10:00:00.001000Z',
  ],
  timestamp: [
    '1969-12-31T23:59:59.999999',
    '1970-01-01T00:00:00.000000',
    '2024-03-31T02:30:00.000001',
    '2024-03-31T02:30:00.000002',
  ],
  date: ['1969-12-31', '1970-01-01', '2024-02-29', '2024-03-01'],
}

/** Two days, on one of which the greatest values meet, on the other nulls and NaN. */
const LATE = '1969-12-31T23:59:59.999999Z'
const EARLY = '1970-01-01T00:00:00.000000Z'
const MEASURED: readonly { readonly name: string; readonly type: LogicalType; readonly cells: readonly Value[] }[] = [
  { name: 'i', type: 'integer', cells: [2147483647, 2147483647, 1, null, -2147483648] },
  { name: 'l', type: 'long', cells: [9223372036854775807n, 9223372036854775806n, 9007199254740993n, null, 2n] },
  {
    name: 'm',
    type: 'decimal(20,2)',
    cells: ['999999999999999999.99', '999999999999999999.98', '-0.01', null, '0.10'],
  },
  { name: 'd', type: 'double', cells: [1.5, -2.5, 3, Number.NaN, 7] },
  { name: 's', type: 'string', cells: ['\ufb00', '\u{1f600}', 'a', null, ''] },
]
const EXPECTED: Readonly<Record<string, Readonly<Record<string, readonly [Value, Value]>>>> = {
  i: { count: [3n, 1n], sum: ['4294967295', '-2147483648'], min: [1, -2147483648], max: [2147483647, -2147483648] },
  l: {
    count: [3n, 1n],
    sum: ['18455751272964292606', '2'],
    min: [9007199254740993n, 2n],
    max: [9223372036854775807n, 2n],
  },
  m: {
    count: [3n, 1n],
    sum: ['1999999999999999999.96', '0.10'],
    min: ['-0.01', '0.10'],
    max: ['999999999999999999.99', '0.10'],
  },
  d: { count: [3n, 2n], sum: [2, Number.NaN], min: [-2.5, 7], max: [3, Number.NaN] },
  s: { count: [3n, 1n], min: ['a', ''], max: ['\u{1f600}', ''] },
}

export const timeEdgeChecks: readonly Check[] = [
  {
    id: 143,
    name: 'aggregates-hold-at-the-ends-of-types',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const columns = MEASURED.filter(({ type }) => context.capabilities.types[nameOfType(type)] === 'exact')
      await expectAggregate(context, columns)
    },
  },
  {
    id: 144,
    name: 'ranges-hold-to-the-microsecond-and-the-day',
    level: 'core',
    requires: [operation('range')],
    async run(context) {
      const types = (['timestamptz', 'timestamp', 'date'] as const).filter(
        (type) => context.capabilities.types[type] === 'exact',
      )
      for (const type of types) await expectRanges(context, type, TIMES[type] ?? [])
    },
  },
  {
    id: 145,
    name: 'histories-hold-under-policies-and-page-by-page',
    level: 'core',
    requires: [historyMode('type_2')],
    async run(context) {
      await expectHistory(context)
    },
  },
]

const nameOfType = (type: LogicalType) => (type.startsWith('decimal') ? 'decimal' : type) as 'decimal'

async function expectAggregate(context: CheckContext, measured: typeof MEASURED): Promise<void> {
  const interval = '1 day'
  const columns = measured.map(({ name, type }) => ({ name, type, nullable: true }))
  const time = { name: TIME_COLUMN, type: 'timestamptz', nullable: false } as const
  const schema: TableSchema = { columns: [ID, time, ...columns], primaryKey: ['id'] }
  const aggregates = [{ interval, columns: columns.map(({ name }) => name) }]
  const dataset = await context.dataset(schema, { aggregates })
  const rows = [LATE, LATE, LATE, EARLY, EARLY].map(
    (at, index): Row => [BigInt(index), at, ...measured.map(({ cells }) => cells[index] ?? null)],
  )
  // By a full set first, then as deltas on what is kept.
  await dataset.full(rows.slice(0, 2))
  await dataset.delta(rows.slice(2))
  const names = measured.flatMap(({ name }) => Object.keys(EXPECTED[name] ?? {}).map((one) => `${name}_${one}`))
  const policy = openPolicy(schema)
  const plan = planOf(schema, 'aggregate', {
    ...{ interval, columns: ['bucket', ...names], range: { from: null, to: null } },
    policy: { ...policy, visibleColumns: [...policy.visibleColumns, 'bucket', ...names] },
  })
  const given = await answerOf(context.store, dataset.target, plan)
  const lines = new Map(given.rows.map((row) => [row[0], row]))
  const days = ['1969-12-31T00:00:00.000000Z', '1970-01-01T00:00:00.000000Z']
  expect(given.rows.length === days.length, () => wrongAggregate(`${given.rows.length} days in the place of two`))
  for (const [day, bucket] of days.entries()) {
    for (const [at, name] of names.entries()) {
      const [column = '', measure = ''] = name.split('_')
      const wanted = EXPECTED[column]?.[measure]?.[day] ?? null
      const found = lines.get(bucket)?.[at + 1] ?? null
      expect(Object.is(wanted, found), () =>
        wrongAggregate(`${name} of ${bucket} is ${shown(found)} in the place of ${shown(wanted)}`),
      )
    }
  }
}

function wrongAggregate(what: string) {
  return {
    what: `a kept aggregate is other than its rows give: ${what}`,
    where: 'read aggregate of 1 day, over the greatest values of each type, NaN and nulls',
    why: 'sums of integers and decimals are exact and wider than what they add, NaN stands above all numbers, and nulls do not count',
    remedy: 'Add in a type of 38 digits, and compare as the contract orders values.',
  }
}

async function expectRanges(context: CheckContext, type: LogicalType, times: readonly string[]): Promise<void> {
  const columns = [ID, { name: TIME_COLUMN, type, nullable: false }, { name: 'rank', type: 'integer', nullable: true }]
  const schema: TableSchema = { columns: columns as TableSchema['columns'], primaryKey: ['id'] }
  const dataset = await context.dataset(schema)
  const rows = times.map((time, index): Row => [BigInt(index), time, (index * 5) % times.length])
  await dataset.full(context.random.shuffled(rows))
  for (let first = 0; first <= times.length; first += 1) {
    for (let end = first; end <= times.length; end += 1) {
      const range = { from: times[first] ?? null, to: times[end] ?? null }
      const expected = rows.slice(range.from === null ? 0 : first, range.to === null ? times.length : end)
      const { rows: given } = await answerOf(context.store, dataset.target, planOf(schema, 'range', { range }))
      const isOrdered = JSON.stringify(given.map(cellsText)) === JSON.stringify(expected.map(cellsText))
      expect(isOrdered, () =>
        wrongRange(
          `from ${range.from ?? 'the beginning'} to ${range.to ?? 'the end'} of a ${type} it gave ${given.map((row) => row[1]).join(', ') || 'nothing'}`,
        ),
      )
    }
  }
  await expectAskedOrder(context, dataset, rows)
}

async function expectAskedOrder(context: CheckContext, dataset: Dataset, rows: readonly Row[]): Promise<void> {
  for (const direction of ['asc', 'desc'] as const) {
    const sign = direction === 'asc' ? 1 : -1
    const expected = rows.toSorted((left, right) => sign * (Number(left[2]) - Number(right[2])))
    const plan = planOf(dataset.target.schema, 'range', { orderBy: [{ column: 'rank', direction }] })
    const { rows: given } = await answerOf(context.store, dataset.target, plan)
    expect(JSON.stringify(given.map(cellsText)) === JSON.stringify(expected.map(cellsText)), () =>
      wrongRange(`asked for by rank ${direction} it came by rank as ${given.map((row) => row[2]).join(', ')}`),
    )
  }
}

function wrongRange(what: string) {
  return {
    what: `a range of time gives other rows than it holds: ${what}`,
    where: 'read range',
    why: 'a range holds its first instant and not its last, to the microsecond, days and times before 1970 too',
    remedy: 'Compare with from <= time and time < to in a type that holds microseconds.',
  }
}

const STATES: TableSchema = { ...HISTORY_SCHEMA, primaryKey: ['id', 'valid_from'] }

const INSTANTS = ['2026-03-01T00:00:00.000001Z', '2026-03-01T00:00:00.000002Z', '2026-03-01T00:00:00.000003Z'] as const

/** Names that are near each other open states of their own, by commits a microsecond apart. */
const NAMES: readonly (string | null)[] = ['Null', 'null', null]

async function expectHistory(context: CheckContext): Promise<void> {
  const dataset = await context.dataset(SIMPLE, { history: { mode: 'type_2', tracked: ['name'] }, indexed: ['id'] })
  const rows = rowsOf(SIMPLE, 1, 3, context.random)
  const states: Row[] = []
  for (const [index, committedAt] of INSTANTS.entries()) {
    const upserts = rows.map((row) => changed(SIMPLE, row, { name: NAMES[index] ?? null }))
    const mode = index === 0 ? 'full' : 'delta'
    await dataset.apply(await dataset.prepare({ mode, upserts, commit: { committedAt } }))
    const end = INSTANTS[index + 1] ?? null
    states.push(...upserts.map((row): Row => [...row, committedAt, end, end === null]))
  }
  const all = { history: { kind: 'all' as const } }
  await expectStates(context, dataset, states, all, 'all states')
  for (const [index, instant] of INSTANTS.entries()) {
    const at = { history: { kind: 'at' as const, instant } }
    await expectStates(context, dataset, states.slice(index * 3, index * 3 + 3), at, `the states at ${instant}`)
  }
  const predicate: RowPredicate = { op: 'eq', column: 'name', value: { claim: 'name' } }
  const policy = { ...openPolicy(STATES), rows: predicate, claims: { name: 'null' } }
  const seen = states.filter((row) => row[2] === 'null')
  expect(seen.length > 0 && seen.length < states.length, () => vacuous('the policy hides no state'))
  await expectStates(context, dataset, seen, { ...all, policy }, 'all states under a policy')
  if (context.capabilities.operations.includes('scan')) await expectPagesOfHistory(context, dataset, states)
}

async function expectStates(
  { store, capabilities }: CheckContext,
  { target }: Dataset,
  expected: readonly Row[],
  parts: Parameters<typeof planOf>[2],
  where: string,
): Promise<void> {
  const way = capabilities.operations.includes('scan') ? 'scan' : 'get'
  const given: Row[] = []
  const policy = openPolicy(STATES)
  for (const id of way === 'scan' ? [null] : [1n, 2n, 3n]) {
    const filters = id === null ? [] : [{ column: 'id', operator: 'eq' as const, values: [id] }]
    given.push(...(await answerOf(store, target, planOf(STATES, way, { policy, filters, ...parts }))).rows)
  }
  expectSameStates(expected, given, where)
}

async function expectPagesOfHistory(
  { store }: CheckContext,
  { target }: Dataset,
  states: readonly Row[],
): Promise<void> {
  for (const limit of [1, 2]) {
    const plan = planOf(STATES, 'scan', { history: { kind: 'all' }, policy: openPolicy(STATES), limit })
    const { rows: given } = await pagesOf(() => store, target, plan, { most: states.length + 1 })
    expectSameStates(states, given, `all states in pages of ${limit}`)
  }
}

function expectSameStates(expected: readonly Row[], given: readonly Row[], where: string): void {
  const difference = differenceOf(STATES, expected, given)
  expect(difference === null, () => ({
    what: `a history has other states than were written: ${difference ? describeDifference(difference) : ''}`,
    where: `history, ${where}`,
    why: 'each change of a tracked value opens a state at its commit, to the microsecond; policies hide closed states as they hide rows; each state stands on one page',
    remedy:
      'Compare tracked values by their types, apply the policy to every state, and order states by key and valid_from.',
  }))
}
