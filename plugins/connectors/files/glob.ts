/** Patterns of paths: `*` and `?` within a name, one `**` for folders of any depth. Matching takes linear time and space. */

const MAX_SEGMENTS = 32

export class Glob {
  readonly text: string
  readonly #before: readonly string[]
  /** Null: there is no `**`. */
  readonly #after: readonly string[] | null

  private constructor(text: string, before: readonly string[], after: readonly string[] | null) {
    this.text = text
    this.#before = before
    this.#after = after
  }

  /** Null for what leads elsewhere, or is no pattern. */
  static parse(text: string): Glob | null {
    const segments = text.split('/')
    const isPlain = segments.every((one) => one !== '' && one !== '.' && one !== '..' && !/[\0\\]/.test(one))
    const anyDepth = segments.filter((one) => one.includes('**'))
    const isRight = isPlain && segments.length <= MAX_SEGMENTS && segments.at(-1) !== '**'
    if (!isRight || anyDepth.length > 1 || anyDepth.some((one) => one !== '**')) return null
    const at = segments.indexOf('**')
    return at < 0 ? new Glob(text, segments, null) : new Glob(text, segments.slice(0, at), segments.slice(at + 1))
  }

  /** What every path begins with that it matches: `orders/2026`, or nothing. */
  get prefix(): string {
    const isPlain = (segment: string) => !/[*?]/.test(segment)
    const folders = this.#after === null ? this.#before.slice(0, -1) : this.#before
    const end = folders.findIndex((segment) => !isPlain(segment))
    return (end < 0 ? folders : folders.slice(0, end)).join('/')
  }

  matches(path: string): boolean {
    const segments = path.split('/')
    if (segments.some((segment) => segment.startsWith('.'))) return false
    const [before, after] = [this.#before, this.#after]
    if (after === null) return segments.length === before.length && pairwise(before, segments)
    if (segments.length < before.length + after.length) return false
    return pairwise(before, segments) && pairwise(after, segments.slice(segments.length - after.length))
  }

  /** Whether something within that folder may match. */
  entersFolder(path: string): boolean {
    const segments = path.split('/')
    if (segments.some((segment) => segment.startsWith('.'))) return false
    if (this.#after !== null) return pairwise(this.#before.slice(0, segments.length), segments)
    return segments.length < this.#before.length && pairwise(this.#before.slice(0, segments.length), segments)
  }
}

function pairwise(patterns: readonly string[], segments: readonly string[]): boolean {
  return patterns.every((pattern, index) => segments[index] !== undefined && matchesName(pattern, segments[index]))
}

/** By going back to the last star alone: a pattern of a tenant cannot take long. */
function matchesName(pattern: string, name: string): boolean {
  let [at, star, from] = [0, -1, 0]
  for (let here = 0; here < name.length; ) {
    if (pattern[at] === '*') {
      star = at
      from = here
      at += 1
    } else if (pattern[at] === '?' || pattern[at] === name[here]) {
      at += 1
      here += 1
    } else if (star >= 0) {
      at = star + 1
      from += 1
      here = from
    } else return false
  }
  return /^\**$/.test(pattern.slice(at))
}
