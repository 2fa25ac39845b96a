/**
 * The string literals of JavaScript and TypeScript. A file is read or run by a name that stands in some literal, which
 * no import tells of. Comments are left out: what they mention nobody opens.
 */

export interface Literal {
  readonly text: string
  /** A piece of a template that comes after `}` of a value. */
  readonly isAfterValue: boolean
  /** A piece of a template that ends at `${`. */
  readonly isBeforeValue: boolean
}

export interface Scanned {
  /** The text without its comments. */
  readonly code: string
  readonly literals: readonly Literal[]
  /** False where a comment, literal or value has no end: then the text was not understood. */
  readonly isWhole: boolean
}

const BLANK = /\s+/y
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y
const QUOTED = /'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*"/y
const REGULAR = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y
const WORD = /[\w$]+/y
const TEMPLATE_PIECE = /(?:\\[\s\S]|\$(?!\{)|[^`\\$])*/y

/** After any of these `/` begins a regular expression, and divides after anything else. */
const BEFORE_REGULAR =
  /^(?:|[([{}.,;=:!&|?+\-*%<>~^]|return|typeof|case|in|of|yield|await|delete|void|new|throw|else|do)$/

export function scan(text: string): Scanned {
  return new Scanner(text).scan()
}

class Scanner {
  readonly #text: string
  readonly #literals: Literal[] = []
  /** For each value of a template that is open: how many of its braces are. */
  readonly #open: number[] = []
  #at = 0
  #code = ''
  #previous = ''

  constructor(text: string) {
    this.#text = text
  }

  scan(): Scanned {
    while (this.#at < this.#text.length) this.#next()
    return { code: this.#code, literals: this.#literals, isWhole: this.#open.length === 0 && this.#previous !== '`…' }
  }

  #next(): void {
    const blank = this.#take(BLANK)
    this.#code += blank
    if (blank !== '' || this.#take(COMMENT) !== '') return
    const quoted = this.#take(QUOTED)
    if (quoted !== '') this.#literals.push({ text: quoted.slice(1, -1), isAfterValue: false, isBeforeValue: false })
    const mayBeRegular = quoted === '' && BEFORE_REGULAR.test(this.#previous)
    const regular = mayBeRegular ? this.#take(REGULAR) : ''
    const token = quoted || regular || this.#take(WORD) || (this.#text[this.#at++] as string)
    this.#add(token)
    if (token === '`') this.#template(false)
    else this.#countBraces(token)
  }

  #countBraces(token: string): void {
    const inner = this.#open.length - 1
    if (inner < 0) return
    if (token === '{') this.#open[inner] = (this.#open[inner] as number) + 1
    if (token !== '}') return
    if (this.#open[inner] !== 0) this.#open[inner] = (this.#open[inner] as number) - 1
    else {
      this.#open.pop()
      this.#template(true)
    }
  }

  #template(isAfterValue: boolean): void {
    const text = this.#take(TEMPLATE_PIECE)
    const isBeforeValue = this.#text.startsWith('${', this.#at)
    this.#literals.push({ text, isAfterValue, isBeforeValue })
    const end = isBeforeValue ? '${' : '`'
    const isWhole = this.#text.startsWith(end, this.#at)
    this.#at += end.length
    this.#add(text + end)
    this.#previous = isWhole ? (isBeforeValue ? '{' : 'a literal') : '`…'
    if (isBeforeValue) this.#open.push(0)
  }

  #add(token: string): void {
    this.#code += token
    this.#previous = token
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const taken = pattern.exec(this.#text)?.[0] ?? ''
    this.#at += taken.length
    return taken
  }
}
