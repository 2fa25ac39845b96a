import { isDeepStrictEqual } from 'node:util'
import { type PlanStep, schemaConflict, type TableSchema, type Target } from '@sluice/sdk'
import type { Database } from 'sluice-lookup-sqlite/database'
import {
  addressOf,
  allColumns,
  columnOf,
  type Dataset,
  datasetOf,
  findDataset,
  forgetDataset,
  growsInto,
  keyColumns,
  rowsTable,
} from 'sluice-lookup-sqlite/datasets'
import { type Config, tokenizerOf } from './config.ts'

export type Searched = Dataset<Config>

/** What is to be done; throws CONFLICT `schema_conflict` where the rows do not fit. */
export function provisionSteps(database: Database, target: Target<Config>): readonly PlanStep[] {
  const dataset = findDataset(database, target)
  const name = `${target.domain}.${target.product}`
  if (dataset === null) return [{ action: 'create', description: `make a table and its text indexes for ${name}` }]
  if (!growsInto(dataset.schema, target.schema)) throw schemaConflict()
  const steps: PlanStep[] = []
  if (!isDeepStrictEqual(dataset.schema, target.schema)) {
    steps.push({ action: 'alter', description: `add the new columns of ${name}` })
  }
  if (!isDeepStrictEqual(dataset.config, target.config)) {
    steps.push({ action: 'replace', description: `make the text indexes of ${name} anew` })
  }
  return steps
}

/** In one transaction with the steps that were planned. */
export function applyProvision(database: Database, target: Target<Config>): void {
  const { schema, config } = target
  const texts = [JSON.stringify(schema), JSON.stringify(config)]
  const former = findDataset(database, target)
  if (former === null) {
    database.change(
      'INSERT INTO datasets (tenant, domain, product, variant, schema, config) VALUES (?, ?, ?, ?, ?, ?)',
      ...addressOf(target),
      ...texts,
    )
    const made = datasetOf(database, target)
    database.run(`CREATE TABLE ${rowsTable(made)} (id INTEGER PRIMARY KEY, ${definitionOf(schema)})`)
    makeWords(database, made)
    return
  }
  for (const column of allColumns(schema).slice(former.schema.columns.length)) {
    database.run(`ALTER TABLE ${rowsTable(former)} ADD COLUMN ${column}`)
  }
  database.change('UPDATE datasets SET schema = ?, config = ? WHERE id = ?', ...texts, former.id)
  if (isDeepStrictEqual(former.config, config)) return
  dropWords(database, former)
  makeWords(database, { ...former, schema, config })
}

/** Columns go by number and have no affinity: the cells of `sluice-lookup-sqlite` decide how a value is kept. */
export function definitionOf(schema: TableSchema): string {
  const key = keyColumns(schema)
  return [...allColumns(schema), ...(key.length > 0 ? [`UNIQUE (${key.join(', ')})`] : [])].join(', ')
}

/** The text itself stays with the rows: https://www.sqlite.org/fts5.html#external_content_tables */
function makeWords(database: Database, dataset: Searched): void {
  for (const name of dataset.config.text_columns) {
    const words = wordsTable(dataset, name)
    const content = `content='${rowsTable(dataset)}', content_rowid='id', tokenize='${tokenizerOf(dataset.config)}'`
    database.run(`CREATE VIRTUAL TABLE ${words} USING fts5(${columnOf(dataset.schema, name)}, ${content})`)
  }
  rebuildWords(database, dataset)
}

export function rebuildWords(database: Database, dataset: Searched): void {
  for (const name of dataset.config.text_columns) {
    const words = wordsTable(dataset, name)
    database.change(`INSERT INTO ${words} (${words}) VALUES ('rebuild')`)
  }
}

function dropWords(database: Database, dataset: Searched): void {
  for (const name of dataset.config.text_columns) database.run(`DROP TABLE IF EXISTS ${wordsTable(dataset, name)}`)
}

export function dropDataset(database: Database, dataset: Searched): void {
  dropWords(database, dataset)
  forgetDataset(database, dataset)
}

/** The index of one column. Each has its own, so that no score hangs on text that was not searched. */
export function wordsTable({ id, schema }: Pick<Searched, 'id' | 'schema'>, column: string): string {
  return `words_${id}_${columnOf(schema, column)}`
}
