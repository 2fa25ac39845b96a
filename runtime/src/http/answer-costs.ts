import { LRUCache } from 'lru-cache'

/** Bytes of an answer that cost as much as the request itself. */
const BYTES_OF_ONE = 16 * 1024
/** How much the newest answer counts against those before it. */
const NEWEST = 0.25
const MAX_KNOWN = 20_000

/** What a tenant's requests to a route have cost of late: the best guess of what the next one will. */
export class AnswerCosts {
  readonly #known = new LRUCache<string, { cost: number }>({ max: MAX_KNOWN })

  /** 1 for the least, and for what is not known yet. */
  expected(key: string): number {
    return this.#known.get(key)?.cost ?? 1
  }

  learn(key: string, bytes: number): void {
    const cost = 1 + bytes / BYTES_OF_ONE
    const known = this.#known.get(key)
    if (known === undefined) this.#known.set(key, { cost })
    else known.cost += (cost - known.cost) * NEWEST
  }
}
