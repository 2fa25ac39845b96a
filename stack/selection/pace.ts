/** Whether there is time for one more suite, judged by how this run's have done so far. */
export class Pace {
  readonly #deadlineMs: number
  #expectedSeconds = 0
  #tookSeconds = 0

  /** @param deadlineMs by whatever clock `hasTimeFor` is told; infinite where there is none */
  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs
  }

  ended(expectedSeconds: number, tookSeconds: number): void {
    this.#expectedSeconds += expectedSeconds
    this.#tookSeconds += tookSeconds
  }

  /** How many times longer than expected the suites have taken; a fast beginning promises nothing. */
  get slowness(): number {
    return this.#expectedSeconds === 0 ? 1 : Math.max(1, this.#tookSeconds / this.#expectedSeconds)
  }

  hasTimeFor(expectedSeconds: number, nowMs: number): boolean {
    return nowMs + expectedSeconds * this.slowness * 1000 <= this.#deadlineMs
  }
}
