/** Messages of rows, one behind the other in one piece: what a result is sent by. */

export interface RowBatch {
  readonly bytes: Buffer
  readonly rows: number
}

const NO_ROWS: RowBatch = { bytes: Buffer.alloc(0), rows: 0 }

export function batchOf(messages: readonly Buffer[]): RowBatch {
  return { bytes: Buffer.concat(messages), rows: messages.length }
}

/** The first `rows` of it, and what is left. */
export function cutBatch(batch: RowBatch, rows: number): readonly [RowBatch, RowBatch] {
  if (rows >= batch.rows) return [batch, NO_ROWS]
  const { bytes } = batch
  let end = 0
  for (let row = 0; row < rows; row += 1) end = endOfRow(bytes, end)
  return [
    { bytes: bytes.subarray(0, end), rows },
    { bytes: bytes.subarray(end), rows: batch.rows - rows },
  ]
}

/** Where the message that begins there ends. */
export const endOfRow = (bytes: Buffer, start: number): number => start + 1 + bytes.readInt32BE(start + 1)
