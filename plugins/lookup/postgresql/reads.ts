/** A lookup's read plan as one page. */
import {
  checkReadPlan,
  type LogicalType,
  type Ordering,
  physicalName,
  type ReadPlan,
  type ReadPolicy,
  SluiceError,
  type Target,
  unsupported,
} from '@sluice/sdk'
import {
  boundText,
  checkColumns,
  type DatasetKey,
  filterCondition,
  type Lane,
  type OrderTerm,
  type PageParts,
  Parameters,
  type PointShape,
  parameterText,
  policyCondition,
  servedColumn,
} from '../row-secured-postgresql/index.ts'
import { CAPABILITIES } from './capabilities.ts'
import type { LookupConfig } from './config.ts'
import { datasetKey, type Layout, layoutOf } from './layout.ts'

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
  const conditions = plan.filters.map((filter) => filterCondition(filter, layout.served, parameters))
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

/** A read of one row by its key. */
export interface PointRead {
  readonly shape: PointShape
  /** The key in the one notation that its column's own text has. */
  readonly key: string
}

const shapes = new WeakMap<Target<LookupConfig>, WeakMap<ReadPolicy, Map<string, PointShape>>>()

/** Of one dataset and policy, since clients choose the columns; they go with these, which the runtime makes anew every few seconds. */
const MAX_SHAPES = 20

/**
 * Where all that the plan filters by is the key, and that is one column; null for others, and for what is to be refused. What is
 * the same for all such reads is judged and worked out once: it hangs on the dataset and its shape (`target`), on what the
 * reader may see and of which rows (`policy`), and on what is asked for (the columns, the operation, the encoding), and so it
 * is remembered by these. The runtime makes a policy object for each reader and state of the product, and never changes one.
 */
export function pointOf(plan: ReadPlan, target: Target<LookupConfig>): PointRead | null {
  const [filter] = plan.filters
  const value = filter?.values[0]
  const { limit, policy } = plan
  if (filter === undefined || value === undefined || policy === undefined || plan.filters.length !== 1) return null
  if (filter.operator !== 'eq' || filter.values.length !== 1 || plan.orderBy.length > 0) return null
  if (plan.history !== undefined || plan.after !== undefined) return null
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > CAPABILITIES.limits.maxReadRows) return null
  const layout = layoutOf(target.schema, target.config)
  const [key] = layout.key
  if (key === undefined || layout.key.length !== 1 || key.name !== filter.column) return null
  if (!hasOneNotation(key.type)) return null
  // Judged first: what may not be asked is refused as that, whatever the value is.
  const shape = shapeOf(plan, target, layout)
  return { shape, key: notationOf(key.type, boundText(key.name, key.type, value)) }
}

function shapeOf(plan: ReadPlan, target: Target<LookupConfig>, layout: Layout): PointShape {
  let ofTarget = shapes.get(target)
  if (ofTarget === undefined) shapes.set(target, (ofTarget = new WeakMap()))
  let ofPolicy = ofTarget.get(plan.policy)
  if (ofPolicy === undefined) ofTarget.set(plan.policy, (ofPolicy = new Map()))
  const columns = plan.columns === plan.policy.visibleColumns ? 'all' : JSON.stringify(plan.columns)
  const name = `${plan.operation} ${plan.encoding} ${columns}`
  const known = ofPolicy.get(name)
  if (known !== undefined) return known
  const made = makeShape(plan, target, layout)
  if (ofPolicy.size >= MAX_SHAPES) ofPolicy.clear()
  ofPolicy.set(name, made)
  return made
}

function makeShape(plan: ReadPlan, target: Target<LookupConfig>, layout: Layout): PointShape {
  checkPlan(plan, layout)
  const key = datasetKey(target)
  const schema = physicalName(target.domain)
  const parameters = new Parameters()
  const parts = describePage({ ...plan, filters: [] }, layout, key, schema, parameters)
  const column = servedColumn(layout.served, plan.filters[0]?.column ?? '')
  return { key, schema, column, parts: { ...parts, order: [] }, values: parameters.values }
}

/** Whose values have one text each, by which a key is told from another one. */
function hasOneNotation(type: LogicalType): boolean {
  return type === 'string' || type === 'integer' || type === 'long'
}

/** As PostgreSQL writes the value. */
function notationOf(type: LogicalType, text: string): string {
  return type === 'string' ? text : BigInt(text).toString()
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
