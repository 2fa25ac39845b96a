/** Sessions end within seconds of what they were let in by, whether or not they are asking for something. */

const EVERY_MS = 2_000

/** A service password or an application key; of other tokens, which nobody can revoke before their time, the tenant. */
export interface Held {
  readonly kind: 'password' | 'key' | 'tenant'
  readonly id: string
}

/** Which of these are good now. */
export type Good = Readonly<Record<Held['kind'], (ids: readonly string[]) => Promise<ReadonlySet<string>>>>

const KINDS = ['password', 'key', 'tenant'] as const satisfies readonly Held['kind'][]

export class CredentialWatch {
  readonly #good: Good
  readonly #everyMs: number
  readonly #held: Readonly<Record<Held['kind'], Map<string, Set<() => void>>>> = {
    password: new Map(),
    key: new Map(),
    tenant: new Map(),
  }
  #timer: NodeJS.Timeout | null = null

  constructor(good: Good, everyMs = EVERY_MS) {
    this.#good = good
    this.#everyMs = everyMs
  }

  /** `end` is called when it is good no more. Returns what ends the watch. */
  hold({ kind, id }: Held, end: () => void): () => void {
    const held = this.#held[kind]
    const ends = held.get(id) ?? new Set()
    held.set(id, ends.add(end))
    this.#wait()
    return () => {
      ends.delete(end)
      if (ends.size === 0 && held.get(id) === ends) held.delete(id)
    }
  }

  /** One look for all of them; none while nobody is held. */
  #wait(): void {
    if (this.#timer !== null || KINDS.every((kind) => this.#held[kind].size === 0)) return
    this.#timer = setTimeout(() => void this.#look(), this.#everyMs).unref()
  }

  async #look(): Promise<void> {
    await Promise.all(KINDS.map((kind) => this.#lookAt(kind)))
    this.#timer = null
    this.#wait()
  }

  async #lookAt(kind: Held['kind']): Promise<void> {
    const held = this.#held[kind]
    const ids = [...held.keys()]
    if (ids.length === 0) return
    try {
      const good = await this.#good[kind](ids)
      for (const id of ids.filter((one) => !good.has(one))) for (const end of held.get(id) ?? []) end()
    } catch {
      // What cannot be judged now is judged at the next look; statements are refused meanwhile.
    }
  }
}
