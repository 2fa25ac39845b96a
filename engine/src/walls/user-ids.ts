/** User ids for children: one at a time has each, so that no child can signal or trace another. */
export class UserIds {
  readonly #first: number
  readonly #taken = new Set<number>()

  constructor(first: number) {
    this.#first = first
  }

  take(): number {
    let userId = this.#first
    while (this.#taken.has(userId)) userId++
    this.#taken.add(userId)
    return userId
  }

  giveBack(userId: number): void {
    this.#taken.delete(userId)
  }
}
