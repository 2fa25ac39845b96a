/** SQL in strings: what a wrong bound, order or junction would be. */
import type { Edit } from './mutation.ts'

/** A statement, or a part that begins as one does and has a second word of SQL; an English sentence is neither. */
const BEGINS =
  /^[\s(]*(select|insert\s+into|update|delete\s+from|with|create|alter|drop|copy|merge\s+into|from|where|order\s+by|on\s+conflict)\b/i
const GOES_ON = /\b(from|into|table|index|set|values|where|select|returning|limit|desc|asc|join)\b|\bas\s*\(|[=<>]/i

export function isSql(text: string): boolean {
  const begin = BEGINS.exec(text)
  return begin !== null && GOES_ON.test(text.slice(begin[0].length))
}

/** By the token in lower case. An empty text drops it. */
const OTHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '<': '<=',
    '<=': '<',
    '>': '>=',
    '>=': '>',
    '=': '<>',
    '<>': '=',
    and: 'or',
    or: 'and',
    desc: 'asc',
    asc: 'desc',
    not: '',
    distinct: '',
    left: '',
    min: 'max',
    max: 'min',
    true: 'false',
    false: 'true',
    first: 'last',
    last: 'first',
  }),
)

/** Quoted texts, names and comments as a whole, so that nothing inside of them is taken for a token. */
const TOKENS =
  /'(?:[^']|'')*'|"[^"\n]*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$\d+|::|=>|->>?|[<>!]?=|<>|[@?#]>|<@|[<>]|[a-z_][\w$]*|\d+(?:\.\d+)?/gi

/** Edits of a statement that begins at `start` of the file. */
export function sqlEdits(text: string, start: number): readonly Edit[] {
  const edits: Edit[] = []
  for (const match of text.matchAll(TOKENS)) {
    const from = match[0]
    const to = /^\d+$/.test(from) ? String(Number(from) + 1) : replacement(text, match.index, from)
    if (to !== null) edits.push({ at: start + match.index, from, to, kind: 'sql' })
  }
  return edits
}

function replacement(text: string, at: number, token: string): string | null {
  const other = OTHERS.get(token.toLowerCase())
  if (other === undefined) return null
  const before = text.slice(0, at)
  const after = text.slice(at + token.length)
  // A column of an update or a named argument is no comparison, and what follows a dot is a name.
  if (token === '=' && /\b(set|,)\s*[\w".]+\s*$/i.test(before)) return null
  if (before.endsWith('.') || (/^(min|max)$/i.test(token) && !after.startsWith('('))) return null
  if (/^left$/i.test(token) && !/^\s+join/i.test(after)) return null
  if (/^(first|last)$/i.test(token) && !/nulls\s+$/i.test(before)) return null
  return other
}
