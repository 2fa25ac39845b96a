import type { ChangeSet } from '@sluice/sdk'
import type { Database } from 'sluice-lookup-sqlite/database'
import { allColumns, columnOf, keyColumns, rowsTable, stageTable } from 'sluice-lookup-sqlite/datasets'
import type { Staging } from 'sluice-lookup-sqlite/staging'
import type { Config } from './config.ts'
import { definitionOf, rebuildWords, type Searched, wordsTable } from './provisioning.ts'

/** Rows go from their stage into the table and, word by word, into its indexes. */
export const rowsOfSearch: Staging<Config> = {
  name: 'search',
  definition: definitionOf,
  apply(database, dataset, mode: ChangeSet['mode'], stage) {
    if (mode === 'full') replaceRows(database, dataset, stage)
    else changeRows(database, dataset, stage)
  },
}

function replaceRows(database: Database, dataset: Searched, stage: bigint): void {
  database.change(`DELETE FROM ${rowsTable(dataset)}`)
  insertStaged(database, dataset, stage)
  rebuildWords(database, dataset)
}

/** What is replaced or deleted leaves the indexes first, while its text can still be read. */
function changeRows(database: Database, dataset: Searched, stage: bigint): void {
  const rows = rowsTable(dataset)
  const keys = keyColumns(dataset.schema).join(', ')
  if (keys !== '') {
    const staged = (['deletes', 'upserts'] as const).map((part) => `SELECT ${keys} FROM ${stageTable(stage, part)}`)
    const leaving = `(${keys}) IN (${staged.join(' UNION ALL ')})`
    eachIndex(dataset, (words, column) => {
      const gone = `SELECT 'delete', id, ${column} FROM ${rows} WHERE ${leaving}`
      database.change(`INSERT INTO ${words} (${words}, rowid, ${column}) ${gone}`)
    })
    database.change(`DELETE FROM ${rows} WHERE ${leaving}`)
  }
  const [{ last } = { last: 0n }] = database.all(`SELECT coalesce(max(id), 0) AS last FROM ${rows}`)
  insertStaged(database, dataset, stage)
  eachIndex(dataset, (words, column) => {
    database.change(
      `INSERT INTO ${words} (rowid, ${column}) SELECT id, ${column} FROM ${rows} WHERE id > ?`,
      last as bigint,
    )
  })
}

function eachIndex(dataset: Searched, run: (words: string, column: string) => void): void {
  for (const name of dataset.config.text_columns) run(wordsTable(dataset, name), columnOf(dataset.schema, name))
}

function insertStaged(database: Database, dataset: Searched, stage: bigint): void {
  const columns = allColumns(dataset.schema).join(', ')
  const from = `SELECT ${columns} FROM ${stageTable(stage, 'upserts')}`
  database.change(`INSERT INTO ${rowsTable(dataset)} (${columns}) ${from}`)
}
