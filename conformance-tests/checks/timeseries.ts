/** Ranges of time, and the aggregates that are kept of them. */

import type { Row, TableSchema, Value } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf } from '../reading.ts'
import { aggregateRows, aggregateSchema } from '../reference/aggregate.ts'
import { operation } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const INTERVALS = ['1 day', '1 week', '2 months'] as const
const MEASURED = ['rank', 'amount', 'name']

/** Around the ends of days, weeks, months and years, leap days and changes of daylight saving time. */
const INSTANTS = [
  '2023-12-31T23:59:59.999999Z',
  '2024-01-01T00:00:00.000000Z',
  '2024-02-28T12:00:00.000000Z',
  '2024-02-29T00:00:00.000000Z',
  '2024-03-01T00:00:00.000000Z',
  '2024-03-31T00:59:59.999999Z',
  '2024-03-31T01:00:00.000000Z',
  '2024-10-27T00:30:00.000000Z',
  '2024-10-27T01:30:00.000000Z',
  '2026-02-22T23:59:59.999999Z',
  '2026-02-23T00:00:00.000000Z',
  '2026-02-28T23:59:59.999999Z',
]

export const timeseriesChecks: readonly Check[] = [
  {
    id: 105,
    name: 'range-half-open-bounds',
    level: 'core',
    requires: [operation('range')],
    async run(context) {
      const dataset = await spread(context)
      const all = [...dataset.content.values()]
      let excluded = 0
      for (const [from, to] of bounds(context)) {
        const expected = all.filter(
          ([, at]) => (from === null || String(at) >= from) && (to === null || String(at) < to),
        )
        excluded += all.length - expected.length
        const { rows } = await answerOf(context.store, dataset.target, planOf(SIMPLE, 'range', { range: { from, to } }))
        const difference = differenceOf(SIMPLE, expected, rows)
        if (difference === null) continue
        throw new CheckFailure({
          what: `a range of time gives other rows than it holds: ${describeDifference(difference)}`,
          where: `read range from ${from ?? 'the beginning'} to ${to ?? 'the end'}`,
          why: 'a range holds its first instant and not its last, so that neighbours share no row',
          remedy: 'Compare from <= time and time < to, to the microsecond, in UTC.',
        })
      }
      expect(excluded > 0, () => vacuous('no range left a row out'))
    },
  },
  {
    id: 106,
    name: 'chunk-boundary-dst-leap-second',
    level: 'core',
    requires: [operation('range')],
    async run(context) {
      const dataset = await spread(context)
      const { rows } = await answerOf(context.store, dataset.target, planOf(SIMPLE, 'range'))
      const times = rows.map(([, at]) => String(at))
      const isOrdered = times.every((time, index) => index === 0 || (times[index - 1] ?? '') <= time)
      expect(isOrdered && rows.length === dataset.content.size, () => ({
        what: `a range gave ${rows.length} of ${dataset.content.size} rows, ${isOrdered ? '' : 'not '}in the order of time`,
        where: 'read range without an order',
        why: 'rows of a range come ordered by time',
        remedy: 'Order by the time column, then by the key.',
      }))
    },
  },
  {
    id: 107,
    name: 'default-time-column-first-date',
    level: 'core',
    requires: [operation('range')],
    async run(context) {
      const columns = SIMPLE.columns.map((column) => ({ ...column }))
      const later = { name: 'later', type: 'timestamptz', nullable: true } as const
      const schema: TableSchema = { ...SIMPLE, columns: [...columns, later] }
      const dataset = await context.dataset(schema, { defaultTimeColumn: true })
      const rows = rowsOf(schema, 1, 12, context.random).map((row, index) =>
        changed(schema, row, { at: INSTANTS[index] ?? '', later: INSTANTS.at(-1 - index) ?? '' }),
      )
      await dataset.full(rows)
      const [from, to] = [INSTANTS[3] ?? null, INSTANTS[8] ?? null]
      const expected = rows.filter(([, at]) => String(at) >= String(from) && String(at) < String(to))
      const given = (await answerOf(context.store, dataset.target, planOf(schema, 'range', { range: { from, to } })))
        .rows
      const difference = differenceOf(schema, expected, given)
      expect(difference === null && expected.length > 0 && expected.length < rows.length, () => ({
        what: `a range goes by another column: ${difference ? describeDifference(difference) : vacuous('').why}`,
        where: 'read range of an endpoint that names no time_column',
        why: 'without a name the first column of a date or timestamp type is the time',
        remedy: 'Take the first of the schema’s order.',
      }))
    },
  },
  {
    id: 111,
    name: 'interval-parser',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const dataset = await spread(context)
      await expectAggregates(context, dataset)
      const { plugin } = context
      const wish = (interval: string) => ({ aggregates: [{ interval, columns: ['rank'] }] })
      const problemsWith = (interval: string) =>
        plugin.checkConfig?.(context.targetFor(SIMPLE, wish(interval)).config, SIMPLE) ?? []
      for (const interval of ['1 day', '2 weeks', '1 month', '6 hours']) {
        expect(problemsWith(interval).length === 0, () => misread(`${interval} is refused`))
      }
      for (const interval of ['', 'day', '0 days', '-1 day', '1.5 days', '1 fortnight', 'P1D', '1 day; drop']) {
        const isFound = problemsWith(interval).some(({ pointer }) => pointer.startsWith('/continuous_aggregates'))
        expect(isFound, () => misread(`${JSON.stringify(interval)} is accepted`))
      }
    },
  },
  {
    id: 108,
    name: 're-run-same-epoch-appends-nothing',
    level: 'core',
    requires: [operation('range')],
    async run(context) {
      const dataset = await spread(context)
      const write = await dataset.prepare({ mode: 'delta', upserts: rowsOf(SIMPLE, 100, 5, context.random) })
      for (let time = 0; time < 3; time += 1) await dataset.apply(write)
      await dataset.expectRows('the same epoch three times appends its rows once', undefined, { way: 'range' })
      const moved = [...dataset.content.values()]
        .slice(0, 2)
        .map((row) => changed(SIMPLE, row, { at: INSTANTS[2] ?? '' }))
      await dataset.delta(moved)
      await dataset.expectRows('a row whose time changes moves, and is not there twice', undefined, { way: 'range' })
    },
  },
  {
    id: 109,
    name: 'late-row-updates-aggregate',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const dataset = await spread(context)
      await expectAggregates(context, dataset)
      const [row = []] = rowsOf(SIMPLE, 200, 1, context.random)
      await dataset.delta([changed(SIMPLE, row, { at: INSTANTS[1] ?? '', rank: 40, amount: '0.01', name: 'zz' })])
      await expectAggregates(context, dataset)
      const rows = [...dataset.content.values()]
      await dataset.delta(
        rows.slice(0, 1).map((one) => changed(SIMPLE, one, { at: INSTANTS[10] ?? '' })),
        rows.slice(3, 5),
      )
      await expectAggregates(context, dataset)
      await dataset.full(rows.slice(5))
      await expectAggregates(context, dataset)
    },
  },
  {
    id: 110,
    name: 'aggregate-equals-raw-recompute',
    level: 'core',
    requires: [operation('aggregate')],
    async run(context) {
      const dataset = await spread(context)
      for (const range of bounds(context)) await expectAggregates(context, dataset, range)
    },
  },
]

/** A row at each of the instants and some more around, aggregates kept. */
async function spread(context: CheckContext): Promise<Dataset> {
  const aggregates = INTERVALS.map((interval) => ({ interval, columns: MEASURED }))
  const dataset = await context.dataset(SIMPLE, { aggregates })
  const rows = rowsOf(SIMPLE, 1, INSTANTS.length * 3, context.random)
  await dataset.full(rows.map((row, index) => changed(SIMPLE, row, { at: INSTANTS[index % INSTANTS.length] ?? '' })))
  return dataset
}

function misread(what: string) {
  return {
    what: `as the interval of an aggregate, ${what}`,
    where: 'plugin.checkConfig',
    why: 'a wrong interval has to be found when it is written',
    remedy: 'Use parseInterval of the SDK, and point to the interval that cannot be read.',
  }
}

type Bounds = readonly [from: string | null, to: string | null]

function bounds({ random }: CheckContext): readonly Bounds[] {
  const edges: Bounds[] = INSTANTS.map((instant) => [instant, null])
  const pairs = Array.from({ length: 10 }, (): Bounds => {
    const [from = null, to = null] = [random.pick(INSTANTS), random.pick(INSTANTS)].sort()
    return [from, to]
  })
  return [[null, null], ...edges, ...INSTANTS.map((instant): Bounds => [null, instant]), ...pairs]
}

async function expectAggregates(context: CheckContext, dataset: Dataset, range: Bounds = [null, null]): Promise<void> {
  for (const interval of INTERVALS) {
    const stored = storedFor(dataset)
    const schema = aggregateSchema(stored, interval)
    const [from, to] = range
    const policy = openPolicy(SIMPLE)
    const visibleColumns = [...policy.visibleColumns, ...schema.columns.map((column) => column.name)]
    const parts = { interval, range: { from, to }, policy: { ...policy, visibleColumns } }
    const plan = planOf(schema, 'aggregate', parts)
    const { rows } = await answerOf(context.store, dataset.target, plan)
    const expected = aggregateRows(stored, [...dataset.content.values()], plan)
    expect(from !== null || to !== null || expected.length > 1, () => vacuous('the aggregate has one line'))
    const difference = aggregateDifference(schema, expected, rows)
    if (difference === null) continue
    throw new CheckFailure({
      what: `the aggregate of ${interval} differs from its rows: ${difference}`,
      where: `read aggregate from ${from ?? 'the beginning'} to ${to ?? 'the end'}, epoch ${dataset.epoch}`,
      why: 'a kept aggregate equals what its rows give, late, changed and deleted ones included',
      remedy: 'Recompute the intervals of every touched row, by its old and by its new time.',
    })
  }
}

function storedFor(dataset: Dataset): Parameters<typeof aggregateSchema>[0] {
  const config = {
    time_column: 'at',
    continuous_aggregates: INTERVALS.map((interval) => ({ interval, columns: MEASURED })),
  }
  return {
    tenant: '',
    schema: dataset.target.schema,
    config,
    policy: null,
    fence: 0n,
    contents: [],
    servedEpoch: null,
  }
}

function aggregateDifference(schema: TableSchema, expected: readonly Row[], given: readonly Row[]): string | null {
  const lines = new Map(given.map((row) => [row[0], row]))
  if (lines.size !== expected.length || given.length !== expected.length) {
    return `${given.length} lines instead of ${expected.length}`
  }
  for (const row of expected) {
    for (const [index, { name, type }] of schema.columns.entries()) {
      const [wanted = null, found = null] = [row[index], lines.get(row[0] ?? null)?.[index]]
      if (!isClose(type, wanted, found))
        return `${shown(row[0] ?? null)} ${name}: ${shown(found)} instead of ${shown(wanted)}`
    }
  }
  return null
}

/** Averages may differ in the last digits, by the order in which they were added. */
function isClose(type: string, wanted: Value, found: Value): boolean {
  if (type !== 'double' || typeof wanted !== 'number' || typeof found !== 'number') return wanted === found
  return Math.abs(wanted - found) <= 1e-9 * Math.max(1, Math.abs(wanted))
}
