/** How much is held back until it is passed on in one piece, and for how long. */
const HELD_BYTES = 128 * 1024
const HELD_MS = 20

/**
 * Gathers rows as they come. A server sends them in pieces of some KiB, and each piece that goes on by itself costs two
 * processes a turn of their loops, which is more than the rows do.
 */
export class RowBuffer {
  readonly #pass: (rows: Uint8Array) => void
  #held = Buffer.allocUnsafeSlow(HELD_BYTES)
  #fill = 0
  #timer: NodeJS.Timeout | null = null

  /** `pass` is given bytes that are its own. */
  constructor(pass: (rows: Uint8Array) => void) {
    this.#pass = pass
  }

  /** True where some were passed on. */
  add(rows: Uint8Array): boolean {
    let hasPassed = false
    for (let at = 0; at < rows.length; ) {
      const piece = rows.subarray(at, at + HELD_BYTES - this.#fill)
      this.#held.set(piece, this.#fill)
      this.#fill += piece.length
      at += piece.length
      if (this.#fill < HELD_BYTES) continue
      this.flush()
      hasPassed = true
    }
    if (this.#fill > 0) this.#timer ??= setTimeout(() => this.flush(), HELD_MS)
    return hasPassed
  }

  /** Passes on what is held. */
  flush(): void {
    const rows = this.#held.subarray(0, this.#fill)
    this.drop()
    if (rows.length === 0) return
    this.#held = Buffer.allocUnsafeSlow(HELD_BYTES)
    this.#pass(rows)
  }

  /** Forgets what is held: nobody waits for it any more. */
  drop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#fill = 0
  }
}
