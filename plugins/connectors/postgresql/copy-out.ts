/**
 * The receiving end of `COPY … TO STDOUT`: the server's bytes, less the protocol's headers. The driver's parser would make
 * an object of every row; here rows only move together inside the buffer that the socket filled.
 */
import { COPY_DATA, HEADER_BYTES, Receiver } from './receiver.ts'

/** A row that cannot be carried as it is. */
export interface Refused {
  /** Ordinals of the columns that are at fault, from 1. */
  readonly columns: readonly number[]
  /** The row as the server wrote it, cut where it is long. */
  readonly csv: Buffer
  readonly isWhole: boolean
}

/** Bytes of whole and partial rows, in order; or, between two rows, one that cannot be carried as it is. */
export type CopyItem = Uint8Array | Refused

export function isRefused(item: CopyItem): item is Refused {
  return !(item instanceof Uint8Array)
}

/** What may stand between rows, and is of no interest: CopyOutResponse, notices, parameters, notifications. */
const SKIPPED = new Set(['H', 'N', 'S', 'A'].map((type) => type.charCodeAt(0)))
const COMMA = ','.charCodeAt(0)
/** Of a row that cannot be carried as it is, so much is kept. */
const MAX_REFUSED_BYTES = 256 * 1024

export class CopyOut extends Receiver<CopyItem> {
  rows = 0
  rejects = 0
  /** Whether each row starts with the column that says why it cannot be carried; it is cut off. */
  readonly #judged: boolean
  #rest: Buffer | null = null
  /** Bytes of the current message that are still to come, and what becomes of them. */
  #pending = 0
  #pendingKind: 'row' | 'reject' | 'skip' = 'skip'
  #refused: Buffer[] = []
  #refusedBytes = 0
  #refusedIsWhole = true
  /** Where in the chunk the rows begin that have not been handed on. */
  #base = 0
  #commandRows: number | null = null

  constructor(sql: string, options: { readonly judged: boolean }) {
    super(sql, bytesOf)
    this.#judged = options.judged
  }

  override handleCommandComplete(message: { readonly text?: string }): void {
    this.#commandRows = Number(/^COPY (\d+)$/.exec(message.text ?? '')?.[1] ?? Number.NaN)
  }

  override handleReadyForQuery(): void {
    this.end({})
  }

  /** The server counted too: a difference would mean rows lost on the way. */
  protected override checkEnd(): void {
    if (this.#commandRows !== this.rows + this.rejects) throw new Error('the server sent another number of rows')
  }

  protected override receive(data: Buffer): void {
    const chunk = this.#rest ? Buffer.concat([this.#rest, data]) : data
    this.#rest = null
    const written = this.#unpack(chunk)
    if (written > this.#base) this.push(chunk.subarray(this.#base, written))
    this.#base = 0
  }

  /** Moves the rows of `chunk` together at its start; returns how many bytes they are. */
  #unpack(chunk: Buffer): number {
    let read = 0
    let write = 0
    while (read < chunk.length) {
      if (this.#pending === 0) {
        const body = this.#open(chunk, read)
        if (body < 0) break
        read = body
      }
      const end = Math.min(read + this.#pending, chunk.length)
      if (this.#pendingKind === 'row') {
        if (write !== read) chunk.copyWithin(write, read, end)
        write += end - read
      } else if (this.#pendingKind === 'reject') {
        this.#keep(chunk.subarray(read, end))
      }
      this.#pending -= end - read
      read = end
      if (this.#pending === 0 && this.#pendingKind === 'reject') {
        // Before it, the rows that came before: it may take its place among them.
        if (write > this.#base) this.push(chunk.subarray(this.#base, write))
        this.#base = write
        this.#reject()
      }
    }
    return write
  }

  /**
   * Reads the header at `at` and, of a judged row, the byte that tells good from bad. Returns where the rest of the
   * message starts; -1 when the chunk ends before that is known, or when the rows have ended.
   */
  #open(chunk: Buffer, at: number): number {
    const needed = HEADER_BYTES + (this.#judged ? 1 : 0)
    const type = chunk[at] ?? 0
    if (type !== COPY_DATA && !SKIPPED.has(type)) {
      this.giveBack(chunk.subarray(at))
      return -1
    }
    if (chunk.length - at < needed) {
      this.#rest = Buffer.from(chunk.subarray(at))
      return -1
    }
    this.#pending = chunk.readUInt32BE(at + 1) - 4
    if (type !== COPY_DATA) {
      this.#pendingKind = 'skip'
      return at + HEADER_BYTES
    }
    return this.#openRow(chunk, at + HEADER_BYTES)
  }

  #openRow(chunk: Buffer, body: number): number {
    if (this.#judged && chunk[body] !== COMMA) {
      this.#pendingKind = 'reject'
      this.#refused = []
      this.#refusedBytes = 0
      this.#refusedIsWhole = true
      return body
    }
    this.#pendingKind = 'row'
    this.rows += 1
    if (!this.#judged) return body
    this.#pending -= 1
    return body + 1
  }

  /** A copy: the rest of the chunk is moved about. */
  #keep(piece: Buffer): void {
    const kept = Buffer.from(piece.subarray(0, MAX_REFUSED_BYTES - this.#refusedBytes))
    this.#refused.push(kept)
    if (kept.length < piece.length) this.#refusedIsWhole = false
    this.#refusedBytes += kept.length
  }

  /** The row begins with `"12 14",`: the columns. */
  #reject(): void {
    this.rejects += 1
    const row = Buffer.concat(this.#refused)
    this.#refused = []
    const end = row.indexOf(COMMA)
    const columns = row
      .toString('latin1', 1, end - 1)
      .split(' ')
      .map(Number)
    this.push({ columns, csv: row.subarray(end + 1), isWhole: this.#refusedIsWhole })
  }
}

function bytesOf(item: CopyItem): number {
  return isRefused(item) ? item.csv.length : item.length
}
