/** From a dataset's content and a plan to the rows of the answer. */
import {
  type Capabilities,
  checkReadPlan,
  columnMasked,
  compareAs,
  type Filter,
  type LogicalType,
  parseKeyTemplate,
  type ReadPlan,
  type Row,
  renderKey,
  rowPasses,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { aggregateRows, aggregateSchema } from './aggregate.ts'
import { timeColumn } from './config.ts'
import type { Content, RowVersion, StoredDataset } from './memory.ts'

export interface Page {
  /** In the order of the plan's columns. */
  readonly rows: readonly Row[]
  readonly types: readonly LogicalType[]
  readonly next?: readonly Value[]
}

/** The page of the plan. Throws as `checkReadPlan` does, and INVALID_DATA `invalid_cursor`. */
export function answer(stored: StoredDataset, content: Content, plan: ReadPlan, capabilities: Capabilities): Page {
  checkReadPlan(plan, capabilities)
  if (plan.operation === 'key') checkKeyColumns(stored, plan)
  const table = stored.policy === null ? emptied(stored) : tableOf(stored, content, plan)
  const selected = table.rows.filter((row) => plan.filters.every((filter) => matches(table.schema, row, filter)))
  if (plan.operation === 'key') return project(table.schema, included(stored, selected.slice(0, 1)), plan)
  const order = totalOrder(table.schema, plan, stored)
  const sorted = selected.sort((left, right) => compareBy(order, left, right))
  const after = plan.after === undefined ? null : checkCursor(plan.after, order)
  const rest = after === null ? sorted : sorted.filter((row) => comparePosition(order, row, after) > 0)
  const page = project(table.schema, rest.slice(0, plan.limit), plan)
  const last = rest[plan.limit - 1]
  return rest.length > plan.limit && last ? { ...page, next: order.map(({ index }) => last[index] ?? null) } : page
}

/** A key over a masked column would tell whether the hidden value is what was guessed. */
function checkKeyColumns({ config }: StoredDataset, { policy }: ReadPlan): void {
  const template = parseKeyTemplate(config.key_template ?? '')
  const parts = 'problem' in template ? [] : template.parts
  const masked = parts.find(({ column }) => policy.maskedColumns.includes(column))
  if (masked) throw columnMasked(masked.column)
}

/** A value holds the included columns; the others read as null. */
function included({ schema, config }: StoredDataset, rows: readonly Row[]): readonly Row[] {
  const { include_columns: names } = config
  if (names === undefined) return rows
  return rows.map((row) => row.map((cell, index) => (names.includes(schema.columns[index]?.name ?? '') ? cell : null)))
}

interface Table {
  readonly schema: TableSchema
  readonly rows: Row[]
}

/** Before a policy is in place there are no rows, whatever was written. */
function emptied(stored: StoredDataset): Table {
  return { schema: fullSchema(stored), rows: [] }
}

function tableOf(stored: StoredDataset, content: Content, plan: ReadPlan): Table {
  const held = content.versions.filter((version) => isSelected(version, plan))
  const allowed = held.filter(({ row }) => rowPasses(plan.policy.rows, stored.schema, row, plan.policy.claims))
  if (plan.operation === 'aggregate') return aggregated(stored, allowed, plan)
  const inRange = plan.operation === 'range' ? allowed.filter((version) => isInRange(stored, version, plan)) : allowed
  const wanted = plan.operation === 'key' ? underKey(stored, inRange, plan.key ?? '') : inRange
  return { schema: fullSchema(stored), rows: wanted.map((version) => fullRow(stored, version)) }
}

function aggregated(stored: StoredDataset, versions: readonly RowVersion[], plan: ReadPlan): Table {
  const rows = versions.map((version) => version.row)
  return { schema: aggregateSchema(stored, plan.interval ?? ''), rows: aggregateRows(stored, rows, plan) }
}

function isSelected(version: RowVersion, plan: ReadPlan): boolean {
  if (plan.history === undefined) return version.validTo === null
  if (plan.history.kind === 'all') return true
  const { instant } = plan.history
  return version.validFrom <= instant && (version.validTo === null || instant < version.validTo)
}

function isInRange(stored: StoredDataset, version: RowVersion, plan: ReadPlan): boolean {
  const time = version.row[stored.schema.columns.findIndex((column) => column.name === timeColumn(stored))]
  if (typeof time !== 'string') return false
  const { from = null, to = null } = plan.range ?? {}
  return (from === null || time >= from) && (to === null || time < to)
}

/** The row that the key names; where several do, the last by primary key. */
function underKey(stored: StoredDataset, versions: readonly RowVersion[], key: string): readonly RowVersion[] {
  const template = parseKeyTemplate(stored.config.key_template ?? '')
  if ('problem' in template) return []
  const { schema } = stored
  const index = new Map(schema.columns.map((column, position) => [column.name, position]))
  const named = versions.filter(
    ({ row }) => renderKey(template, schema, (name) => row[index.get(name) ?? -1] ?? null) === key,
  )
  const order = orderOf(schema, schema.primaryKey)
  return named.sort((left, right) => compareBy(order, right.row, left.row)).slice(0, 1)
}

/** The product's columns and, under a history, those that it adds. */
export function fullSchema({ schema, config }: StoredDataset): TableSchema {
  const added = {
    current: [],
    type_2: [
      { name: 'valid_from', type: 'timestamptz', nullable: false },
      { name: 'valid_to', type: 'timestamptz', nullable: true },
      { name: 'is_current', type: 'boolean', nullable: false },
    ],
    type_3: (config.tracked_columns ?? []).map((name) => ({
      name: `previous_${name}`,
      type: schema.columns.find((column) => column.name === name)?.type ?? 'string',
      nullable: true,
    })),
  } as const
  return { ...schema, columns: [...schema.columns, ...added[config.history_mode ?? 'current']] }
}

function fullRow({ schema, config }: StoredDataset, version: RowVersion): Row {
  const row = schema.columns.map((_, index) => version.row[index] ?? null)
  if (config.history_mode === 'type_2') row.push(version.validFrom, version.validTo, version.validTo === null)
  if (config.history_mode === 'type_3') {
    row.push(...(config.tracked_columns ?? []).map((name) => version.previous[name] ?? null))
  }
  return row
}

function matches(schema: TableSchema, row: Row, filter: Filter): boolean {
  const index = schema.columns.findIndex((column) => column.name === filter.column)
  const cell = row[index] ?? null
  const type = schema.columns[index]?.type ?? 'string'
  if (cell === null) return false
  const orders = filter.values.map((value) => compareAs(type, cell, value))
  const [order = Number.NaN] = orders
  const tests = {
    eq: order === 0,
    ne: order !== 0,
    lt: order < 0,
    le: order <= 0,
    gt: order > 0,
    ge: order >= 0,
    in: orders.includes(0),
  }
  return tests[filter.operator]
}

interface OrderPart {
  readonly index: number
  readonly type: LogicalType
  readonly sign: 1 | -1
}

function orderOf(schema: TableSchema, names: readonly string[]): readonly OrderPart[] {
  return names.map((name) => {
    const index = schema.columns.findIndex((column) => column.name === name)
    return { index, type: schema.columns[index]?.type ?? 'string', sign: 1 }
  })
}

/** The asked order, then time for a range, then the key; without a key, every column there is. */
function totalOrder(schema: TableSchema, plan: ReadPlan, stored: StoredDataset): readonly OrderPart[] {
  const asked = orderOf(
    schema,
    plan.orderBy.map((ordering) => ordering.column),
  ).map((part, index) => ({ ...part, sign: plan.orderBy[index]?.direction === 'desc' ? (-1 as const) : (1 as const) }))
  const byTime = plan.operation === 'range' && asked.length === 0 ? [timeColumn(stored)] : []
  const key = schema.primaryKey.length > 0 ? schema.primaryKey : schema.columns.map((column) => column.name)
  const since = plan.history ? ['valid_from'] : []
  return [...asked, ...orderOf(schema, [...byTime, ...key, ...since])]
}

function compareBy(order: readonly OrderPart[], left: Row, right: Row): number {
  return comparePosition(
    order,
    left,
    order.map(({ index }) => right[index] ?? null),
  )
}

function comparePosition(order: readonly OrderPart[], row: Row, position: readonly Value[]): number {
  for (const [part, { index, type, sign }] of order.entries()) {
    const result = compareCells(type, row[index] ?? null, position[part] ?? null)
    if (result !== 0) return result * sign
  }
  return 0
}

/** Null stands above every value. */
function compareCells(type: LogicalType, left: Value, right: Value): number {
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1
  return compareAs(type, left, right)
}

function checkCursor(after: readonly Value[], order: readonly OrderPart[]): readonly Value[] {
  const fits = after.length === order.length && after.every((value, part) => isOfType(value, order[part]?.type))
  if (fits) return after
  throw new SluiceError('INVALID_DATA', 'the cursor does not belong to this read', {
    code: 'invalid_cursor',
    remedy: 'Begin again from the first page.',
  })
}

function isOfType(value: Value, type: LogicalType | undefined): boolean {
  if (value === null) return true
  if (type === 'boolean') return typeof value === 'boolean'
  if (type === 'long') return typeof value === 'bigint'
  if (type === 'integer' || type === 'float' || type === 'double') return typeof value === 'number'
  return type === 'binary' ? value instanceof Uint8Array : typeof value === 'string'
}

function project(schema: TableSchema, rows: readonly Row[], plan: ReadPlan): Page {
  const indexes = plan.columns.map((name) => schema.columns.findIndex((column) => column.name === name))
  const types = indexes.map((index) => schema.columns[index]?.type ?? 'string')
  return { rows: rows.map((row) => indexes.map((index) => row[index] ?? null)), types }
}
