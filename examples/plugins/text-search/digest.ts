import { createHash } from 'node:crypto'
import { type Digest, isSluiceError, notMaterialized, type Target } from '@sluice/sdk'
import type { Cell } from './cells.ts'
import type { Config } from './config.ts'
import type { Database } from './database.ts'
import { allColumns, type Dataset, datasetOf, rowsTable, wordsTable } from './datasets.ts'
import { checkAborted } from './reading.ts'

/** As of no content: the runtime then writes the rows anew, and with them the indexes. */
const UNSOUND: Digest = { rowCount: 0, sha256: createHash('sha256').update('unsound').digest('hex') }

/** Equal content gives equal digests: rows are taken in the order of all their columns. */
export function digestOf(database: Database, target: Target<Config>, signal: AbortSignal): Digest {
  checkAborted(signal)
  // The test of an index is a statement that changes nothing, and yet is one of those that may.
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    if (dataset.applied === null) throw notMaterialized()
    if (!isSound(database, dataset)) return UNSOUND
    const columns = allColumns(dataset.schema)
    const hash = createHash('sha256')
    let rowCount = 0
    const list = columns.join(', ')
    for (const row of database.each(`SELECT ${list} FROM ${rowsTable(dataset)} ORDER BY ${list}`)) {
      hash.update(`${JSON.stringify(columns.map((name) => cellText(row[name] ?? null)))}\n`)
      rowCount += 1
    }
    return { rowCount, sha256: hash.digest('hex') }
  })
}

/** Whether the indexes are of the words that the rows have: https://www.sqlite.org/fts5.html#the_integrity_check_command */
function isSound(database: Database, dataset: Dataset): boolean {
  try {
    for (const name of dataset.config.text_columns) {
      const words = wordsTable(dataset, name)
      database.change(`INSERT INTO ${words} (${words}, rank) VALUES ('integrity-check', 1)`)
    }
    return true
  } catch (error) {
    if (isSluiceError(error) && error.code === 'index_unsound') return false
    throw error
  }
}

/** Text that keeps null from 'null', 1 from '1' and −0 from 0. */
function cellText(cell: Cell): readonly [string, string] | null {
  if (cell === null) return null
  if (cell instanceof Uint8Array) return ['bytes', Buffer.from(cell).toString('hex')]
  return [typeof cell, Object.is(cell, -0) ? '-0' : String(cell)]
}
