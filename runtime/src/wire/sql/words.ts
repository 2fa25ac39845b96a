/**
 * The words of a statement, as PostgreSQL's scanner has them. They say where a statement goes, and what of it a PostgreSQL is
 * given: its own text again, without comments.
 */
import { WireError } from '../protocol/wire-error.ts'

export interface Word {
  readonly kind: 'name' | 'quoted' | 'text' | 'number' | 'parameter' | 'mark'
  /** As it is written. */
  readonly text: string
  /** Of a name what it means: folded, or without its quotes; else the text. */
  readonly value: string
  readonly at: number
}

const BLANK = /[ \t\n\r\f\v]+|--[^\r\n]*/y
const COMMENT_MARK = /\/\*|\*\//g
const ESCAPED_TEXT = /[eE]'(?:[^'\\]|\\[^]|'')*'/y
const TEXT = /[bBxXnN]?'(?:[^']|'')*'/y
const DOLLAR = /\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$/y
const PARAMETER = /\$[0-9]+/y
const QUOTED = /"(?:[^"]|"")+"/y
const NAME = /[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*/y
const NUMBER = /(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y
const MARK = /[-+*/<>=~!@#%^&|`?.,;:()[\]{}]/y

/** Throws 42601 where a text, a name or a comment has no end, or what is there belongs to no statement. */
export function wordsOf(sql: string): readonly Word[] {
  const words: Word[] = []
  for (let at = skipBlanks(sql, 0); at < sql.length; ) {
    const word = wordAt(sql, at)
    words.push(word)
    at = skipBlanks(sql, at + word.text.length)
  }
  return words
}

function skipBlanks(sql: string, from: number): number {
  let at = from
  for (;;) {
    const end = sql.startsWith('/*', at) ? endOfComment(sql, at) : at + lengthOf(BLANK, sql, at)
    if (end === at) return at
    at = end
  }
}

/** Comments stand in one another. */
function endOfComment(sql: string, start: number): number {
  COMMENT_MARK.lastIndex = start
  let depth = 0
  for (let found = COMMENT_MARK.exec(sql); found !== null; found = COMMENT_MARK.exec(sql)) {
    depth += found[0] === '/*' ? 1 : -1
    if (depth === 0) return COMMENT_MARK.lastIndex
  }
  throw syntaxError('a comment has no end')
}

function lengthOf(pattern: RegExp, sql: string, at: number): number {
  pattern.lastIndex = at
  return pattern.exec(sql)?.[0].length ?? 0
}

function wordAt(sql: string, at: number): Word {
  const take = (kind: Word['kind'], length: number, value?: string): Word => {
    const text = sql.slice(at, at + length)
    return { kind, text, value: value ?? text, at }
  }
  // Escapes in names: nobody writes them, and they would hide what is named.
  if (/^[uU]&['"]/.test(sql.slice(at, at + 3))) throw syntaxError('escapes by U& are not taken')
  const texts = lengthOf(ESCAPED_TEXT, sql, at) || lengthOf(TEXT, sql, at)
  if (texts > 0) return take('text', texts)
  const parameter = lengthOf(PARAMETER, sql, at)
  if (parameter > 0) return take('parameter', parameter)
  const dollar = lengthOf(DOLLAR, sql, at)
  if (dollar > 0) {
    const mark = sql.slice(at, at + dollar)
    const end = sql.indexOf(mark, at + dollar)
    if (end < 0) throw syntaxError('a text has no end')
    return take('text', end + dollar - at)
  }
  const quoted = lengthOf(QUOTED, sql, at)
  if (quoted > 0) return take('quoted', quoted, sql.slice(at + 1, at + quoted - 1).replaceAll('""', '"'))
  const name = lengthOf(NAME, sql, at)
  if (name > 0) return take('name', name, folded(sql.slice(at, at + name)))
  const number = lengthOf(NUMBER, sql, at)
  if (number > 0) return take('number', number)
  if (lengthOf(MARK, sql, at) > 0) return take('mark', 1)
  throw syntaxError('a text or a name has no end, or a sign belongs to no statement')
}

/** ASCII letters only, as it is in a database of UTF-8. */
const folded = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

function syntaxError(what: string): WireError {
  return new WireError('42601', what, { code: 'sql_syntax_error', hint: 'Correct the statement.' })
}

/** The statements between semicolons, each with its own text; what is empty is left out. */
export interface Statement {
  readonly sql: string
  readonly words: readonly Word[]
}

export function statementsOf(sql: string): readonly Statement[] {
  const statements: Statement[] = []
  let own: Word[] = []
  const end = (): void => {
    const [first, last] = [own[0], own.at(-1)]
    if (first !== undefined && last !== undefined) {
      statements.push({ sql: sql.slice(first.at, last.at + last.text.length), words: own })
    }
    own = []
  }
  for (const word of wordsOf(sql)) {
    if (word.kind === 'mark' && word.text === ';') end()
    else own.push(word)
  }
  end()
  return statements
}

export const isName = ({ kind }: Word): boolean => kind === 'name' || kind === 'quoted'

/** The words again, each as `written` gives it: what touched touches, and elsewhere stands one blank. */
export function textOf(words: readonly Word[], written = ({ text }: Word, _at: number): string => text): string {
  let text = ''
  let end = -1
  for (const [at, word] of words.entries()) {
    text += (end === -1 || end === word.at ? '' : ' ') + written(word, at)
    end = word.at + word.text.length
  }
  return text
}

/** What a statement says of the names of its columns. */
export interface ResultNames {
  /** In quotes. */
  readonly chosen: ReadonlySet<string>
  /** Of functions. */
  readonly called: ReadonlySet<string>
  /** Whether columns may come that it does not name: as `*`, with names that look like a function's call. */
  readonly isOpen: boolean
}

export function resultNames(words: readonly Word[]): ResultNames {
  const isCalled = (at: number): boolean => words[at]?.kind === 'name' && words[at + 1]?.text === '('
  return {
    chosen: new Set(words.flatMap(({ kind, value }) => (kind === 'quoted' ? [value] : []))),
    called: new Set(words.flatMap(({ value }, at) => (isCalled(at) ? [value] : []))),
    isOpen: words.some(({ text }) => text === '*') || !words.some(({ value }) => value === 'select'),
  }
}
