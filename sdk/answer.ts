/** The meaning of a read plan over rows in memory: an oracle for tests, and enough for stores that fetch candidates. */
import { SluiceError } from './errors.ts'
import { compareAs, rowPasses } from './policy.ts'
import type { Filter, ReadPlan } from './read-plan.ts'
import type { LogicalType, Row, TableSchema, Value } from './schema.ts'

export interface OrderPart {
  readonly column: string
  readonly type: LogicalType
  readonly direction: 'asc' | 'desc'
}

/**
 * The order of a plan's rows, made total: what was asked for, then `then` (the time column of a range), then the key;
 * where rows have no key, every column.
 */
export function totalOrder(plan: ReadPlan, schema: TableSchema, then: readonly string[] = []): readonly OrderPart[] {
  const key = schema.primaryKey.length > 0 ? schema.primaryKey : schema.columns.map(({ name }) => name)
  const rest = [...then, ...key].map((column) => ({ column, direction: 'asc' as const }))
  return [...plan.orderBy, ...rest].map(({ column, direction }) => ({
    column,
    direction,
    type: typeOf(schema, column),
  }))
}

/** Throws INVALID_DATA `invalid_cursor` for a position that no row of this order can have. */
export function checkPosition(position: readonly Value[], order: readonly OrderPart[]): void {
  const fits = position.length === order.length && position.every((value, part) => isOfType(value, order[part]?.type))
  if (fits) return
  throw new SluiceError('INVALID_DATA', 'the cursor does not belong to this read', {
    code: 'invalid_cursor',
    remedy: 'Begin again from the first page.',
  })
}

/** Where the row stands in the order: what `ReadBatch.next` holds. */
export function positionOf(row: Row, schema: TableSchema, order: readonly OrderPart[]): readonly Value[] {
  return order.map(({ column }) => cellOf(row, schema, column))
}

/** Whether the filter lets the row pass; a null never matches. */
export function filterPasses({ column, operator, values }: Filter, schema: TableSchema, row: Row): boolean {
  const cell = cellOf(row, schema, column)
  if (cell === null) return false
  const orders = values.map((value) => compareAs(typeOf(schema, column), cell, value))
  const [order = Number.NaN] = orders
  const outcomes = { eq: order === 0, ne: order !== 0, lt: order < 0, le: order <= 0, gt: order > 0, ge: order >= 0 }
  return operator === 'in' ? orders.includes(0) : outcomes[operator]
}

export interface AnsweredRows {
  /** Whole rows of the page, not projected. */
  readonly rows: readonly Row[]
  /** Absent at the end. */
  readonly next?: readonly Value[]
}

/**
 * The page of the plan: the policy's rows that pass the filters, in the plan's total order, after its position, at
 * most its limit. Does not look at the operation; `checkReadPlan` comes first.
 */
export function answerFromRows(
  plan: ReadPlan,
  schema: TableSchema,
  rows: Iterable<Row>,
  then: readonly string[] = [],
): AnsweredRows {
  const order = totalOrder(plan, schema, then)
  if (plan.after) checkPosition(plan.after, order)
  const { after, policy } = plan
  const passes = (row: Row) =>
    plan.filters.every((filter) => filterPasses(filter, schema, row)) &&
    rowPasses(policy.rows, schema, row, policy.claims) &&
    (after === undefined || comparePositions(order, positionOf(row, schema, order), after) > 0)
  const found = [...rows].filter(passes).map((row) => ({ row, position: positionOf(row, schema, order) }))
  found.sort((left, right) => comparePositions(order, left.position, right.position))
  const page = found.slice(0, plan.limit)
  const last = page.at(-1)
  return { rows: page.map(({ row }) => row), ...(found.length > page.length && last ? { next: last.position } : {}) }
}

/** The row's values in the order of the plan's columns. */
export function projectRow(row: Row, schema: TableSchema, columns: readonly string[]): Row {
  return columns.map((column) => cellOf(row, schema, column))
}

function cellOf(row: Row, schema: TableSchema, name: string): Value {
  return row[schema.columns.findIndex((column) => column.name === name)] ?? null
}

function typeOf(schema: TableSchema, name: string): LogicalType {
  return schema.columns.find((column) => column.name === name)?.type ?? 'string'
}

function comparePositions(order: readonly OrderPart[], left: readonly Value[], right: readonly Value[]): number {
  for (const [part, { type, direction }] of order.entries()) {
    const result = compareCells(type, left[part] ?? null, right[part] ?? null)
    if (result !== 0) return direction === 'asc' ? result : -result
  }
  return 0
}

/** Null stands above every value. */
function compareCells(type: LogicalType, left: Value, right: Value): number {
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1
  return compareAs(type, left, right)
}

function isOfType(value: Value, type: LogicalType | undefined): boolean {
  if (value === null) return true
  if (type === 'boolean') return typeof value === 'boolean'
  if (type === 'long') return typeof value === 'bigint'
  if (type === 'integer' || type === 'float' || type === 'double') return typeof value === 'number'
  return type === 'binary' ? value instanceof Uint8Array : typeof value === 'string'
}
