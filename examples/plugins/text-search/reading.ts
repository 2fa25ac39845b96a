/** Plain reads. They serve to look at rows and to compare them, so the SDK answers them, from rows that SQLite narrows down. */
import {
  answerFromRows,
  batchFromRows,
  type Clock,
  checkReadPlan,
  filterPasses,
  notMaterialized,
  projectRow,
  type ReadBatch,
  type ReadPlan,
  type Row,
  rowPasses,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { type Cell, fromCell, toCell } from 'sluice-lookup-sqlite/cells'
import type { Database, Found } from 'sluice-lookup-sqlite/database'
import { allColumns, columnOf, datasetOf, rowsTable } from 'sluice-lookup-sqlite/datasets'
import { checkAborted } from 'sluice-lookup-sqlite/staging'
import { capabilities } from './capabilities.ts'
import type { Config } from './config.ts'
import type { Searched } from './provisioning.ts'

/** No column of a product is called so. */
const NUMBER = '\0number'

/** Rows without a key may be equal in every column: SQLite's own number of a row tells them apart. */
export function withIdentity(schema: TableSchema): TableSchema {
  if (schema.primaryKey.length > 0) return schema
  const columns = [...schema.columns, { name: NUMBER, type: 'long', nullable: false } as const]
  return { columns, primaryKey: [NUMBER] }
}

/** How the columns of the identity are called in SQLite. */
export function identityColumns({ schema }: Searched): readonly string[] {
  return withIdentity(schema).primaryKey.map((name) => (name === NUMBER ? 'id' : columnOf(schema, name)))
}

/** A row of the schema with identity. */
export function rowFrom(found: Found, { schema }: Searched): Row {
  return withIdentity(schema).columns.map(({ name, type }) =>
    fromCell((found[name === NUMBER ? 'id' : columnOf(schema, name)] ?? null) as Cell, type),
  )
}

/** The page and its epoch, in one transaction. */
export function readPage(database: Database, clock: Clock, target: Target<Config>, plan: ReadPlan): ReadBatch {
  checkReadPlan(plan, capabilities)
  const check = checkpoint(clock, plan)
  return database.transaction('DEFERRED', () => {
    const dataset = datasetOf(database, target)
    if (dataset.applied === null) throw notMaterialized()
    const schema = withIdentity(dataset.schema)
    // Without a policy there are no rows, whatever was written.
    const rows = dataset.policy === null ? [] : candidates(database, dataset, plan, check)
    const { rows: page, next } = answerFromRows(plan, schema, rows)
    const projected = page.map((row) => projectRow(row, schema, plan.columns))
    const batch = batchFromRows(projected, plan.columns.length)
    return { ...batch, epoch: dataset.applied.epoch, ...(next ? { next } : {}) }
  })
}

/** All rows that may stand on the page. In the order of the key those are few: what comes after, until the page is full. */
function* candidates(database: Database, dataset: Searched, plan: ReadPlan, check: () => void): Generator<Row> {
  const schema = withIdentity(dataset.schema)
  const identity = identityColumns(dataset)
  const isInOrder = plan.orderBy.length === 0
  const { conditions, values } = narrowing(schema, identity, plan)
  const passes = (row: Row) =>
    rowPasses(plan.policy.rows, schema, row, plan.policy.claims) &&
    plan.filters.every((filter) => filterPasses(filter, schema, row))
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
  const sql = `SELECT id, ${allColumns(dataset.schema).join(', ')} FROM ${rowsTable(dataset)}${where} ORDER BY ${identity.join(', ')}`
  let passed = 0
  for (const found of database.each(sql, ...values)) {
    check()
    const row = rowFrom(found, dataset)
    if (!passes(row)) continue
    yield row
    passed += 1
    if (isInOrder && passed > plan.limit) return
  }
}

function narrowing(schema: TableSchema, identity: readonly string[], plan: ReadPlan) {
  const conditions: string[] = []
  const values: Cell[] = []
  for (const [index, name] of schema.primaryKey.entries()) {
    const filter = plan.filters.find(({ column, operator }) => column === name && operator === 'eq')
    if (filter === undefined) continue
    conditions.push(`${identity[index]} = ?`)
    values.push(toCell(filter.values[0] ?? null, typeOf(schema, name)))
  }
  if (plan.after?.length === identity.length && plan.orderBy.length === 0) {
    conditions.push(afterKey(identity))
    values.push(...plan.after.map((value, index) => toCell(value, typeOf(schema, schema.primaryKey[index] ?? ''))))
  }
  return { conditions, values }
}

/** No column of a key is null, so rows of values compare as the contract's order does. */
export function afterKey(identity: readonly string[]): string {
  return `(${identity.join(', ')}) > (${identity.map(() => '?').join(', ')})`
}

export function typeOf(schema: TableSchema, name: string) {
  return schema.columns.find((column) => column.name === name)?.type ?? 'string'
}

/** To be called before each row: SQLite answers in this thread, where nothing else can end a call. */
export function checkpoint(clock: Clock, { signal, timeoutMs }: Pick<ReadPlan, 'signal' | 'timeoutMs'>): () => void {
  const endMs = clock.nowMs() + timeoutMs
  const check = () => {
    checkAborted(signal)
    if (clock.nowMs() < endMs) return
    const remedy = 'Ask for less, or try again.'
    throw new SluiceError('TRANSIENT', 'the call took too long', { code: 'deadline_exceeded', remedy })
  }
  check()
  return check
}
