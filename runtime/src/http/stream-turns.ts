/**
 * Streams that have much to send would keep the event loop from everything else: a hundred readers of a large product made the
 * read of one row, of another tenant, take seconds. So one of all has its turn at a time, a piece of some events, and between
 * two turns whatever else has come is worked on. Tenants go round, and so do the streams of each.
 */
export class StreamTurns {
  readonly #waiting = new Map<string, (() => void)[]>()
  #isDue = false

  /** Fulfilled when it is the turn of that stream of the tenant. Nobody waits for whoever does not come again. */
  next(tenant: string): Promise<void> {
    return new Promise((resolve) => {
      const others = this.#waiting.get(tenant)
      if (others === undefined) this.#waiting.set(tenant, [resolve])
      else others.push(resolve)
      this.#await()
    })
  }

  #await(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      this.#begin()
    })
  }

  #begin(): void {
    const [first] = this.#waiting
    if (first === undefined) return
    const [tenant, streams] = first
    const begin = streams.shift()
    // Behind all others, as it stands in the map.
    this.#waiting.delete(tenant)
    if (streams.length > 0) this.#waiting.set(tenant, streams)
    if (this.#waiting.size > 0) this.#await()
    begin?.()
  }
}
