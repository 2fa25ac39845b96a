/**
 * Rows as caches put them: a key and the JSON text of a row, which the lake's engine has written. They travel as lines
 * of bytes, so that a store copies them to where they go and makes no value of any cell.
 */

/**
 * Lines of the key (`renderKey`), the byte 0x1F, a row as a JSON object (values as `toJsonValue` writes them) and a line
 * feed, as UTF-8; where the key is null, 0x1D stands in its place. No key and no such text holds any of the three. A
 * chunk may end anywhere in a line.
 */
export type KeyedChunk = Uint8Array

const LINE_FEED = 0x0a
const NO_KEY = 0x1d
const SEPARATOR = 0x1f

/** One line of a `KeyedChunk`. */
export function keyedLine(key: string | null, json: string): string {
  return `${key ?? String.fromCharCode(NO_KEY)}${String.fromCharCode(SEPARATOR)}${json}\n`
}

/** A few rows of a stream of `KeyedChunk`s, as the places in `bytes` where their parts begin and end. */
export class KeyedRows {
  readonly bytes: Buffer
  readonly rowCount: number
  /** For each row: where its key begins, where its JSON begins, where its JSON ends. */
  readonly #marks: readonly number[]

  constructor(bytes: Buffer, marks: readonly number[]) {
    this.bytes = bytes
    this.#marks = marks
    this.rowCount = marks.length / 3
  }

  keyStart(row: number): number {
    return this.#marks[row * 3] as number
  }

  /** Just after the last byte of the key. */
  keyEnd(row: number): number {
    return this.jsonStart(row) - 1
  }

  jsonStart(row: number): number {
    return this.#marks[row * 3 + 1] as number
  }

  /** Just after the last byte of the JSON. */
  jsonEnd(row: number): number {
    return this.#marks[row * 3 + 2] as number
  }

  /** False for a row without a key: a column of its template is null. */
  hasKey(row: number): boolean {
    return this.bytes[this.keyStart(row)] !== NO_KEY
  }

  key(row: number): string {
    return this.bytes.toString('utf8', this.keyStart(row), this.keyEnd(row))
  }

  json(row: number): string {
    return this.bytes.toString('utf8', this.jsonStart(row), this.jsonEnd(row))
  }
}

/** The rows of the chunks in their order, at most `maxRows` together. Throws a plain Error where the last line has no end. */
export async function* keyedRows(chunks: AsyncIterable<KeyedChunk>, maxRows: number): AsyncGenerator<KeyedRows> {
  let begun: Uint8Array[] = []
  for await (const chunk of chunks) {
    if (chunk.length === 0) continue
    begun.push(chunk)
    const lastLine = chunk.lastIndexOf(LINE_FEED)
    if (lastLine < 0) continue
    const bytes = begun.length === 1 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat(begun)
    const end = bytes.length - chunk.length + lastLine + 1
    for (let start = 0; start < end; ) {
      const marks = marksOf(bytes, start, end, maxRows)
      yield new KeyedRows(bytes, marks)
      start = (marks.at(-1) as number) + 1
    }
    begun = end < bytes.length ? [bytes.subarray(end)] : []
  }
  if (begun.length > 0) throw new Error('the last keyed row has no end')
}

function marksOf(bytes: Buffer, from: number, end: number, maxRows: number): number[] {
  const marks: number[] = []
  for (let start = from; start < end && marks.length < maxRows * 3; ) {
    const separator = bytes.indexOf(SEPARATOR, start)
    const lineEnd = bytes.indexOf(LINE_FEED, separator)
    marks.push(start, separator + 1, lineEnd)
    start = lineEnd + 1
  }
  return marks
}
