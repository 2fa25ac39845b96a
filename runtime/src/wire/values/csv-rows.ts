/** Rows of the engine's CSV as messages to clients: null where a field is empty and without quotes, as the engine writes null. */
import type { RowBatch } from '../protocol/row-batch.ts'
import { WireError } from '../protocol/wire-error.ts'
import { RowEncoder, type SentColumn } from './row-encoder.ts'

const NEWLINE = 0x0a

/** More than any client takes as one row. */
const MAX_ROW_BYTES = 64 * 1024 * 1024

/**
 * Records of RFC 4180 behind a header in the order they come, whatever the chunks are; each time those that are whole by then.
 * What a long row has so far is looked at again only when there is twice as much of it. Throws 54000 for rows that are too long.
 */
export async function* rowsOfCsv(
  chunks: AsyncIterable<Uint8Array>,
  columns: readonly SentColumn[],
): AsyncGenerator<RowBatch> {
  const encoder = new RowEncoder(columns)
  let pending: Uint8Array[] = []
  let bytes = 0
  let enough = 0
  for await (const chunk of chunks) {
    pending.push(chunk)
    bytes += chunk.length
    if (bytes < enough) continue
    const all = joined(pending, bytes)
    const { batch, end } = encoder.encode(all)
    const rest = all.subarray(end)
    if (rest.length > MAX_ROW_BYTES) throw new WireError('54000', `a row is longer than ${MAX_ROW_BYTES} bytes`)
    pending = rest.length === 0 ? [] : [rest]
    bytes = rest.length
    enough = 2 * rest.length
    if (batch.rows > 0) yield batch
  }
  if (bytes === 0) return
  const all = joined(pending, bytes)
  const { batch, end } = encoder.encode(all.at(-1) === NEWLINE ? all : Buffer.concat([all, Buffer.from('\n')]))
  if (end < all.length) throw new WireError('XX000', 'the rows end within one')
  if (batch.rows > 0) yield batch
}

function joined(pieces: readonly Uint8Array[], bytes: number): Buffer {
  const [first] = pieces
  if (pieces.length > 1 || first === undefined) return Buffer.concat(pieces, bytes)
  return Buffer.from(first.buffer, first.byteOffset, first.length)
}
