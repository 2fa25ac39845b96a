/** Sessions by service passwords end within seconds of their password, whether or not they are asking for something. */

const EVERY_MS = 2_000

/** Which of these are good now. */
type Good = (users: readonly string[]) => Promise<ReadonlySet<string>>

export class PasswordWatch {
  readonly #good: Good
  readonly #everyMs: number
  readonly #held = new Map<string, Set<() => void>>()
  #timer: NodeJS.Timeout | null = null

  constructor(good: Good, everyMs = EVERY_MS) {
    this.#good = good
    this.#everyMs = everyMs
  }

  /** `end` is called when the password is good no more. Returns what ends the watch. */
  hold(user: string, end: () => void): () => void {
    const ends = this.#held.get(user) ?? new Set()
    this.#held.set(user, ends.add(end))
    this.#wait()
    return () => {
      ends.delete(end)
      if (ends.size === 0 && this.#held.get(user) === ends) this.#held.delete(user)
    }
  }

  /** One look for all of them; none while nobody is held. */
  #wait(): void {
    if (this.#timer !== null || this.#held.size === 0) return
    this.#timer = setTimeout(() => void this.#look(), this.#everyMs).unref()
  }

  async #look(): Promise<void> {
    const users = [...this.#held.keys()]
    try {
      const good = await this.#good(users)
      for (const user of users.filter((one) => !good.has(one))) for (const end of this.#held.get(user) ?? []) end()
    } catch {
      // What cannot be judged now is judged at the next look; statements are refused meanwhile.
    }
    this.#timer = null
    this.#wait()
  }
}
