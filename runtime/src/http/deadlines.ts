/** One timer for all requests under way: a timer of its own for each would be made and dropped thousands of times a second. */
export interface Timed {
  /** By `performance.now`: the machine's clock may be set meanwhile. May change while it is watched. */
  deadlineMs: number
  /** Called once the deadline has passed, and again a sweep later while it stays watched and passed. */
  onDeadline(): void
}

const SWEEP_MS = 100

export class Deadlines {
  readonly #watched = new Set<Timed>()
  #timer: NodeJS.Timeout | null = null

  watch(timed: Timed): void {
    this.#watched.add(timed)
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
  }

  unwatch(timed: Timed): void {
    this.#watched.delete(timed)
  }

  get size(): number {
    return this.#watched.size
  }

  /** All that are watched now, for draining. */
  forEach(visit: (timed: Timed) => void): void {
    for (const timed of [...this.#watched]) visit(timed)
  }

  #sweep(): void {
    const nowMs = performance.now()
    for (const timed of this.#watched) if (timed.deadlineMs <= nowMs) timed.onDeadline()
    if (this.#watched.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }
}
