/** COPY … TO STDOUT, as its words say it. */
import { notSupported, readOnly, WireError } from '../protocol/wire-error.ts'
import { isName, type Statement, type Word } from './words.ts'

export type CopyFormat = 'text' | 'csv' | 'binary'

export interface CopyOut {
  readonly query: Statement
  readonly format: CopyFormat
  readonly hasHeader: boolean
}

/** COPY (SELECT …) TO STDOUT, or COPY table [(column, …)] TO STDOUT. Throws 25006 for COPY FROM, 0A000 for others, 42P02 for parameters. */
export function copyOf({ sql, words }: Statement): CopyOut {
  const isOld = words[1]?.value === 'binary' && words[2] !== undefined && isName(words[2]) && words[2].value !== 'to'
  const source = words.slice(isOld ? 2 : 1)
  const depths = depthsOf(source)
  const end = source.findIndex(({ kind, value }, at) => kind === 'name' && value === 'to' && depths[at] === 0)
  const isFrom = ({ kind, value }: Word, at: number) => kind === 'name' && value === 'from' && depths[at] === 0
  if (end < 0 && source.some(isFrom)) throw readOnly('COPY')
  if (end < 1 || source[end + 1]?.value !== 'stdout') throw notCopied()
  if (source.some(({ kind }) => kind === 'parameter')) throw new WireError('42P02', 'COPY takes no parameters')
  const what = source.slice(0, end)
  const isWhole = depths.indexOf(0) === end - 1
  const query = what[0]?.text === '(' && isWhole ? queryIn(sql, words, what) : queryOfTable(what)
  const { format, hasHeader } = copyOptions(source.slice(end + 2), isOld)
  if (format === 'binary' && hasHeader) throw notSupported('binary rows have no HEADER')
  return { query, format, hasHeader }
}

const notCopied = (): WireError =>
  notSupported('only COPY (SELECT …) TO STDOUT and COPY table TO STDOUT are taken', 'Copy to STDOUT.')

/** How many parentheses are open behind each word. */
function depthsOf(words: readonly Word[]): readonly number[] {
  let depth = 0
  return words.map(({ kind, text }) => {
    if (kind === 'mark') depth += text === '(' ? 1 : text === ')' ? -1 : 0
    return depth
  })
}

/** What stands between the parentheses, which are the first and the last of the words. */
function queryIn(sql: string, words: readonly Word[], inner: readonly Word[]): Statement {
  const [open, close] = [inner[0], inner.at(-1)]
  if (open === undefined || close?.text !== ')' || inner.length < 3) throw notCopied()
  const start = words[0]?.at ?? 0
  return { sql: sql.slice(open.at - start + 1, close.at - start).trim(), words: inner.slice(1, -1) }
}

/** `a.b (x, y)` → `SELECT x, y FROM a.b`. */
function queryOfTable(words: readonly Word[]): Statement {
  const open = words.findIndex(({ text }) => text === '(')
  const name = open < 0 ? words : words.slice(0, open)
  const columns = open < 0 ? [] : words.slice(open + 1, -1)
  const isNamed = isListed(name, '.') && (open < 0 || (isListed(columns, ',') && words.at(-1)?.text === ')'))
  if (!isNamed) throw notCopied()
  const list = open < 0 ? [mark('*')] : columns
  const all = [keyword('SELECT'), ...list, keyword('FROM'), ...name]
  let sql = ''
  const placed = all.map((word) => {
    const at = sql.length
    sql += `${word.text} `
    return { ...word, at }
  })
  return { sql: sql.trim(), words: placed }
}

/** Names with that between them. */
const isListed = (words: readonly Word[], between: string): boolean =>
  words.length % 2 === 1 && words.every((word, at) => (at % 2 === 0 ? isName(word) : word.text === between))

const keyword = (text: string): Word => ({ kind: 'name', text, value: text.toLowerCase(), at: 0 })
const mark = (text: string): Word => ({ kind: 'mark', text, value: text, at: 0 })

const FORMATS: ReadonlySet<string> = new Set<CopyFormat>(['text', 'csv', 'binary'])

function copyOptions(words: readonly Word[], isBinary: boolean): Pick<CopyOut, 'format' | 'hasHeader'> {
  const told = words
    .filter(({ text }) => !['(', ')', ','].includes(text))
    .map(({ value }) => value.replaceAll("'", '').toLowerCase())
  let format: CopyFormat = isBinary ? 'binary' : 'text'
  let hasHeader = false
  for (let at = told[0] === 'with' ? 1 : 0; at < told.length; at += 1) {
    const option = told[at]
    const value = told[at + 1]
    if (option === 'format' && value !== undefined && FORMATS.has(value)) {
      format = value as CopyFormat
      at += 1
    } else if (option === 'csv' || option === 'binary') format = option
    else if (option === 'header') {
      hasHeader = value === undefined || !['false', 'off', '0'].includes(value)
      if (value !== undefined && ['true', 'false', 'on', 'off', '1', '0'].includes(value)) at += 1
    } else throw notSupported('of COPY only FORMAT text, csv or binary, and HEADER, are taken')
  }
  return { format, hasHeader }
}
