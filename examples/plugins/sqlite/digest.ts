import { createHash } from 'node:crypto'
import type { Digest } from '@sluice/sdk'
import type { Cell } from './cells.ts'
import type { Database } from './database.ts'
import { allColumns, type Dataset, rowsTable } from './datasets.ts'
import { checkAborted } from './staging.ts'

const ABORT_EVERY_ROWS = 1000

/** Equal content gives equal digests: rows are taken in the order of all their columns. */
export function digestOfRows(
  database: Database,
  dataset: Pick<Dataset<unknown>, 'id' | 'schema'>,
  signal: AbortSignal,
): Digest {
  const columns = allColumns(dataset.schema)
  const list = columns.join(', ')
  const hash = createHash('sha256')
  let rowCount = 0
  for (const row of database.each(`SELECT ${list} FROM ${rowsTable(dataset)} ORDER BY ${list}`)) {
    hash.update(`${JSON.stringify(columns.map((name) => cellText(row[name] ?? null)))}\n`)
    rowCount += 1
    if (rowCount % ABORT_EVERY_ROWS === 0) checkAborted(signal)
  }
  return { rowCount, sha256: hash.digest('hex') }
}

/** Text that keeps null from 'null', 1 from '1' and −0 from 0. */
function cellText(cell: Cell): readonly [string, string] | null {
  if (cell === null) return null
  if (cell instanceof Uint8Array) return ['bytes', Buffer.from(cell).toString('hex')]
  return [typeof cell, Object.is(cell, -0) ? '-0' : String(cell)]
}
