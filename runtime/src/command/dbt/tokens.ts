/** SQL as tokens: what is a name, and what only looks like one in a text or a comment. Of whichever warehouse dbt compiled it for. */

export interface Token {
  /** `name`: as it is, keywords included; `quoted`: a name in quotes. */
  readonly kind: 'space' | 'comment' | 'string' | 'name' | 'quoted' | 'number' | 'symbol'
  readonly text: string
  /** Of a quoted name and of a string, what stands in the quotes; else the text. */
  readonly value: string
}

/** How a warehouse writes what DuckDB writes otherwise. */
export interface Dialect {
  /** Whether "a" is a text. */
  readonly doubleIsText: boolean
  /** Whether `a` is a name. */
  readonly backticks: boolean
  /** Whether \ escapes in every text; else only in e'…'. */
  readonly backslashes: boolean
  /** What begins a comment to the end of the line, besides `--`. */
  readonly comments: readonly string[]
  readonly nestedComments: boolean
  readonly tripleQuotes: boolean
}

const STANDARD: Dialect = {
  doubleIsText: false,
  backticks: false,
  backslashes: false,
  comments: [],
  nestedComments: true,
  tripleQuotes: false,
}
const SPARK = { ...STANDARD, doubleIsText: true, backticks: true, backslashes: true, nestedComments: false }
const DIALECTS: ReadonlyMap<string, Dialect> = new Map([
  ['bigquery', { ...SPARK, comments: ['#'], tripleQuotes: true }],
  ['spark', SPARK],
  ['databricks', SPARK],
  ['mysql', { ...SPARK, comments: ['#'] }],
  ['mariadb', { ...SPARK, comments: ['#'] }],
  ['snowflake', { ...STANDARD, backslashes: true, comments: ['//'], nestedComments: false }],
  ['clickhouse', { ...STANDARD, backticks: true, backslashes: true }],
  ['trino', { ...STANDARD, nestedComments: false }],
  ['athena', { ...STANDARD, nestedComments: false }],
])

export const dialectOf = (adapter: string): Dialect => DIALECTS.get(adapter) ?? STANDARD

/** Text that ends within a quote or a comment. */
export class SqlTextError extends Error {
  override readonly name = 'SqlTextError'
}

const SPACE = /\s+/y
const NAME = /[\p{L}_][\p{L}\p{N}\p{M}_$]*/uy
const NUMBER = /(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?/y
const DOLLAR = /\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/uy

/** Put together again, the tokens are the text. Throws SqlTextError. */
export function tokensOf(sql: string, dialect: Dialect): readonly Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < sql.length; ) {
    const token = tokenAt(sql, at, dialect)
    tokens.push(token)
    at += token.text.length
  }
  return tokens
}

const matchAt = (pattern: RegExp, sql: string, at: number): string | null => {
  pattern.lastIndex = at
  return pattern.exec(sql)?.[0] ?? null
}

const asIs = (kind: Token['kind'], text: string): Token => ({ kind, text, value: text })

function tokenAt(sql: string, at: number, dialect: Dialect): Token {
  const space = matchAt(SPACE, sql, at)
  if (space !== null) return asIs('space', space)
  if (['--', ...dialect.comments].some((mark) => sql.startsWith(mark, at))) {
    const end = sql.indexOf('\n', at)
    return asIs('comment', sql.slice(at, end < 0 ? sql.length : end))
  }
  if (sql.startsWith('/*', at)) return asIs('comment', sql.slice(at, commentEnd(sql, at, dialect)))
  const dollar = matchAt(DOLLAR, sql, at)
  if (dollar !== null) return dollarText(sql, at, dollar)
  const char = sql[at] as string
  if (char === "'") return quotedText(sql, at, '', dialect)
  if (char === '"') return dialect.doubleIsText ? quotedText(sql, at, '', dialect) : quotedName(sql, at, dialect)
  if (char === '`' && dialect.backticks) return quotedName(sql, at, dialect)
  const name = matchAt(NAME, sql, at)
  if (name !== null) {
    const next = sql[at + name.length]
    const isPrefix = /^(e|r|b|rb|br|x|n)$/i.test(name) && (next === "'" || (next === '"' && dialect.doubleIsText))
    return isPrefix ? quotedText(sql, at, name, dialect) : asIs('name', name)
  }
  return numberAt(sql, at) ?? asIs('symbol', String.fromCodePoint(sql.codePointAt(at) as number))
}

function numberAt(sql: string, at: number): Token | null {
  const number = matchAt(NUMBER, sql, at)
  return number === null ? null : asIs('number', number)
}

function commentEnd(sql: string, at: number, { nestedComments }: Dialect): number {
  const mark = /\/\*|\*\//g
  mark.lastIndex = at + 2
  let depth = 1
  for (let found = mark.exec(sql); found !== null; found = mark.exec(sql)) {
    if (found[0] === '*/') depth -= 1
    else if (nestedComments) depth += 1
    if (depth === 0) return mark.lastIndex
  }
  throw new SqlTextError('a comment in it has no end')
}

function dollarText(sql: string, at: number, mark: string): Token {
  const end = sql.indexOf(mark, at + mark.length)
  if (end < 0) throw new SqlTextError('a text in it has no end')
  return {
    kind: 'string',
    text: sql.slice(at, end + mark.length),
    value: sql.slice(at + mark.length, end),
  }
}

function quotedName(sql: string, at: number, dialect: Dialect): Token {
  const quote = sql[at] as string
  const escapes = quote === '`' && dialect.backslashes
  const end = quoteEnd(sql, at + 1, quote, escapes)
  const text = sql.slice(at, end + 1)
  return { kind: 'quoted', text, value: sql.slice(at + 1, end).replaceAll(quote + quote, quote) }
}

function quotedText(sql: string, at: number, prefix: string, dialect: Dialect): Token {
  const start = at + prefix.length
  const char = sql[start] as string
  const quote = dialect.tripleQuotes && sql.startsWith(char.repeat(3), start) ? char.repeat(3) : char
  const isRaw = /r/i.test(prefix) && dialect.backslashes
  const escapes = dialect.backslashes || /^e$/i.test(prefix)
  const end = quoteEnd(sql, start + quote.length, quote, escapes)
  const inner = sql.slice(start + quote.length, end)
  const text = sql.slice(at, end + quote.length)
  if (isRaw) return { kind: 'string', text, value: inner }
  const doubled = quote.length === 1 ? inner.replaceAll(quote + quote, quote) : inner
  return { kind: 'string', text, value: escapes ? unescaped(inner, quote) : doubled }
}

/** The place of the quote that ends it: one that is neither doubled nor escaped. */
function quoteEnd(sql: string, from: number, quote: string, escapes: boolean): number {
  for (let at = from; at < sql.length; at += 1) {
    if (escapes && sql[at] === '\\') at += 1
    else if (sql.startsWith(quote, at)) {
      if (quote.length > 1 || sql[at + 1] !== quote) return at
      at += 1
    }
  }
  throw new SqlTextError('a quote in it has no end')
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\u0007',
}

const ESCAPE = /\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[0-7]{3}|[^])/gi

function unescaped(inner: string, quote: string): string {
  const parts = quote.length === 1 ? inner.replaceAll(quote + quote, `\\${quote}`) : inner
  return parts.replace(ESCAPE, (_all, escape: string) => {
    if (/^[xu]../i.test(escape)) return codeText(Number.parseInt(escape.slice(1), 16))
    if (/^[0-7]{3}$/.test(escape)) return codeText(Number.parseInt(escape, 8))
    return Object.hasOwn(ESCAPES, escape) ? (ESCAPES[escape] as string) : escape
  })
}

const codeText = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd')

/** As DuckDB reads it. */
export function forDuckDb(token: Token, dialect: Dialect): string {
  const { kind, text, value } = token
  if (kind === 'comment') return comment(text, dialect)
  if (kind === 'quoted') return text.startsWith('`') ? nameText(value) : text
  if (kind !== 'string' || !(dialect.backslashes || dialect.doubleIsText) || text.startsWith('$')) return text
  return /^[bx]/i.test(text) ? text : `'${value.replaceAll("'", "''")}'`
}

export const nameText = (name: string): string => `"${name.replaceAll('"', '""')}"`

function comment(text: string, { nestedComments }: Dialect): string {
  if (text.startsWith('/*')) return nestedComments ? text : `/*${text.slice(2).replaceAll('/*', '/ *')}`
  return text.startsWith('--') ? text : `--${text.replace(/^(#|\/\/)/, '')}`
}
