/** What stands in a file that a command has written, as those who wait for it are told. */
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'

/** `10 rows, 2345 bytes: set.parquet`; without the rows where that file does not tell them, as a pipe. */
export async function writtenRows(file: string, format: string): Promise<string> {
  const found = await stat(file)
  if (!found.isFile()) return `written: ${file}`
  const rows = await COUNTS[format]?.(file)
  const count = rows === undefined ? '' : `${rows} ${rows === 1 ? 'row' : 'rows'}, `
  return `${count}${found.size} bytes: ${file}`
}

const COUNTS: Readonly<Record<string, (file: string) => Promise<number | undefined>>> = {
  parquet: parquetRows,
  ndjson: (file) => endsOfLines(file),
  // With a header. Ends of lines within quotes are of values.
  csv: async (file) => (await endsOfLines(file, 0x22)) - 1,
  json: jsonRows,
}

const LINE_END = 0x0a

async function endsOfLines(file: string, quote?: number): Promise<number> {
  let count = 0
  let isQuoted = false
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    for (const byte of chunk) {
      if (byte === quote) isQuoted = !isQuoted
      else if (byte === LINE_END && !isQuoted) count += 1
    }
  }
  return count
}

/** Where an answer says how many rows stand before. */
const ROW_COUNT = /\],"row_count":(\d+),"truncated":/g
const JSON_TAIL_BYTES = 1024 * 1024

async function jsonRows(file: string): Promise<number | undefined> {
  const { size } = await stat(file)
  const tail: Buffer[] = []
  const from = Math.max(0, size - JSON_TAIL_BYTES)
  for await (const chunk of createReadStream(file, { start: from }) as AsyncIterable<Buffer>) tail.push(chunk)
  // A text of a row could be written so only with its quotes escaped.
  const [, count] = [...Buffer.concat(tail).toString('latin1').matchAll(ROW_COUNT)].at(-1) ?? []
  return count === undefined ? undefined : Number(count)
}

/** Of its end, which is what describes it, its length in four bytes, and `PAR1`. */
const TAIL_BYTES = 8
const MOST_BYTES = 64 * 1024 * 1024

/** As the file's own description says; undefined where that is none. */
async function parquetRows(file: string): Promise<number | undefined> {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    const tail = Buffer.alloc(TAIL_BYTES)
    await handle.read(tail, 0, TAIL_BYTES, Math.max(0, size - TAIL_BYTES))
    const length = tail.readUInt32LE()
    if (tail.toString('latin1', 4) !== 'PAR1' || length > Math.min(MOST_BYTES, size - TAIL_BYTES)) return undefined
    const described = Buffer.alloc(length)
    await handle.read(described, 0, length, size - TAIL_BYTES - length)
    return new Thrift(described).longOf(NUM_ROWS)
  } catch (error) {
    // It is written, and was whole when it came: whoever reads it will say what is wrong with it.
    if (error instanceof RangeError) return undefined
    throw error
  } finally {
    await handle.close()
  }
}

/** The field of `FileMetaData` in https://github.com/apache/parquet-format, of type i64. */
const NUM_ROWS = 3

/** Types of Thrift's compact protocol. */
const TYPE = { byte: 3, long: 6, double: 7, binary: 8, list: 9, set: 10, map: 11, struct: 12 } as const

/** Reads one field of a structure in Thrift's compact protocol, and goes past the others. */
class Thrift {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  longOf(wanted: number): number | undefined {
    for (let field = 0; ; ) {
      const head = this.#byte()
      if (head === 0) return undefined
      field = head >> 4 === 0 ? this.#signed() : field + (head >> 4)
      if (field === wanted && (head & 15) === TYPE.long) return this.#signed()
      this.#pass(head & 15)
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw new RangeError('the description of the file ends too soon')
    this.#at += 1
    return byte
  }

  #unsigned(): number {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte()
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return Number(value)
    }
  }

  #signed(): number {
    const value = this.#unsigned()
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  #pass(type: number): void {
    if (type === TYPE.byte) this.#at += 1
    else if (type > TYPE.byte && type <= TYPE.long) this.#unsigned()
    else if (type === TYPE.double) this.#at += 8
    else if (type === TYPE.binary) this.#passBytes()
    else if (type === TYPE.list || type === TYPE.set) this.#passList(this.#byte())
    else if (type === TYPE.map) this.#passMap()
    else if (type === TYPE.struct) for (let head = this.#byte(); head !== 0; head = this.#byte()) this.#passField(head)
  }

  #passBytes(): void {
    const length = this.#unsigned()
    this.#at += length
  }

  #passField(head: number): void {
    if (head >> 4 === 0) this.#signed()
    this.#pass(head & 15)
  }

  #passList(head: number): void {
    const count = head >> 4 === 15 ? this.#unsigned() : head >> 4
    for (let index = 0; index < count; index += 1) this.#passItem(head & 15)
  }

  #passMap(): void {
    const count = this.#unsigned()
    if (count === 0) return
    const types = this.#byte()
    for (let index = 0; index < count; index += 1) {
      this.#passItem(types >> 4)
      this.#passItem(types & 15)
    }
  }

  /** Truth is in the type of a field, and a byte of its own elsewhere. */
  #passItem(type: number): void {
    if (type < TYPE.byte) this.#at += 1
    else this.#pass(type)
  }
}
