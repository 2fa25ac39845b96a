import { createHash } from 'node:crypto'
import { type Digest, isSluiceError, notMaterialized, type Target } from '@sluice/sdk'
import type { Database } from 'sluice-lookup-sqlite/database'
import { datasetOf } from 'sluice-lookup-sqlite/datasets'
import { digestOfRows } from 'sluice-lookup-sqlite/digest'
import { checkAborted } from 'sluice-lookup-sqlite/staging'
import type { Config } from './config.ts'
import { type Searched, wordsTable } from './provisioning.ts'

/** As of no content: the runtime then writes the rows anew, and with them the indexes. */
const UNSOUND: Digest = { rowCount: 0, sha256: createHash('sha256').update('unsound').digest('hex') }

export function digestOf(database: Database, target: Target<Config>, signal: AbortSignal): Digest {
  checkAborted(signal)
  // The test of an index is a statement that changes nothing, and yet is one of those that may.
  return database.transaction('IMMEDIATE', () => {
    const dataset = datasetOf(database, target)
    if (dataset.applied === null) throw notMaterialized()
    if (!isSound(database, dataset)) return UNSOUND
    return digestOfRows(database, dataset, signal)
  })
}

/** Whether the indexes are of the words that the rows have: https://www.sqlite.org/fts5.html#the_integrity_check_command */
function isSound(database: Database, dataset: Searched): boolean {
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
