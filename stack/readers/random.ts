/** Repeatable choices: the same seed gives the same tables. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 0 ≤ n < `below`. */
  integer(below: number): number {
    return Math.floor(this.#next() * below)
  }

  chance(probability: number): boolean {
    return this.#next() < probability
  }

  pick<T>(from: readonly T[]): T {
    return from[this.integer(from.length)] as T
  }

  sample<T>(from: readonly T[], count: number): readonly T[] {
    const left = [...from]
    return Array.from({ length: Math.min(count, left.length) }, () => left.splice(this.integer(left.length), 1)[0] as T)
  }

  /** 0 ≤ n < 2^bits. */
  bits(bits: number): bigint {
    let value = 0n
    for (let got = 0; got < bits; got += 16) value = (value << 16n) | BigInt(this.integer(65_536))
    return BigInt.asUintN(bits, value)
  }

  // mulberry32
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
