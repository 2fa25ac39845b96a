/** One question, asked of products by whatever ways they are come to: each is looked at once. */
export class OnceEach<Answer> {
  readonly #known = new Map<string, Answer>()
  /** Those that are being looked at, each within the one before it. */
  readonly #open = new Map<string, number>()
  /** The outermost of those that an answer has leant on. */
  #lowest = Number.POSITIVE_INFINITY

  /**
   * One after the other.
   * @param within the answer where it is being looked at already: versions of the past may have been made of each other
   */
  async answer(id: string, within: Answer, look: () => Promise<Answer>): Promise<Answer> {
    if (this.#known.has(id)) return this.#known.get(id) as Answer
    const around = this.#open.get(id)
    if (around !== undefined) {
      this.#lowest = Math.min(this.#lowest, around)
      return within
    }
    const [depth, before] = [this.#open.size, this.#lowest]
    this.#lowest = Number.POSITIVE_INFINITY
    this.#open.set(id, depth)
    try {
      const answer = await look()
      // What leans on one that is not answered yet holds within that alone.
      const isWhole = this.#lowest >= depth
      if (isWhole) this.#known.set(id, answer)
      this.#lowest = isWhole ? before : Math.min(before, this.#lowest)
      return answer
    } finally {
      this.#open.delete(id)
    }
  }
}
