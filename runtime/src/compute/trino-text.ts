/**
 * The guard of statements in Trino's words. What it lets through is one query in parentheses that nothing in it closes,
 * and in which no name has three parts: without a default catalog and schema, such a query can name the relations that
 * are put in front of it, Trino's own functions, and nothing else. It is Trino that parses; text that this lexer does
 * not know is refused.
 */
import { checkText, notAllowed, type Source, syntaxError } from '../engine/guard.ts'

type Kind = 'blank' | 'name' | 'text' | 'number' | 'mark' | 'parameter'

export interface Token {
  readonly kind: Kind
  readonly text: string
  readonly at: number
}

/** Sticky, tried in order. Trino ends a comment at either end of line, and does not nest comments. */
const TOKENS: readonly (readonly [Kind, RegExp])[] = [
  ['blank', /[ \t\r\n]+|--[^\r\n]*|\/\*[^]*?\*\//y],
  ['text', /(?:[xXuU]&?)?'(?:[^']|'')*'(?!')/y],
  ['name', /[A-Za-z_][A-Za-z0-9_]*|"(?:[^"]|"")*"(?!")/y],
  ['number', /(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_])/y],
  // A comment that nothing closes here could be closed by text that stands behind.
  ['parameter', /\?|\$[1-9][0-9]{0,4}(?![A-Za-z0-9_])/y],
  ['mark', /\/(?!\*)|<>|<=|>=|!=|\|\||->|=>|[-+*%=<>()[\],.]/y],
]

const MAX_NAME_PARTS = 2
const BEGINS = ['SELECT', 'WITH', 'VALUES']

/**
 * The query without its comments, every character in its place. Throws INVALID_DATA `sql_too_long`,
 * `sql_syntax_error`, `sql_not_allowed`.
 */
export function guardedQuery(text: string): string {
  const source: Source = { text, leadBytes: 0 }
  const tokens = queryTokens(source)
  checkNoParameters(tokens, source)
  return withoutComments(tokens, text)
}

/** The parts of a query that may hold `?` or `$1`, without its comments and a semicolon at its end. Throws as `guardedQuery`. */
export function guardedTokens(text: string): readonly Token[] {
  return queryTokens({ text: text.replace(/;\s*$/, ''), leadBytes: 0 })
}

function queryTokens(source: Source): readonly Token[] {
  const { text } = source
  const tokens = checked(source)
  const first = tokens.find(({ text: own }) => own !== '(')
  if (first === undefined) throw syntaxError(source, null, null)
  if (!BEGINS.includes(first.text.toUpperCase()))
    throw notAllowed('anything but one SELECT', source, bytesAt(first, text))
  return tokens
}

/** As `guardedQuery`, for what stands behind WHERE. */
export function guardedCondition(text: string): string {
  const source: Source = { text, leadBytes: 0 }
  const tokens = checked(source)
  checkNoParameters(tokens, source)
  return withoutComments(tokens, text)
}

function checkNoParameters(tokens: readonly Token[], source: Source): void {
  const found = tokens.find(({ kind }) => kind === 'parameter')
  if (found !== undefined) throw notAllowed('parameters', source, bytesAt(found, source.text))
}

function checked(source: Source): readonly Token[] {
  checkText(source)
  const tokens = [...tokensOf(source)]
  checkParentheses(tokens, source)
  checkNames(tokens, source)
  return tokens
}

function* tokensOf(source: Source): Generator<Token> {
  const { text } = source
  for (let at = 0; at < text.length; ) {
    const token = tokenAt(text, at)
    if (token === null) throw notAllowed(`the character ${JSON.stringify(text[at])}`, source, bytesBefore(text, at))
    if (token.kind !== 'blank') yield token
    at += token.text.length
  }
}

function tokenAt(text: string, at: number): Token | null {
  for (const [kind, pattern] of TOKENS) {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    if (found !== undefined) return { kind, text: found, at }
  }
  return null
}

function checkParentheses(tokens: readonly Token[], source: Source): void {
  let depth = 0
  for (const token of tokens) {
    if (token.text === '(') depth += 1
    if (token.text === ')') depth -= 1
    if (depth < 0) throw syntaxError(source, bytesAt(token, source.text), ')')
  }
  if (depth > 0) throw syntaxError(source, null, null)
}

/** `a.b` is a column of a relation; `a.b.c` could be another catalog's table or function. */
function checkNames(tokens: readonly Token[], source: Source): void {
  let parts = 0
  let previous: Token | null = null
  for (const token of tokens) {
    if (token.kind === 'name') {
      parts = previous?.text === '.' && parts > 0 ? parts + 1 : 1
      if (parts > MAX_NAME_PARTS) {
        throw notAllowed('a name of more than two parts', source, bytesAt(token, source.text))
      }
    } else if (token.text !== '.') parts = 0
    previous = token
  }
}

function withoutComments(tokens: readonly Token[], text: string): string {
  let result = ''
  for (const token of tokens) result += blank(text.slice(result.length, token.at)) + token.text
  return result
}

/** Lines and columns stay what they were. */
export function blank(text: string): string {
  return text.replace(/[^\r\n]/g, ' ')
}

const bytesAt = (token: Token, text: string): number => bytesBefore(text, token.at)

function bytesBefore(text: string, at: number): number {
  return Buffer.byteLength(text.slice(0, at))
}
