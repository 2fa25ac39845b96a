/** Whether a batch of columns is one: as many values in each column as it says that it has rows. */
import type { ColumnBatch } from '@sluice/sdk'
import { CheckFailure } from './check.ts'

/** @param width how many columns were asked for; null where that is not known */
export function expectWholeBatch(batch: ColumnBatch, width: number | null, where: string): void {
  const { rowCount, columns } = batch
  const isCount = Number.isSafeInteger(rowCount) && rowCount >= 0
  const short = Array.isArray(columns) ? columns.findIndex((column) => column?.length !== rowCount) : -1
  const isWide = Array.isArray(columns) && (width === null || columns.length === width || rowCount === 0)
  if (isCount && short < 0 && isWide) return
  const counts = Array.isArray(columns)
    ? columns.map((column) => column?.length ?? 'no').join(', ')
    : 'no columns at all'
  throw new CheckFailure({
    what: 'the counts of a batch do not fit together',
    expected: `rowCount ${isCount ? rowCount : 'as a whole number'}, and so many values in each of ${width ?? 'its'} columns`,
    came: `rowCount ${String(rowCount)}, ${Array.isArray(columns) ? `${columns.length} columns with ${counts} values` : counts}`,
    where,
    why: 'rows are taken from the columns by rowCount: values beyond it are lost, and those that lack are read as null',
    remedy:
      'Make batches with batchFromRows of the SDK, or count the rows of what is sent, and not of what was asked for.',
  })
}
