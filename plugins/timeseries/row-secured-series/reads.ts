/** A timeseries' read plan as one page: rows of a range, or the aggregate of one. */
import {
  boundText,
  checkColumns,
  type DatasetKey,
  filterCondition,
  type Lane,
  type OrderTerm,
  type Page,
  type PageParts,
  type Parameters,
  policyCondition,
  type ServedColumn,
  type ServedColumns,
  servedColumn,
} from '@sluice/lookup/row-secured-postgresql'
import {
  type Column,
  checkReadPlan,
  intervalEndMs,
  intervalStartMs,
  type Ordering,
  type ReadKind,
  type ReadPlan,
  SluiceError,
  type TableSchema,
  type TimeRange,
} from '@sluice/sdk'
import { groupedRows } from './aggregates.ts'
import { type ParsedTime, parseTime } from './buckets.ts'
import { CAPABILITIES } from './capabilities.ts'
import type { TimeseriesConfig } from './config.ts'
import { type AggregateLayout, type Layout, layoutOf } from './layout.ts'

/** Larger answers do not go where point reads queue. */
const FAST_ROWS = 1000

/** The aggregate of the plan's interval; null for an operation that reads rows. */
export function aggregateOf(plan: ReadPlan, layout: Layout): AggregateLayout | null {
  if (plan.operation !== 'aggregate') return null
  const found = layout.aggregates.find((aggregate) => aggregate.interval === plan.interval)
  if (found) return found
  throw new SluiceError('INVALID_DATA', 'no aggregate of this interval is kept', {
    code: 'unknown_interval',
    remedy: 'Name an interval of continuous_aggregates, as serving.yaml has it.',
    details: { intervals: layout.aggregates.map((aggregate) => aggregate.interval) },
  })
}

export function checkPlan(plan: ReadPlan, served: ServedColumns): void {
  if (!plan.policy) return
  checkReadPlan(plan, CAPABILITIES)
  checkColumns(plan, served, (name) => name)
}

/** An aggregate is kept over all rows: a reader of some of them gets it computed from those. */
export function isKeptFor(plan: ReadPlan): boolean {
  return !plan.policy || plan.policy.rows.op === 'all' || plan.policy.rows.op === 'none'
}

/**
 * What the index by time gives directly, and little of it.
 * @param isPlannedOnce whether a plan that is kept leaves out the rows' partitions by the values that it is run with
 */
export function laneOf(plan: ReadPlan, time: string, isPlannedOnce: boolean): Lane {
  const bounded = plan.range?.from != null && plan.range.to != null
  const byTime = plan.orderBy.every((order) => order.column === time)
  const isQuick = bounded && byTime && plan.filters.length === 0 && isKeptFor(plan) && plan.limit <= FAST_ROWS
  if (!isQuick) return 'slow'
  return plan.operation === 'aggregate' || isPlannedOnce ? 'fast' : 'fast-custom'
}

export function describeRows(
  plan: ReadPlan,
  layout: Layout,
  key: DatasetKey,
  schema: string,
  parameters: Parameters,
): PageParts {
  const conditions = commonConditions(plan, layout.served, parameters)
  const policy = policyCondition(plan.policy, layout.served, parameters)
  if (policy !== null) conditions.push(policy)
  if (plan.range) conditions.push(...timeConditions(plan.range, layout, parameters))
  return { ...commonParts(plan, layout.served, layout.order), key, schema, conditions }
}

export function describeAggregate(
  plan: ReadPlan,
  layout: Layout,
  aggregate: AggregateLayout,
  key: DatasetKey,
  schema: string,
  parameters: Parameters,
): PageParts {
  const order = aggregate.served.get('bucket')
  const parts = commonParts(plan, aggregate.served, order ? [order] : [])
  const conditions = commonConditions(plan, aggregate.served, parameters)
  const span = wholeBuckets(plan.range ?? { from: null, to: null }, aggregate)
  if (isKeptFor(plan)) {
    if (!plan.policy || plan.policy.rows.op === 'none') conditions.push('false')
    for (const [operator, instant] of span) {
      conditions.push(`t.bucket ${operator} ${parameters.add(instant, 'timestamptz')}`)
    }
    return { ...parts, key, schema, conditions }
  }
  const policy = policyCondition(plan.policy, layout.served, parameters) ?? 'true'
  const tenant = parameters.add(key.tenant, 'text')
  const times = span.map(([operator, instant]) => timeCondition(layout, operator, instant, parameters))
  const where = [`t.tenant_id = ${tenant}`, policy, ...times].join(' and ')
  const source = (parent: string) => `(${groupedRows(layout, aggregate, `${parent} t`, where, ['t.tenant_id'])})`
  return { ...parts, key, schema, conditions, source }
}

function commonParts(
  plan: ReadPlan,
  served: ServedColumns,
  tieBreak: readonly ServedColumn[],
): Pick<Page, 'columns' | 'order' | 'limit' | 'after' | 'encoding'> {
  return {
    columns: plan.policy ? plan.columns.map((name) => servedColumn(served, name)) : [],
    order: orderOf(plan.orderBy, served, tieBreak),
    limit: plan.limit,
    after: plan.after,
    encoding: plan.encoding,
  }
}

function orderOf(
  orderBy: readonly Ordering[],
  served: ServedColumns,
  tieBreak: readonly ServedColumn[],
): readonly OrderTerm[] {
  const named = orderBy.map(({ column, direction }) => ({ column: servedColumn(served, column), direction }))
  const rest = tieBreak.filter((column) => !orderBy.some((order) => order.column === column.name))
  return [...named, ...rest.map((column): OrderTerm => ({ column, direction: 'asc' }))]
}

function commonConditions(plan: ReadPlan, served: ServedColumns, parameters: Parameters): string[] {
  return plan.filters.map((filter) => filterCondition(filter, served, parameters))
}

/** Half-open. */
function timeConditions(range: TimeRange, layout: Layout, parameters: Parameters): readonly string[] {
  const bound = (operator: string, value: string | null) => {
    if (value === null) return []
    const text = boundText(layout.time.name, layout.time.type, value)
    return [`t.${layout.time.sql} ${operator} ${parameters.add(text, layout.time.type)}`]
  }
  return [...bound('>=', range.from), ...bound('<', range.to)]
}

/** Compares the rows' time with the edge of a bucket. */
function timeCondition(layout: Layout, operator: string, instant: string, parameters: Parameters): string {
  const { type, sql } = layout.time
  const text = type === 'date' ? instant.slice(0, 10) : type === 'timestamp' ? instant.slice(0, -1) : instant
  return `t.${sql} ${operator} ${parameters.add(text, type)}`
}

/** The whole buckets that touch the range, as conditions on their starts, which hold for the rows in them too. */
function wholeBuckets(range: TimeRange, aggregate: AggregateLayout): readonly (readonly [string, string])[] {
  const found: (readonly [string, string])[] = []
  if (range.from !== null) found.push(['>=', instantText(intervalStartMs(aggregate.every, timeOf(range.from).ms))])
  if (range.to !== null) {
    const { ms, rest } = timeOf(range.to)
    const start = intervalStartMs(aggregate.every, ms)
    found.push(['<', instantText(start === ms && !rest ? ms : intervalEndMs(aggregate.every, ms))])
  }
  return found
}

function timeOf(text: string): ParsedTime {
  const parsed = parseTime(text)
  if (parsed) return parsed
  throw new SluiceError('INVALID_DATA', 'a bound of the range is no time', {
    code: 'invalid_value',
    remedy: 'Write it as 2026-01-31 or 2026-01-31T12:00:00Z.',
  })
}

function instantText(ms: number): string {
  return new Date(ms).toISOString()
}

/** What a read of this kind gives; null where there is no such read. */
export function readColumns(config: TimeseriesConfig, schema: TableSchema, read: ReadKind): readonly Column[] | null {
  if (read.operation !== 'aggregate') return schema.columns
  const kept = layoutOf(schema, config).aggregates.find((aggregate) => aggregate.interval === read.interval)
  if (!kept) return null
  return [...kept.served.values()].map(({ name, type, nullable }) => ({ name, type, nullable }))
}
