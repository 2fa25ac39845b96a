import { LRUCache } from 'lru-cache'

/** Bytes of an answer that cost as much as the request itself. */
const BYTES_OF_ONE = 16 * 1024
/** How much the newest answer counts against those before it. */
const NEWEST = 0.25
const MAX_KNOWN = 20_000

/** What a tenant's requests to a route have cost of late: the best guess of what the next one will. */
export class AnswerCosts {
  readonly #known = new LRUCache<string, number>({ max: MAX_KNOWN })

  /** 1 for the least, and for what is not known yet. */
  expected(key: string): number {
    return this.#known.get(key) ?? 1
  }

  learn(key: string, bytes: number): void {
    const cost = 1 + bytes / BYTES_OF_ONE
    const former = this.#known.get(key)
    this.#known.set(key, former === undefined ? cost : former + (cost - former) * NEWEST)
  }
}
