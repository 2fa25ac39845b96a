import type { ChangeSet } from '@sluice/sdk'
import type { Database } from './database.ts'
import { allColumns, type Dataset, keyColumns, rowsTable, stageTable } from './datasets.ts'
import type { Config } from './index.ts'
import { definitionOf } from './provisioning.ts'
import type { Staging } from './staging.ts'

/** Rows go from their stage into the table, those that are deleted or replaced out of it. */
export const rowsOfLookup: Staging<Config> = { name: 'lookup', definition: definitionOf, apply }

function apply(database: Database, dataset: Dataset<Config>, mode: ChangeSet['mode'], stage: bigint): void {
  if (mode === 'full') database.change(`DELETE FROM ${rowsTable(dataset)}`)
  else deleteStaged(database, dataset, stage)
  moveStaged(database, dataset, stage)
}

function deleteStaged(database: Database, dataset: Dataset<Config>, stage: bigint): void {
  const keys = keyColumns(dataset.schema).join(', ')
  if (keys === '') return
  database.change(
    `DELETE FROM ${rowsTable(dataset)} WHERE (${keys}) IN (SELECT ${keys} FROM ${stageTable(stage, 'deletes')})`,
  )
}

function moveStaged(database: Database, dataset: Dataset<Config>, stage: bigint): void {
  const columns = allColumns(dataset.schema).join(', ')
  const from = `SELECT ${columns} FROM ${stageTable(stage, 'upserts')}`
  database.change(`INSERT OR REPLACE INTO ${rowsTable(dataset)} (${columns}) ${from}`)
}
