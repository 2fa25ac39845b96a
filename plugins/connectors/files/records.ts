/** Takes the bytes of a file apart into its records; holds at most one that is not whole yet. */

export interface FileRecord {
  readonly bytes: Buffer
  /** Where it begins, from 1. */
  readonly line: number
}

/** What can be said of the file, without a path. */
export class BrokenFile extends Error {
  override readonly name = 'BrokenFile'
  readonly remedy: string
  constructor(message: string, remedy: string) {
    super(message)
    this.remedy = remedy
  }
}

export const MAX_RECORD_BYTES = 1024 * 1024
const LF = 10
const CR = 13
const BOM = Buffer.from([0xef, 0xbb, 0xbf])

/** By lines, and where values are quoted, by quotes: a quote at the beginning of a value holds its line ends. */
export class RecordSplitter {
  readonly #delimiter: number
  readonly #quote: number | null
  #rest: Buffer = Buffer.alloc(0)
  #line = 1
  #isBegun = false
  #nextQuote = { bytes: this.#rest, at: -1 }

  /** Without a dialect: lines as they are. */
  constructor(dialect: { readonly delimiter: string; readonly quote: string | null } | null) {
    this.#delimiter = dialect === null ? -1 : dialect.delimiter.charCodeAt(0)
    this.#quote = dialect?.quote == null ? null : dialect.quote.charCodeAt(0)
  }

  /** The records that are whole by now. Throws BrokenFile. */
  push(chunk: Uint8Array): readonly FileRecord[] {
    let bytes =
      this.#rest.length === 0
        ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
        : Buffer.concat([this.#rest, chunk])
    if (!this.#isBegun) {
      if (bytes.length < BOM.length) {
        this.#rest = bytes
        return []
      }
      bytes = this.#begun(bytes)
    }
    const found: FileRecord[] = []
    let from = 0
    for (;;) {
      const end = this.#endOf(bytes, from)
      if (end < 0) break
      found.push(this.#record(bytes, from, end))
      from = end + 1
    }
    this.#rest = bytes.subarray(from)
    if (this.#rest.length > MAX_RECORD_BYTES) throw this.#tooLong()
    return found
  }

  /** What is left where the file ends. Throws BrokenFile. */
  end(): readonly FileRecord[] {
    let bytes = this.#rest
    if (!this.#isBegun) bytes = this.#begun(bytes)
    this.#rest = Buffer.alloc(0)
    if (bytes.length === 0) return []
    // With a line's end added, a record that is whole is found, and one that is open is not.
    const closed = Buffer.concat([bytes, Buffer.from([LF])])
    if (this.#endOf(closed, 0) < 0)
      throw new BrokenFile(
        `it ends within a quote that begins in the record on line ${this.#line}`,
        'Close the quote, or write what is meant as text with quotes doubled.',
      )
    return [this.#record(closed, 0, bytes.length)]
  }

  #begun(bytes: Buffer): Buffer {
    this.#isBegun = true
    const [first, second] = bytes
    if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff))
      throw new BrokenFile('it is written in UTF-16', 'Save it as UTF-8.')
    return bytes.subarray(0, BOM.length).equals(BOM) ? bytes.subarray(BOM.length) : bytes
  }

  #record(bytes: Buffer, from: number, end: number): FileRecord {
    const last = end > from && bytes[end - 1] === CR ? end - 1 : end
    if (last - from > MAX_RECORD_BYTES) throw this.#tooLong()
    const record = { bytes: bytes.subarray(from, last), line: this.#line }
    this.#line += 1
    if (this.#quote !== null && record.bytes.includes(this.#quote)) this.#line += linesIn(record.bytes)
    return record
  }

  #tooLong(): BrokenFile {
    return new BrokenFile(
      `the record on line ${this.#line} has more than ${MAX_RECORD_BYTES} bytes`,
      'Look for a quote that is not closed there, or for another end of lines than LF; records that are longer cannot be read.',
    )
  }

  /** Where the record's line end stands; -1: it is not there yet. */
  #endOf(bytes: Buffer, from: number): number {
    const lineEnd = bytes.indexOf(LF, from)
    if (lineEnd < 0 || this.#quote === null) return lineEnd
    if (this.#quoteAfter(bytes, from, this.#quote) > lineEnd) return lineEnd
    return quotedEnd(bytes, from, this.#quote, this.#delimiter)
  }

  /** Remembered: it may be far away, and is asked for by every record before it. */
  #quoteAfter(bytes: Buffer, from: number, quote: number): number {
    if (this.#nextQuote.bytes !== bytes || this.#nextQuote.at < from) {
      const at = bytes.indexOf(quote, from)
      this.#nextQuote = { bytes, at: at < 0 ? Number.POSITIVE_INFINITY : at }
    }
    return this.#nextQuote.at
  }
}

function quotedEnd(bytes: Buffer, from: number, quote: number, delimiter: number): number {
  let isStart = true
  for (let at = from; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === LF) return at
    if (isStart && byte === quote) {
      at = closingQuote(bytes, at + 1, quote)
      if (at < 0) return -1
    }
    isStart = byte === delimiter
  }
  return -1
}

/** Of a pair of quotes neither closes; -1: it is not there, or what follows it is not. */
function closingQuote(bytes: Buffer, from: number, quote: number): number {
  for (let at = bytes.indexOf(quote, from); at >= 0; at = bytes.indexOf(quote, at + 2)) {
    if (at + 1 >= bytes.length) return -1
    if (bytes[at + 1] !== quote) return at
  }
  return -1
}

function linesIn(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count += 1
  return count
}
