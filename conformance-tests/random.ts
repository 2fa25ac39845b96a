/** Numbers that look random and are the same for the same seed, so that a failure can be had again. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 0 ≤ n < 1 (mulberry32, Tommy Ettinger, public domain). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Both ends included. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.integer(0, items.length - 1)]
    if (item === undefined) throw new Error('there is nothing to pick from')
    return item
  }

  shuffled<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, rank: this.next() }))
      .sort((left, right) => left.rank - right.rank)
      .map(({ item }) => item)
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.integer(0, 255))
  }

  /** A stream of its own, so that one check drawing more does not change what the others draw. */
  fork(label: string): Random {
    let hash = 0x811c9dc5
    for (const character of label) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0
    return new Random((this.#state ^ hash) >>> 0)
  }
}
