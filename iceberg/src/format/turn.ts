/** So long nobody else waits on the event loop. */
const TURN_MS = 8

/** For work on the event loop that may be long: it lets others go first every few milliseconds. */
export class Turn {
  #beganMs = performance.now()

  isOver(): boolean {
    return performance.now() - this.#beganMs > TURN_MS
  }

  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#beganMs = performance.now()
  }
}
