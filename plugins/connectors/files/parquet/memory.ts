import { BrokenFile } from '../records.ts'

/** Of all columns that are read at once, packed and unpacked. */
const MAX_BYTES = 128 * 1024 * 1024
/** Texts of dictionaries that are kept, so that they are made once. */
const MAX_TEXT_BYTES = 32 * 1024 * 1024

/** What is held of a file at one time. */
export class Memory {
  #used = 0
  #texts = 0

  take(bytes: number): void {
    this.#used += bytes
    if (this.#used <= MAX_BYTES) return
    throw new BrokenFile(
      `its pages are too large: those of all columns that are read would hold more than ${MAX_BYTES / 1024 ** 2} MiB at once`,
      'Write it with smaller pages or row groups, or list under columns the ones that are needed.',
    )
  }

  give(bytes: number): void {
    this.#used -= bytes
  }

  /** Whether one more text may be kept. */
  keepsText(bytes: number): boolean {
    this.#texts += bytes
    return this.#texts <= MAX_TEXT_BYTES
  }

  /** Of another row group nothing is held yet. */
  reset(): void {
    this.#used = 0
    this.#texts = 0
  }
}
