/** How long it took from a commit at the source until a reader had it: kept commit by commit, told by the second. */

export interface Commit {
  /** Grows by one with each. */
  readonly changeNo: number
  /** By the clock of `performance.now`. */
  readonly atMs: number
}

interface Sample {
  readonly atMs: number
  readonly tookMs: number
}

export interface Spread {
  readonly count: number
  readonly p50Ms: number
  readonly p95Ms: number
  readonly mostMs: number
}

/** A second of commits: the median until they were readable; `waiting`: some are not yet; null: there was none. */
export type Second = number | 'waiting' | null

export class Freshness {
  readonly #waiting: Commit[] = []
  readonly #samples: Sample[] = []

  committed(commit: Commit): void {
    this.#waiting.push(commit)
  }

  /** A reader has found the commit of that number, and so all before it. */
  readable(changeNo: number, nowMs: number): void {
    while ((this.#waiting[0]?.changeNo ?? Number.POSITIVE_INFINITY) <= changeNo) {
      const { atMs } = this.#waiting.shift() as Commit
      this.#samples.push({ atMs, tookMs: nowMs - atMs })
    }
  }

  /** Commits that nobody has read yet. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Of all that were read; null where there is none. */
  spread(): Spread | null {
    const sorted = this.#samples.map(({ tookMs }) => tookMs).sort((one, other) => one - other)
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number
    if (sorted.length === 0) return null
    return { count: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95), mostMs: at(1) }
  }

  /** The seconds from `fromMs` on, by when their commits were made; at most `most`, the newest last. */
  seconds(fromMs: number, nowMs: number, most: number): readonly Second[] {
    const count = Math.max(0, Math.ceil((nowMs - fromMs) / 1000))
    const tooks: number[][] = Array.from({ length: count }, () => [])
    for (const { atMs, tookMs } of this.#samples) tooks[Math.floor((atMs - fromMs) / 1000)]?.push(tookMs)
    const waiting = new Set(this.#waiting.map(({ atMs }) => Math.floor((atMs - fromMs) / 1000)))
    return tooks
      .map((of, second): Second => {
        if (waiting.has(second)) return 'waiting'
        return of.length === 0 ? null : (of.sort((one, other) => one - other)[of.length >> 1] as number)
      })
      .slice(-most)
  }
}
