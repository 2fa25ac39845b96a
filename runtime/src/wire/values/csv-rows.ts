/** Rows of the engine's CSV as messages to clients: null where a field is empty and without quotes, as the engine writes null. */
import type { RowBatch } from '../protocol/row-batch.ts'
import { WireError } from '../protocol/wire-error.ts'
import { Growing } from './growing.ts'
import { RowEncoder, type SentColumn } from './row-encoder.ts'

const NEWLINE = 0x0a

/** As pipes give them, and what was left of the one before. */
const CHUNK_BYTES = 128 * 1024

/** More than any client takes as one row. */
const MAX_ROW_BYTES = 64 * 1024 * 1024

/**
 * Records of RFC 4180 behind a header in the order they come, whatever the chunks are; each time those that are whole by then.
 * What a long row has so far is looked at again only when there is twice as much of it. Throws 54000 for rows that are too long, and
 * 22021 for a text with a NUL character: no text of a PostgreSQL has one, and clients take it for the end of the text.
 */
export async function* rowsOfCsv(
  chunks: AsyncIterable<Uint8Array>,
  columns: readonly SentColumn[],
): AsyncGenerator<RowBatch> {
  const encoder = new RowEncoder(columns)
  // Written over for each chunk: pieces that are thrown away cost more than the copy.
  const csv = new Growing(CHUNK_BYTES)
  let bytes = 0
  let enough = 0
  for await (const chunk of chunks) {
    csv.makeRoom(bytes, chunk.length)
    csv.bytes.set(chunk, bytes)
    if (csv.bytes.subarray(bytes, bytes + chunk.length).includes(0)) throw nulCharacter()
    bytes += chunk.length
    if (bytes < enough) continue
    const { batch, end } = encoder.encode(csv.bytes.subarray(0, bytes))
    csv.bytes.copyWithin(0, end, bytes)
    bytes -= end
    if (bytes > MAX_ROW_BYTES) throw new WireError('54000', `a row is longer than ${MAX_ROW_BYTES} bytes`)
    enough = 2 * bytes
    if (batch.rows > 0) yield batch
  }
  if (bytes === 0) return
  if (csv.bytes[bytes - 1] !== NEWLINE) {
    csv.makeRoom(bytes, 1)
    csv.bytes[bytes] = NEWLINE
    bytes += 1
  }
  const { batch, end } = encoder.encode(csv.bytes.subarray(0, bytes))
  if (end < bytes) throw new WireError('XX000', 'the rows end within one')
  if (batch.rows > 0) yield batch
}

function nulCharacter(): WireError {
  return new WireError('22021', 'a text of the result has a NUL character, which no text of PostgreSQL can have', {
    hint: "Ask for it without: replace(column, chr(0), '').",
  })
}
