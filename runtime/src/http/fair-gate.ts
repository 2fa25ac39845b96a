/**
 * Whose request is worked on next. As many are begun as the stores gain by; the others wait, and tenants take turns by
 * what their answers have cost, not by how many they send: one that sends 64 at once waits for itself.
 */
interface Waiter {
  readonly cost: number
  readonly enter: () => void
}

/** Of one key. */
interface Share {
  /** Cost under way. */
  used: number
  /** How far it has come: what it began, by its weight. Who has come least far is next. */
  mark: number
  weight: number
  /** Bytes of answers that are made and not taken. */
  unread: number
  readonly waiting: Waiter[]
}

/** Nobody has all, so that who comes next does not wait for a whole answer. */
const MOST_OF_ONE = 0.75

export class FairGate {
  readonly #capacity: number
  readonly #mostUnread: number
  readonly #shares = new Map<string, Share>()
  #used = 0
  #waiting = 0
  /** The mark of whoever began last. */
  #clock = 0

  /**
   * @param capacity cost that may be under way at once
   * @param mostUnread bytes of one key's answers that are kept; while there are more, nothing of it begins
   */
  constructor(capacity: number, mostUnread: number = Number.POSITIVE_INFINITY) {
    this.#capacity = capacity
    this.#mostUnread = mostUnread
  }

  /**
   * Undefined where the request may begin at once, else a promise of that; rejected with the signal's reason. What was
   * let in leaves by `leave` with the same cost.
   * @param cost 1 for the least request; more than half of the capacity counts as half
   */
  enter(key: string, weight: number, cost: number, signal: () => AbortSignal): Promise<void> | undefined {
    const share = this.#shares.get(key) ?? this.#join(key)
    share.weight = weight
    const bounded = this.#bounded(cost)
    if (this.#waiting === 0 && this.#mayBegin(share, bounded) && this.#fits(bounded)) {
      this.#begin(share, bounded)
      return undefined
    }
    return this.#wait(key, share, bounded, signal())
  }

  leave(key: string, cost: number): void {
    const share = this.#shares.get(key)
    if (share === undefined) return
    const bounded = this.#bounded(cost)
    share.used -= bounded
    this.#used -= bounded
    this.#forget(key, share)
    if (this.#waiting > 0) this.#next()
  }

  /** An answer that is in memory until it is dropped, by the same number of bytes. */
  keep(key: string, bytes: number): void {
    const share = this.#shares.get(key) ?? this.#join(key)
    share.unread += bytes
  }

  drop(key: string, bytes: number): void {
    const share = this.#shares.get(key)
    if (share === undefined) return
    share.unread -= bytes
    this.#forget(key, share)
    if (this.#waiting > 0) this.#next()
  }

  /** Whether something of that key waits until some of its answers are taken. */
  isShort(key: string): boolean {
    const share = this.#shares.get(key)
    return share !== undefined && share.waiting.length > 0 && share.unread > this.#mostUnread
  }

  #bounded(cost: number): number {
    return Math.min(Math.max(1, Math.round(cost)), Math.ceil(this.#capacity / 2))
  }

  #join(key: string): Share {
    const share: Share = { used: 0, mark: this.#clock, weight: 1, unread: 0, waiting: [] }
    this.#shares.set(key, share)
    return share
  }

  #forget(key: string, share: Share): void {
    if (share.used <= 0 && share.unread <= 0 && share.waiting.length === 0) this.#shares.delete(key)
  }

  #mayBegin(share: Share, cost: number): boolean {
    if (share.unread > this.#mostUnread) return false
    return share.used === 0 || share.used + cost <= this.#capacity * MOST_OF_ONE
  }

  #fits(cost: number): boolean {
    return this.#used === 0 || this.#used + cost <= this.#capacity
  }

  #begin(share: Share, cost: number): void {
    share.mark = Math.max(share.mark, this.#clock)
    this.#clock = share.mark
    share.mark += cost / share.weight
    share.used += cost
    this.#used += cost
  }

  #wait(key: string, share: Share, cost: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        share.waiting.splice(share.waiting.indexOf(waiter), 1)
        this.#waiting -= 1
        this.#forget(key, share)
        reject(signal.reason)
        if (this.#waiting > 0) this.#next()
      }
      const waiter: Waiter = {
        cost,
        enter: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      share.waiting.push(waiter)
      this.#waiting += 1
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      // Those who wait may wait for themselves alone.
      this.#next()
    })
  }

  /** Whoever is next and does not fit is waited for: many small ones would else keep a large one out for ever. */
  #next(): void {
    for (;;) {
      const share = this.#leastFar()
      const waiter = share?.waiting[0]
      if (share === null || waiter === undefined || !this.#fits(waiter.cost)) return
      share.waiting.shift()
      this.#waiting -= 1
      this.#begin(share, waiter.cost)
      waiter.enter()
    }
  }

  #leastFar(): Share | null {
    let least: Share | null = null
    for (const share of this.#shares.values()) {
      const first = share.waiting[0]
      if (first === undefined || !this.#mayBegin(share, first.cost)) continue
      if (least === null || share.mark < least.mark) least = share
    }
    return least
  }
}
