/** What the guard has said of texts, for a child that is asked them again. */
import type { GuardedSql } from './guarded-sql.ts'

const MAX_TEXTS = 32
/** Trees are many times as large as their texts. */
const MAX_CHARS = 4096

/** Texts that were let through; the one that was asked the longest ago goes first. */
export class GuardedTexts {
  readonly #known = new Map<string, GuardedSql>()

  /** What is known of the text, or what `guard` says of it now. Rejected as `guard` is. */
  async get(text: string, guard: () => Promise<GuardedSql>): Promise<GuardedSql> {
    const known = this.#known.get(text)
    const guarded = known ?? (await guard())
    this.#known.delete(text)
    if (text.length <= MAX_CHARS) this.#known.set(text, guarded)
    const [oldest] = this.#known.keys()
    if (this.#known.size > MAX_TEXTS && oldest !== undefined) this.#known.delete(oldest)
    return guarded
  }
}
