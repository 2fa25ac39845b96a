import {
  batchFromRows,
  checkPosition,
  checkReadPlan,
  notMaterialized,
  type ReadBatch,
  type ReadPlan,
  type Row,
  SluiceError,
  type TableSchema,
  type Target,
  totalOrder,
  type Value,
} from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { type Cell, fromCell } from './cells.ts'
import type { Database, Found } from './database.ts'
import { columnOf, type Dataset, datasetOf, rowsTable } from './datasets.ts'
import type { Config } from './index.ts'
import { checkAborted } from './staging.ts'
import { afterSql, allOf, filterSql, orderSql, predicateSql, type SqlOrderPart } from './where.ts'

/** The page and its epoch, in one transaction. */
export function readPage(database: Database, target: Target<Config>, plan: ReadPlan): ReadBatch {
  checkReadPlan(plan, capabilities)
  checkAborted(plan.signal)
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  return database.transaction('DEFERRED', () => {
    const dataset = datasetOf(database, target)
    if (dataset.applied === null) throw notMaterialized()
    const { rows, next } = pageOf(database, dataset, plan)
    return { ...batchFromRows(rows, plan.columns.length), epoch: dataset.applied.epoch, ...(next ? { next } : {}) }
  })
}

function pageOf(
  database: Database,
  dataset: Dataset<Config>,
  plan: ReadPlan,
): { rows: readonly Row[]; next?: readonly Value[] } {
  const { schema, policy } = dataset
  const order = sqlOrder(plan, schema)
  if (plan.after)
    checkPosition(
      plan.after,
      order.map((part) => ({ ...part, column: part.name })),
    )
  // Without a policy there are no rows, whatever was written.
  if (policy === null) return { rows: [] }
  const where = allOf([
    predicateSql(plan.policy.rows, schema, plan.policy.claims),
    ...plan.filters.map((filter) => filterSql(filter, schema)),
    ...(plan.after ? [afterSql(order, plan.after)] : []),
  ])
  const names = [...new Set([...plan.columns.map((name) => columnOf(schema, name)), ...order.map(({ name }) => name)])]
  const found = database.all(
    `SELECT ${names.join(', ')} FROM ${rowsTable(dataset)} WHERE ${where.text} ORDER BY ${orderSql(order)} LIMIT ?`,
    ...where.values,
    BigInt(plan.limit + 1),
  )
  const page = found.slice(0, plan.limit)
  const last = page.at(-1)
  return {
    rows: page.map((row) => plan.columns.map((name) => valueOf(row, columnOf(schema, name), typeOf(schema, name)))),
    ...(found.length > page.length && last ? { next: order.map(({ name, type }) => valueOf(last, name, type)) } : {}),
  }
}

/** Rows without a key may be equal in every column: SQLite's own number of a row tells them apart. */
function sqlOrder(plan: ReadPlan, schema: TableSchema): readonly SqlOrderPart[] {
  const order = totalOrder(plan, schema).map(({ column, type, direction }) => ({
    name: columnOf(schema, column),
    type,
    direction,
  }))
  return schema.primaryKey.length > 0 ? order : [...order, { name: 'rowid', type: 'long', direction: 'asc' }]
}

function typeOf(schema: TableSchema, name: string) {
  return schema.columns.find((column) => column.name === name)?.type ?? 'string'
}

function valueOf(found: Found, name: string, type: SqlOrderPart['type']): Value {
  return fromCell((found[name] ?? null) as Cell, type)
}
