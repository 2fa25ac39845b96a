import { type StreamOutput, WHOLE_KINDS } from './job.ts'

const LINE_FEED = 10
const QUOTE = 34

/** What the parent does to the child's lines: it cuts them at a limit and takes off the last comma between rows. */
export class OutputLines {
  readonly #quoted: boolean
  readonly #commas: boolean
  readonly #maxLines: number
  #lines = 0
  #inQuotes = false
  #held: Uint8Array = new Uint8Array(0)

  constructor(kind: StreamOutput['kind'], maxRows: number | undefined) {
    const header = kind === 'csv' ? 1 : 0
    // Only CSV has line breaks inside of a line, in quotes.
    this.#quoted = kind === 'csv'
    this.#commas = kind === 'json-rows'
    const isCut = maxRows !== undefined && kind !== 'parquet' && !WHOLE_KINDS.has(kind)
    this.#maxLines = isCut ? maxRows + header : Number.POSITIVE_INFINITY
  }

  /** The part of the chunk that may leave now. */
  take(chunk: Uint8Array): Uint8Array {
    const kept = this.#maxLines === Number.POSITIVE_INFINITY ? chunk : chunk.subarray(0, this.#end(chunk))
    return this.#commas ? this.#holdBack(kept) : kept
  }

  /** Where the last line that is wanted ends in the chunk. */
  #end(chunk: Uint8Array): number {
    if (this.#lines >= this.#maxLines) return 0
    if (!this.#quoted) return this.#endUnquoted(chunk)
    for (let at = 0; at < chunk.length; at++) {
      if (chunk[at] === QUOTE) this.#inQuotes = !this.#inQuotes
      else if (chunk[at] === LINE_FEED && !this.#inQuotes && ++this.#lines === this.#maxLines) return at + 1
    }
    return chunk.length
  }

  #endUnquoted(chunk: Uint8Array): number {
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1)) {
      if (++this.#lines === this.#maxLines) return at + 1
    }
    return chunk.length
  }

  /** Keeps the last two bytes back, which are `,\n` if these are the last; what was kept before goes in front. */
  #holdBack(chunk: Uint8Array): Uint8Array {
    const all = Buffer.concat([this.#held, chunk])
    const end = Math.max(0, all.length - 2)
    this.#held = all.subarray(end)
    return all.subarray(0, end)
  }
}
