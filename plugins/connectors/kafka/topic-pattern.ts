/** Names of topics, with `*` for any characters. */
const NAME = /^[A-Za-z0-9._*-]{1,249}$/
const MAX_STARS = 4

export class TopicPattern {
  readonly text: string
  readonly #parts: readonly string[]

  private constructor(text: string) {
    this.text = text
    this.#parts = text.split('*')
  }

  /** Null where no topic can have such a name. */
  static parse(text: string): TopicPattern | null {
    return NAME.test(text) && text.split('*').length <= MAX_STARS + 1 ? new TopicPattern(text) : null
  }

  get isPlain(): boolean {
    return this.#parts.length === 1
  }

  /** Part by part, each as early as it can be: no expression that a name could keep busy. */
  takes(name: string): boolean {
    const [first = '', ...others] = this.#parts
    const last = others.pop()
    if (last === undefined) return name === first
    if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length) return false
    let at = first.length
    const end = name.length - last.length
    for (const part of others) {
      const found = name.indexOf(part, at)
      if (found < 0 || found + part.length > end) return false
      at = found + part.length
    }
    return true
  }
}
