/** Rows of the engine's CSV as cells of bytes: null where a field is empty and without quotes, as the engine writes null. */

import { WireError } from '../protocol/wire-error.ts'

const QUOTE = 0x22
const COMMA = 0x2c
const NEWLINE = 0x0a
const RETURN = 0x0d

export type CsvRow = readonly (Buffer | null)[]

/** More than any client takes as one row. */
const MAX_ROW_BYTES = 64 * 1024 * 1024

/**
 * Records of RFC 4180 in the order they come, whatever the chunks are; each time those that are whole by then. What a long
 * row has so far is looked at again only when there is twice as much of it. Throws 54000 for rows that are too long.
 */
export async function* csvRows(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly CsvRow[]> {
  let pending: Uint8Array[] = []
  let bytes = 0
  let enough = 0
  for await (const chunk of chunks) {
    pending.push(chunk)
    bytes += chunk.length
    if (bytes < enough) continue
    const all = Buffer.concat(pending)
    const { rows, end } = wholeRows(all)
    const rest = all.subarray(end)
    if (rest.length > MAX_ROW_BYTES) throw new WireError('54000', `a row is longer than ${MAX_ROW_BYTES} bytes`)
    pending = rest.length === 0 ? [] : [rest]
    bytes = rest.length
    enough = 2 * rest.length
    if (rows.length > 0) yield rows
  }
  if (bytes === 0) return
  const all = Buffer.concat(pending)
  const { rows, end } = wholeRows(all.at(-1) === NEWLINE ? all : Buffer.concat([all, Buffer.from('\n')]))
  if (end < all.length) throw new WireError('XX000', 'the rows end within one')
  yield rows
}

function wholeRows(bytes: Buffer): { readonly rows: readonly CsvRow[]; readonly end: number } {
  const rows: CsvRow[] = []
  let row: (Buffer | null)[] = []
  let end = 0
  for (let at = 0; at < bytes.length; ) {
    const stop = bytes[at] === QUOTE ? endOfQuoted(bytes, at) : endOfPlain(bytes, at)
    // The rest of it comes with the next chunk.
    if (stop < 0 || stop >= bytes.length) break
    row.push(fieldOf(bytes, at, stop))
    at = stop
    if (bytes[at] === COMMA) {
      at += 1
      // Nothing behind the last comma yet: whether a field follows is not known.
      continue
    }
    if (bytes[at] === RETURN) at += 1
    if (at >= bytes.length) break
    at += 1
    rows.push(row)
    row = []
    end = at
  }
  return { rows, end }
}

/** Behind the closing quote; -1 where it is not here yet, or may be half of two. */
function endOfQuoted(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(QUOTE, start + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 2)) {
    if (at + 1 >= bytes.length) return -1
    if (bytes[at + 1] !== QUOTE) return at + 1
  }
  return -1
}

function endOfPlain(bytes: Buffer, start: number): number {
  let at = start
  while (at < bytes.length && bytes[at] !== COMMA && bytes[at] !== NEWLINE && bytes[at] !== RETURN) at += 1
  return at
}

function fieldOf(bytes: Buffer, start: number, stop: number): Buffer | null {
  if (bytes[start] !== QUOTE) return start === stop ? null : bytes.subarray(start, stop)
  const inner = bytes.subarray(start + 1, stop - 1)
  return inner.includes(QUOTE) ? Buffer.from(inner.toString('latin1').replaceAll('""', '"'), 'latin1') : inner
}
