/**
 * Rows on the move. A batch is a bounded piece of a stream, column by column; where a store can make the JSON of an
 * answer itself, it hands over the text instead and no row crosses JavaScript.
 */
import type { Row, Value } from './schema.ts'

/** `columns[i][r]` is the value of the i-th column in the r-th row; every column has `rowCount` values. */
export interface ColumnBatch {
  readonly rowCount: number
  readonly columns: readonly (readonly Value[])[]
}

/** `json` is a JSON array of row objects, values written as `toJsonValue` writes them. */
export interface JsonBatch {
  readonly rowCount: number
  readonly json: string
}

export type Batch = ColumnBatch | JsonBatch

/** A batch of an answer: it says which epoch it was read from. */
export type ReadBatch = Batch & {
  readonly epoch: number
  /** Where rows expire: how long this answer stays true, in whole seconds. */
  readonly ttlRemainingS?: number
  /** The position after the last row, to be given back as `ReadPlan.after`; absent at the end. */
  readonly next?: readonly Value[]
}

/**
 * An answer of one batch, for `ServingStore.read`. Whoever knows it takes the batch, which costs less than to walk through an
 * iterable, and waits for nothing where nothing is waited for. As with a generator, nothing is read before it is asked for.
 */
export class OneBatch implements AsyncIterable<ReadBatch> {
  readonly take: () => ReadBatch | Promise<ReadBatch>

  /** @param take reads it, once for each call */
  constructor(take: () => ReadBatch | Promise<ReadBatch>) {
    this.take = take
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ReadBatch> {
    yield await this.take()
  }
}

export function isJsonBatch(batch: Batch): batch is JsonBatch {
  return 'json' in batch
}

export function batchFromRows(rows: readonly Row[], width: number): ColumnBatch {
  const columns = Array.from({ length: width }, (_, column) => rows.map((row) => row[column] ?? null))
  return { rowCount: rows.length, columns }
}

export function* rowsOf(batch: ColumnBatch): Generator<Row> {
  for (let row = 0; row < batch.rowCount; row += 1) {
    yield batch.columns.map((column) => column[row] ?? null)
  }
}

/**
 * The CSV that crosses between connectors, the lake and stores: RFC 4180 with LF, no header, every value that is not
 * null in double quotes (doubled inside), null as nothing at all; so '' and null differ. Values as PostgreSQL reads
 * them: t/f, ISO dates, `\x…` for binary. PostgreSQL: `COPY … (FORMAT csv, FORCE_QUOTE *)` writes it and
 * `COPY … FROM STDIN (FORMAT csv)` reads it.
 */
export type CsvChunk = Uint8Array
