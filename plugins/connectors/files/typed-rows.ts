/** Rows of files that say their types, and how much a file may grow to. */
import type { LogicalType } from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'
import { BrokenFile, MAX_RECORD_BYTES } from './records.ts'

/** What columns there are, by their order in the file. */
export interface TypedHeader {
  readonly names: readonly string[]
  readonly types: readonly LogicalType[]
}

export type TypedCells = readonly (string | null)[] | BadRecord

/** Runs of one value and nulls take next to nothing in such files: a thousand times as much is still ordinary. */
const MAX_RATIO = 1000
const FREE_CHARACTERS = 1024 ** 3
const PIECE_CHARACTERS = 1024 * 1024

export class RowTexts {
  readonly #width: number
  readonly #most: number
  #cells: (string | null)[] = []
  #characters = 0
  #all = 0
  #piece = 0

  constructor(bytes: number, width: number) {
    this.#width = width
    this.#most = Math.max(FREE_CHARACTERS, bytes * MAX_RATIO)
  }

  begin(): void {
    this.#cells = new Array<string | null>(this.#width).fill(null)
    this.#characters = 0
  }

  /** Null of a document: it was too long to be made. */
  set(place: number, text: string | null, isDocument: boolean): void {
    if (text === null && isDocument) this.#characters += MAX_RECORD_BYTES + 1
    // A document that is nothing is no value.
    this.#cells[place] = isDocument && text === 'null' ? null : text
    this.#characters += text?.length ?? 0
  }

  /** Throws BrokenFile where the file has become more than it can be meant to. */
  row(): TypedCells {
    this.#all += this.#characters + this.#width
    this.#piece += this.#characters
    if (this.#all > this.#most)
      throw new BrokenFile(
        `it grows more than ${MAX_RATIO} times when it is unpacked, and beyond 1 GiB`,
        'Split it, or write it with less in a byte.',
      )
    if (this.#characters <= MAX_RECORD_BYTES) return this.#cells
    return new BadRecord(`it has more than ${MAX_RECORD_BYTES} characters`)
  }

  /** Whether what has been made since the last time is enough to be handed on. */
  get isMuch(): boolean {
    return this.#piece >= PIECE_CHARACTERS
  }

  handedOn(): void {
    this.#piece = 0
  }
}
