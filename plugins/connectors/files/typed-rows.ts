/** Rows of files that say their types, and how much a file may grow to. */
import type { LogicalType } from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'
import { BrokenFile, MAX_RECORD_BYTES } from './records.ts'

/** What columns there are, by their order in the file. */
export interface TypedHeader {
  readonly names: readonly string[]
  readonly types: readonly LogicalType[]
}

export type TypedCells = readonly (string | null)[] | LongRow

function growsTooMuch(): BrokenFile {
  return new BrokenFile(
    `it grows more than ${MAX_RATIO} times when it is unpacked, and beyond 1 GiB`,
    'Split it, or write it with less in a byte.',
  )
}

const SHOWN_CHARACTERS = 100

/** A row with more than a row may have; what it is known by is kept. */
export class LongRow extends BadRecord {
  readonly cells: readonly (string | null)[]
  constructor(cells: readonly (string | null)[]) {
    super(`it has more than ${MAX_RECORD_BYTES} characters`)
    this.cells = cells.map((cell) => cell?.slice(0, SHOWN_CHARACTERS) ?? null)
  }
}

/** Runs of one value and nulls take next to nothing in such files: a thousand times as much is still ordinary. */
const MAX_RATIO = 1000
const FREE_CHARACTERS = 1024 ** 3
/** For a row and for each of its values, at least. */
const LEAST_CHARACTERS = 16
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

  /** Before any of so many is made. */
  expectRows(count: number): void {
    if (count * LEAST_CHARACTERS > this.#most) throw growsTooMuch()
  }

  begin(): void {
    this.#cells = new Array<string | null>(this.#width).fill(null)
    this.#characters = 0
  }

  set(place: number, text: string | null): void {
    this.#cells[place] = text
    this.#characters += text?.length ?? 0
  }

  /** A value was not made, because no row may have it. */
  setTooLong(): void {
    this.#characters += MAX_RECORD_BYTES + 1
  }

  /** Throws BrokenFile where the file has become more than it can be meant to. */
  row(): TypedCells {
    this.#all += this.#characters + this.#width + LEAST_CHARACTERS
    this.#piece += this.#characters
    if (this.#all > this.#most) throw growsTooMuch()
    if (this.#characters <= MAX_RECORD_BYTES) return this.#cells
    return new LongRow(this.#cells)
  }

  /** Whether what has been made since the last time is enough to be handed on. */
  get isMuch(): boolean {
    return this.#piece >= PIECE_CHARACTERS
  }

  handedOn(): void {
    this.#piece = 0
  }
}
