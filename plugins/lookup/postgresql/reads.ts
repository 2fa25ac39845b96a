/** A lookup's read plan as one page. */
import { checkReadPlan, type LogicalType, type Ordering, type ReadPlan, SluiceError, unsupported } from '@sluice/sdk'
import {
  boundText,
  checkColumns,
  type DatasetKey,
  filterCondition,
  type Lane,
  type OrderTerm,
  type PageParts,
  type Parameters,
  type PointKey,
  parameterText,
  policyCondition,
  servedColumn,
} from '../row-secured-postgresql/index.ts'
import { CAPABILITIES } from './capabilities.ts'
import type { Layout } from './layout.ts'

/** Larger answers do not go where point reads queue. */
const FAST_ROWS = 1000

export function checkPlan(plan: ReadPlan, layout: Layout): void {
  if (plan.policy) checkReadPlan(plan, CAPABILITIES)
  if (plan.history && layout.mode !== 'type_2') throw unsupported('history without type_2')
  if (plan.policy) checkColumns(plan, layout.served, trackedOf)
  const other = plan.filters.find((filter) => !layout.filterable.includes(filter.column))
  if (other) throw notIndexed(other.column, layout.filterable)
}

/** `previous_<column>` holds what the column held: where the one is masked, so is the other. */
function trackedOf(name: string): string {
  return name.replace(/^previous_/, '')
}

function notIndexed(column: string, indexed: readonly string[]): SluiceError {
  return new SluiceError('INVALID_DATA', `rows cannot be looked up by "${column}": it is not indexed`, {
    code: 'filter_not_indexed',
    remedy: 'Filter by an indexed column, or add the column to index_columns in serving.yaml.',
    details: { indexed },
  })
}

/** Point reads by an index, of few rows, share the pipelined connections. */
export function laneOf(plan: ReadPlan, layout: Layout): Lane {
  const pinned = plan.filters.some(
    (filter) => (filter.operator === 'eq' || filter.operator === 'in') && layout.indexed.includes(filter.column),
  )
  return pinned && plan.limit <= FAST_ROWS && plan.history?.kind !== 'all' ? 'fast' : 'slow'
}

/** Binds the plan's values and says what page they make. */
export function describePage(
  plan: ReadPlan,
  layout: Layout,
  key: DatasetKey,
  schema: string,
  parameters: Parameters,
): PageParts {
  const point = pointOf(plan, layout)
  const filters = point ? [] : plan.filters
  const conditions = filters.map((filter) => filterCondition(filter, layout.served, parameters))
  const policy = policyCondition(plan.policy, layout.served, parameters)
  if (policy !== null) conditions.push(policy)
  const history = historyCondition(plan, layout, parameters)
  if (history !== null) conditions.push(history)
  const unique = isUnique(plan, layout)
  return {
    key,
    schema,
    conditions,
    columns: plan.policy ? plan.columns.map((name) => servedColumn(layout.served, name)) : [],
    order: unique ? [] : orderOf(plan.orderBy, layout),
    limit: plan.limit,
    ...(point ? { point } : {}),
    after: plan.after,
    encoding: plan.encoding,
  }
}

/** One row at most: the whole key is given, and one state of it is asked for. */
function isUnique(plan: ReadPlan, layout: Layout): boolean {
  if (layout.key.length === 0 || plan.history !== undefined || plan.after !== undefined) return false
  const fixed = new Set(plan.filters.filter((filter) => filter.operator === 'eq').map((filter) => filter.column))
  return layout.key.every((column) => fixed.has(column.name))
}

/** The key, where it is one column that is all the plan filters by. */
function pointOf(plan: ReadPlan, layout: Layout): PointKey | null {
  const [filter] = plan.filters
  const value = filter?.values[0]
  if (!filter || value === undefined || plan.filters.length !== 1 || layout.key.length !== 1) return null
  if (!isUnique(plan, layout)) return null
  const column = servedColumn(layout.served, filter.column)
  const text = canonicalText(column.type, boundText(column.name, column.type, value))
  return text === null ? null : { column, text }
}

/** One text for each value, as PostgreSQL writes it; null for types with several notations. */
function canonicalText(type: LogicalType, text: string): string | null {
  if (type === 'string') return text
  return type === 'integer' || type === 'long' ? BigInt(text).toString() : null
}

function orderOf(orderBy: readonly Ordering[], layout: Layout): readonly OrderTerm[] {
  const named = orderBy.map(({ column, direction }) => ({ column: servedColumn(layout.served, column), direction }))
  const rest = layout.tieBreak.filter((column) => !orderBy.some((order) => order.column === column.name))
  return [...named, ...rest.map((column): OrderTerm => ({ column, direction: 'asc' }))]
}

function historyCondition(plan: ReadPlan, layout: Layout, parameters: Parameters): string | null {
  if (layout.mode !== 'type_2') return null
  const column = (name: string) => servedColumn(layout.served, name).sql
  if (!plan.history) return column('is_current')
  if (plan.history.kind === 'all') return null
  const text = parameterText('timestamptz', plan.history.instant)
  if (text === null) {
    throw new SluiceError('INVALID_DATA', 'the instant of the history is not a time', {
      code: 'invalid_value',
      remedy: 'Write it as 2026-01-31T12:00:00Z.',
    })
  }
  const instant = parameters.add(text, 'timestamptz')
  return `${column('valid_from')} <= ${instant} and (${column('valid_to')} is null or ${column('valid_to')} > ${instant})`
}
