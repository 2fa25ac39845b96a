/**
 * The guard of statements in Trino's words. What it lets through is one query in parentheses that nothing in it closes,
 * and in which no name has three parts: without a default catalog and schema, such a query can name the relations that
 * are put in front of it, Trino's own functions, and nothing else. It is Trino that parses; text that this lexer does
 * not know is refused.
 */
import { checkSqlText, type SqlSource, sqlNotAllowed, sqlSyntaxError } from '@sluice/sdk'

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

/** Behind WITH they set properties of the session and make functions, unless they are names of queries. */
const NO_WITH_QUERY: ReadonlySet<string> = new Set(['SESSION', 'FUNCTION'])

/** A statement's user is the platform, of whom these words, and the functions that they stand for, would tell. */
const SESSION_WORD = /^current_(?:user|catalog|schema|path)$/i
const SESSION_FUNCTION = /^"?(?:\$current_(?:user|catalog|schema|path)|current_groups)"?$/i

/** What every query inside of a condition has, and the names of columns that only Trino makes, as `"$path"`. */
const NO_CONDITION = /^(?:select|values|table)$|\$/i

/**
 * The query without its comments, every character in its place. Throws INVALID_DATA `sql_too_long`,
 * `sql_syntax_error`, `sql_not_allowed`.
 */
export function guardedQuery(text: string): string {
  const source: SqlSource = { text, leadBytes: 0 }
  const tokens = queryTokens(source)
  checkNoParameters(tokens, source)
  return withoutComments(tokens, text)
}

/** The parts of a query that may hold `?` or `$1`, without its comments and a semicolon at its end. Throws as `guardedQuery`. */
export function guardedTokens(text: string): readonly Token[] {
  return queryTokens({ text: text.replace(/;\s*$/, ''), leadBytes: 0 })
}

function queryTokens(source: SqlSource): readonly Token[] {
  const { text } = source
  const tokens = checked(source)
  const begin = tokens.findIndex(({ text: own }) => own !== '(')
  const first = tokens[begin]
  if (first === undefined) throw sqlSyntaxError(source, null, null)
  if (!BEGINS.includes(first.text.toUpperCase()))
    throw sqlNotAllowed('anything but one SELECT', source, bytesAt(first, text))
  if (first.text.toUpperCase() === 'WITH') checkWithQuery(tokens.slice(begin + 1), source)
  return tokens
}

/** Of what stands behind the first word WITH: in front of a query inside of another Trino takes neither. */
function checkWithQuery([name, next]: readonly Token[], source: SqlSource): void {
  const word = name?.text.toUpperCase() ?? ''
  if (name === undefined || !NO_WITH_QUERY.has(word)) return
  if (next?.text.toUpperCase() !== 'AS' && next?.text !== '(')
    throw sqlNotAllowed(`WITH ${word}`, source, bytesAt(name, source.text))
}

/** As `guardedQuery`, for what stands behind WHERE of one table: other tables, and Trino's own columns, are no part of it. */
export function guardedCondition(text: string): string {
  const source: SqlSource = { text, leadBytes: 0 }
  const tokens = checked(source)
  checkNoParameters(tokens, source)
  const found = tokens.find(({ kind, text: own }) => kind === 'name' && NO_CONDITION.test(own))
  if (found !== undefined) throw sqlNotAllowed(`${found.text} in a condition`, source, bytesAt(found, text))
  return withoutComments(tokens, text)
}

function checkNoParameters(tokens: readonly Token[], source: SqlSource): void {
  const found = tokens.find(({ kind }) => kind === 'parameter')
  if (found !== undefined) throw sqlNotAllowed('parameters', source, bytesAt(found, source.text))
}

function checked(source: SqlSource): readonly Token[] {
  checkSqlText(source)
  const tokens = [...tokensOf(source)]
  checkParentheses(tokens, source)
  checkNames(tokens, source)
  checkParameters(tokens, source)
  checkSession(tokens, source)
  return tokens
}

function* tokensOf(source: SqlSource): Generator<Token> {
  const { text } = source
  for (let at = 0; at < text.length; ) {
    const token = tokenAt(text, at)
    if (token === null) throw sqlNotAllowed(`the character ${JSON.stringify(text[at])}`, source, bytesBefore(text, at))
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

function checkParentheses(tokens: readonly Token[], source: SqlSource): void {
  let depth = 0
  for (const token of tokens) {
    if (token.text === '(') depth += 1
    if (token.text === ')') depth -= 1
    if (depth < 0) throw sqlSyntaxError(source, bytesAt(token, source.text), ')')
  }
  if (depth > 0) throw sqlSyntaxError(source, null, null)
}

/** `a.b` is a column of a relation; `a.b.c` could be another catalog's table or function. */
function checkNames(tokens: readonly Token[], source: SqlSource): void {
  let parts = 0
  let previous: Token | null = null
  for (const token of tokens) {
    if (token.kind === 'name') {
      parts = previous?.text === '.' && parts > 0 ? parts + 1 : 1
      if (parts > MAX_NAME_PARTS) {
        throw sqlNotAllowed('a name of more than two parts', source, bytesAt(token, source.text))
      }
    } else if (token.text !== '.') parts = 0
    previous = token
  }
}

/** A value beside a word or a dot would be read as a part of it. */
function checkParameters(tokens: readonly Token[], source: SqlSource): void {
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== 'parameter') continue
    const neighbours = [tokens[at - 1], tokens[at + 1]]
    if (neighbours.some((other) => other !== undefined && isJoined(token, other)))
      throw sqlNotAllowed('a parameter as a part of a name or a number', source, bytesAt(token, source.text))
  }
}

function isJoined(parameter: Token, other: Token): boolean {
  if (other.text === '.') return true
  const isWord = other.kind === 'name' || other.kind === 'number'
  const [first, second] = parameter.at < other.at ? [parameter, other] : [other, parameter]
  return isWord && first.at + first.text.length === second.at
}

function checkSession(tokens: readonly Token[], source: SqlSource): void {
  const found = tokens.find(
    ({ kind, text }, at) =>
      kind === 'name' && (SESSION_WORD.test(text) || (SESSION_FUNCTION.test(text) && tokens[at + 1]?.text === '(')),
  )
  if (found !== undefined) throw sqlNotAllowed(found.text, source, bytesAt(found, source.text))
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
