/** Rows on their way into a table: COPY from the change set's CSV. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type CsvChunk, SluiceError } from '@sluice/sdk'
import { from as copyFrom } from 'pg-copy-streams'
import type { Client } from './sessions.ts'

/** Streams the CSV into the table and counts its rows; `columns` are SQL names already quoted. */
export async function copyCsv(
  client: Client,
  table: string,
  columns: readonly string[],
  rows: AsyncIterable<CsvChunk>,
  options = '',
): Promise<number> {
  const statement = `copy ${table} (${columns.join(', ')}) from stdin (format csv${options})`
  const copy = client.query(copyFrom(statement, { highWaterMark: 1 << 20 }))
  await pipeline(Readable.from(rows, { objectMode: true, highWaterMark: 2 }), copy)
  return copy.rowCount ?? 0
}

/** A stream that ended early must not become the content of an epoch. */
export function checkCount(expected: number, arrived: number): void {
  if (expected === arrived) return
  throw new SluiceError('CONFLICT', 'the change set has other rows than it says', {
    code: 'row_count_mismatch',
    remedy: 'Compute the change set anew.',
    details: { expected, arrived },
  })
}
