/**
 * The tables that a statement may name, told before anything is parsed: whoever runs it looks them up, and gives those
 * that there are to the job. It goes by DuckDB's words, so that what stands in a text, a comment or a part of a longer
 * name is none. A pair that turns out to be a column of a relation costs a look; a table that is missing here would not
 * exist for the statement, since the guard lets it read only what the job has.
 */

/** As written, without quotes: names are compared as `foldName` folds them. */
export interface QualifiedName {
  readonly schema: string
  readonly table: string
}

/** As DuckDB has them: blanks of other scripts among them, wherever they stand outside of quotes. */
const BLANK = '\\t\\n\\f\\r \\u00a0\\u2000-\\u200b\\u202f\\u205f\\u2060\\u3000\\ufeff'
const BLANKS = new RegExp(`[${BLANK}]+|--[^\\r\\n]*`, 'y')
const PLAIN_NAME = new RegExp(`(?![${BLANK}])[A-Za-z_\\x80-\\uffff](?:(?![${BLANK}])[\\w$\\x80-\\uffff])*`, 'y')
const QUOTED_NAME = /"[^"]*(?:""[^"]*)*"/y
/** Only in those behind an `e` does a backslash keep a quote from ending it. */
const TEXT = /[eE]'(?:[^'\\]|\\[^]|'')*'|'[^']*(?:''[^']*)*'/y
const DOLLARS = /\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$/y

/** Every pair of names with a dot between them, each once, in the order of the text. Takes time by the text's length. */
export function qualifiedNames(sql: string): readonly QualifiedName[] {
  const found = new Map<string, QualifiedName>()
  let schema: string | null = null
  let isDotted = false
  for (const { kind, text } of wordsOf(sql)) {
    if (kind === 'name' && isDotted && schema !== null) {
      found.set(JSON.stringify([schema, text]), { schema, table: text })
    }
    isDotted = kind === 'dot'
    if (kind !== 'dot') schema = kind === 'name' ? text : null
  }
  return [...found.values()]
}

interface Word {
  readonly kind: 'name' | 'dot' | 'other'
  readonly text: string
}

/** Without blanks and comments. What nothing ends goes to the text's end: DuckDB refuses such a statement. */
function* wordsOf(sql: string): Generator<Word> {
  for (let at = 0; at < sql.length; ) {
    const end = endOfBlank(sql, at)
    if (end > at) {
      at = end
      continue
    }
    const [word, length] = wordAt(sql, at)
    yield word
    at += length
  }
}

function endOfBlank(sql: string, at: number): number {
  return sql.startsWith('/*', at) ? endOfComment(sql, at) : at + lengthAt(BLANKS, sql, at)
}

/** Comments stand in one another. */
function endOfComment(sql: string, start: number): number {
  const mark = /\/\*|\*\//g
  mark.lastIndex = start
  for (let depth = 0, found = mark.exec(sql); found !== null; found = mark.exec(sql)) {
    depth += found[0] === '/*' ? 1 : -1
    if (depth === 0) return mark.lastIndex
  }
  return sql.length
}

function wordAt(sql: string, at: number): readonly [Word, length: number] {
  const other = (length: number) => [{ kind: 'other', text: '' }, length] as const
  const letter = sql[at] as string
  if (letter === '.') return [{ kind: 'dot', text: '.' }, 1]
  const text = lengthAt(TEXT, sql, at)
  if (text > 0) return other(text)
  const dollars = lengthAt(DOLLARS, sql, at)
  if (dollars > 0) return other(endOfDollars(sql, at, dollars) - at)
  const quoted = lengthAt(QUOTED_NAME, sql, at)
  if (quoted > 0) return [{ kind: 'name', text: sql.slice(at + 1, at + quoted - 1).replaceAll('""', '"') }, quoted]
  const plain = lengthAt(PLAIN_NAME, sql, at)
  if (plain > 0) return [{ kind: 'name', text: sql.slice(at, at + plain) }, plain]
  return other(letter === "'" || letter === '"' ? sql.length - at : 1)
}

function endOfDollars(sql: string, at: number, length: number): number {
  const end = sql.indexOf(sql.slice(at, at + length), at + length)
  return end < 0 ? sql.length : end + length
}

/** 0 where it does not stand there. */
function lengthAt(pattern: RegExp, sql: string, at: number): number {
  pattern.lastIndex = at
  return pattern.exec(sql)?.[0].length ?? 0
}
