import { isDeepStrictEqual } from 'node:util'
import { type PlanStep, schemaConflict, type TableSchema, type Target } from '@sluice/sdk'
import type { Database } from './database.ts'
import {
  addressOf,
  allColumns,
  columnOf,
  type Dataset,
  findDataset,
  growsInto,
  keyColumns,
  rowsTable,
} from './datasets.ts'
import type { Config } from './index.ts'

/** What is to be done; throws CONFLICT `schema_conflict` where the rows do not fit. */
export function provisionSteps(database: Database, target: Target<Config>): readonly PlanStep[] {
  const dataset = findDataset(database, target)
  const name = `${target.domain}.${target.product}`
  if (dataset === null) return [{ action: 'create', description: `make a table for ${name}` }]
  if (!growsInto(dataset.schema, target.schema)) throw schemaConflict()
  const steps: PlanStep[] = []
  if (!isDeepStrictEqual(dataset.schema, target.schema)) {
    steps.push({ action: 'alter', description: `add the new columns of ${name}` })
  }
  if (!isDeepStrictEqual(dataset.config, target.config)) {
    steps.push({ action: 'replace', description: `make the indexes of ${name} anew` })
  }
  return steps
}

/** In one transaction with the steps that were planned. */
export function applyProvision(database: Database, target: Target<Config>): void {
  const { schema, config } = target
  const former = findDataset(database, target)
  if (former === null) {
    database.change(
      'INSERT INTO datasets (tenant, domain, product, variant, schema, config) VALUES (?, ?, ?, ?, ?, ?)',
      ...addressOf(target),
      JSON.stringify(schema),
      JSON.stringify(config),
    )
    const made = findDataset(database, target)
    if (!made) return
    database.run(`CREATE TABLE ${rowsTable(made)} (${definitionOf(schema)})`)
    makeIndexes(database, made)
    return
  }
  for (let index = former.schema.columns.length; index < schema.columns.length; index += 1) {
    database.run(`ALTER TABLE ${rowsTable(former)} ADD COLUMN c${index}`)
  }
  const texts = [JSON.stringify(schema), JSON.stringify(config)]
  database.change('UPDATE datasets SET schema = ?, config = ? WHERE id = ?', ...texts, former.id)
  makeIndexes(database, { ...former, schema, config })
}

/** Columns go by number and have no affinity: `cells.ts` decides how a value is kept. */
export function definitionOf(schema: TableSchema): string {
  const key = keyColumns(schema)
  return [...allColumns(schema), ...(key.length > 0 ? [`PRIMARY KEY (${key.join(', ')})`] : [])].join(', ')
}

/** Columns of the key go along, so that an order by one of them is total without a sort. */
function makeIndexes(database: Database, dataset: Dataset<Config>): void {
  const { schema, config } = dataset
  const table = rowsTable(dataset)
  for (const { name } of database.all(
    `SELECT name FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL AND type = 'index'`,
    table,
  )) {
    database.run(`DROP INDEX "${name}"`)
  }
  for (const name of config.index_columns ?? []) {
    const columns = [...new Set([name, ...schema.primaryKey])].map((column) => columnOf(schema, column))
    database.run(`CREATE INDEX ${table}_${columns[0]} ON ${table} (${columns.join(', ')})`)
  }
}
