/**
 * Takes records of CSV apart and writes the messages of their rows, in one pass over the bytes: of millions of rows with many
 * columns each, nothing is made for a row or a cell.
 */
import type { RowBatch } from '../protocol/row-batch.ts'
import { cellBinary } from './array-binary.ts'
import type { TypedColumn } from './column-types.ts'
import { Growing, putBytes, putInt32 } from './growing.ts'
import { BINARY_PUTS } from './put-binary.ts'
import { PUTS, type PutCell } from './put-cells.ts'

export interface SentColumn {
  readonly column: TypedColumn
  readonly isBinary: boolean
}

const [QUOTE, COMMA, NEWLINE, RETURN] = [0x22, 0x2c, 0x0a, 0x0d]
const DATA_ROW = 0x44
const HEAD_BYTES = 7
const LENGTH_BYTES = 4
/** Beside twice its own text, which nothing that is written of a cell is longer than. */
const CELL_BYTES = 64

export class RowEncoder {
  readonly #columns: readonly SentColumn[]
  /** Null: by the column's own `write`, and `cellBinary`. */
  readonly #puts: readonly (PutCell | null)[]
  #out = new Growing(0)
  /** Up to where the piece is written. */
  #used = 0
  /** Of the field that was looked at last: from where to where its text is, and whether quotes are doubled in it. */
  #start = 0
  #stop = 0
  #hasQuotes = false
  #isHeaderRead = false

  constructor(columns: readonly SentColumn[]) {
    this.#columns = columns
    this.#puts = columns.map(({ column, isBinary }) => {
      if (isBinary) return BINARY_PUTS[column.oid] ?? null
      return PUTS[column.oid] ?? (column.isAsIs ? putBytes : null)
    })
  }

  /** The rows that are whole, and where the last one of them ends. */
  encode(csv: Buffer): { readonly batch: RowBatch; readonly end: number } {
    this.#out = new Growing(csv.length + (csv.length >> 1))
    this.#used = 0
    let end = 0
    let rows = 0
    if (!this.#isHeaderRead) {
      end = this.#passHeader(csv)
      if (end < 0) return { batch: { bytes: Buffer.alloc(0), rows: 0 }, end: 0 }
      this.#isHeaderRead = true
    }
    while (end < csv.length) {
      const next = this.#row(csv, end)
      if (next < 0) break
      end = next
      rows += 1
    }
    return { batch: { bytes: this.#out.bytes.subarray(0, this.#used), rows }, end }
  }

  #passHeader(csv: Buffer): number {
    for (let at = 0; ; ) {
      const next = this.#field(csv, at)
      if (next < 0) return -1
      if (csv[next] !== COMMA) return endOfRecord(csv, next)
      at = next + 1
    }
  }

  /** Returns where the next one begins; -1 where the rest of it comes later, and nothing of it is written. */
  #row(csv: Buffer, start: number): number {
    const width = this.#columns.length
    const row = this.#used
    this.#out.makeRoom(row, HEAD_BYTES + LENGTH_BYTES * width)
    this.#used += HEAD_BYTES
    let at = start
    let next = -1
    let cell = 0
    for (; ; cell += 1, at = next + 1) {
      next = this.#field(csv, at)
      if (next < 0) break
      if (cell < width) this.#cell(csv, cell, csv[at] === QUOTE)
      if (csv[next] !== COMMA) break
    }
    const end = next < 0 ? -1 : endOfRecord(csv, next)
    if (end < 0) {
      this.#used = row
      return -1
    }
    for (cell += 1; cell < width; cell += 1) this.#null()
    const to = this.#out.bytes
    to[row] = DATA_ROW
    putInt32(to, row + 1, this.#used - row - 1)
    to[row + 5] = width >>> 8
    to[row + 6] = width
    return end
  }

  /** Returns what comes behind it; -1 where that is not here yet: a quote may be half of two. */
  #field(csv: Buffer, at: number): number {
    const size = csv.length
    this.#hasQuotes = false
    if (csv[at] !== QUOTE) {
      this.#start = at
      while (at < size && csv[at] !== COMMA && csv[at] !== NEWLINE && csv[at] !== RETURN) at += 1
      this.#stop = at
      return at < size ? at : -1
    }
    at += 1
    this.#start = at
    for (;;) {
      while (at < size && csv[at] !== QUOTE) at += 1
      if (at + 1 >= size) return -1
      if (csv[at + 1] !== QUOTE) break
      this.#hasQuotes = true
      at += 2
    }
    this.#stop = at
    return at + 1
  }

  #cell(csv: Buffer, index: number, isQuoted: boolean): void {
    const [start, stop] = [this.#start, this.#stop]
    if (start === stop && !isQuoted) {
      this.#null()
      return
    }
    this.#out.makeRoom(this.#used, LENGTH_BYTES + 2 * (stop - start) + CELL_BYTES)
    const at = this.#used + LENGTH_BYTES
    if (!this.#hasQuotes) this.#put(csv, start, stop, index, at)
    else {
      const text = Buffer.from(csv.toString('latin1', start, stop).replaceAll('""', '"'), 'latin1')
      this.#put(text, 0, text.length, index, at)
    }
  }

  #put(from: Buffer, start: number, stop: number, index: number, at: number): void {
    const put = this.#puts[index]
    let end = put === null || put === undefined ? -1 : put(from, start, stop, this.#out.bytes, at)
    if (end < 0) {
      const bytes = this.#written(from.subarray(start, stop), index)
      this.#out.makeRoom(at, bytes.length)
      end = putBytes(bytes, 0, bytes.length, this.#out.bytes, at)
    }
    putInt32(this.#out.bytes, at - LENGTH_BYTES, end - at)
    this.#used = end
  }

  #written(cell: Buffer, index: number): Buffer {
    const { column, isBinary } = this.#columns[index] as SentColumn
    const text = column.write(cell)
    return isBinary ? cellBinary(column.oid, text) : text
  }

  #null(): void {
    this.#out.makeRoom(this.#used, LENGTH_BYTES)
    putInt32(this.#out.bytes, this.#used, -1)
    this.#used += LENGTH_BYTES
  }
}

/** Behind its line break; -1 where that is not here yet. */
function endOfRecord(csv: Buffer, at: number): number {
  const newline = csv[at] === RETURN ? at + 1 : at
  return newline < csv.length ? newline + 1 : -1
}
