/**
 * Which kinds of rows a short piece of a log has, seen in its bytes on their way. Most short pieces tell their rows whole; the
 * statements that the other kinds need would take longer than all of their rows.
 */

export interface ToldKinds {
  /** Each row stands for itself: none is told in part, and the table was not emptied among them. */
  readonly isPlain: boolean
  /** Some rows may say that one is gone. */
  readonly hasGone: boolean
}

/** Of what nobody has looked at. */
export const ANY_KINDS: ToldKinds = { isPlain: false, hasGone: true }

/** A longer piece may be of any kinds: then the rows take the time. */
const MAX_LOOKED_BYTES = 64 * 1024

const [QUOTE, COMMA, LINE_FEED, UPSERT, TRUNCATE] = [...'",\nut'].map((one) => one.charCodeAt(0))
const OP_CELL = 0
const UNCHANGED_CELL = 2

/** Reads CSV as change-fold.ts has it read, in pieces that may end anywhere in a line. */
export class KindsLook {
  #left = MAX_LOOKED_BYTES
  #cell = 0
  #isQuoted = false
  #isPlain = true
  #hasGone = false

  get kinds(): ToldKinds {
    const isKnown = this.#left >= 0 && this.#cell === 0 && !this.#isQuoted
    return isKnown ? { isPlain: this.#isPlain, hasGone: this.#hasGone } : ANY_KINDS
  }

  take(bytes: Uint8Array): void {
    this.#left -= bytes.length
    if (this.#left < 0) return
    for (const byte of bytes) {
      if (byte === QUOTE) this.#isQuoted = !this.#isQuoted
      else if (!this.#isQuoted && byte === COMMA) {
        this.#cell += 1
        continue
      } else if (!this.#isQuoted && byte === LINE_FEED) {
        this.#cell = 0
        continue
      }
      // Whatever is in it: empty without quotes is null.
      if (this.#cell === UNCHANGED_CELL) this.#isPlain = false
      else if (this.#cell === OP_CELL && byte !== QUOTE && byte !== UPSERT) {
        this.#hasGone = true
        if (byte === TRUNCATE) this.#isPlain = false
      }
    }
  }
}
