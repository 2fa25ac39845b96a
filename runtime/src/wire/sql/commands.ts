/** Where a statement goes, by its words. What of it is understood wrongly here is judged all the same where it goes. */
import { notSupported } from '../protocol/wire-error.ts'
import type { Statement, Word } from './words.ts'

export type Door = 'products' | 'catalogue'

/** Statements that change something, whatever it is. */
const WRITES: ReadonlySet<string> = new Set(
  `insert update delete merge create alter drop truncate grant revoke vacuum analyze reindex cluster refresh comment lock
  import security call do notify checkpoint reassign replace attach detach load install`.split(/\s+/),
)

export const isWrite = (word: string): boolean => WRITES.has(word)

/** The first word that says something, folded. */
export function commandOf({ words }: Pick<Statement, 'words'>): string {
  const first = words.find(({ text }) => text !== '(')
  return first?.kind === 'name' ? first.value : ''
}

/** Relations of the catalogue are named by their schema, or by a name that no product may have. */
export function doorOf(words: readonly Word[], isKnownFunction: (name: string) => boolean): Door {
  if (words.some((_, at) => namesCatalogue(words, at))) return 'catalogue'
  const command = commandOf({ words })
  if (command !== 'select' && command !== 'values') return 'products'
  if (words.some(({ kind, value }) => kind === 'name' && value === 'from')) return 'products'
  const isKnown = words.every(
    (word, at) => word.kind !== 'name' || words[at + 1]?.text !== '(' || isKnownFunction(word.value),
  )
  return isKnown ? 'catalogue' : 'products'
}

const CATALOGUE_SCHEMAS: ReadonlySet<string> = new Set(['pg_catalog', 'information_schema'])

function namesCatalogue(words: readonly Word[], at: number): boolean {
  const word = words[at] as Word
  if (!isName(word)) return false
  if (CATALOGUE_SCHEMAS.has(word.value) && words[at + 1]?.text === '.') return true
  if (!word.value.startsWith('pg_') || words[at - 1]?.text === '.') return false
  const before = words[at - 1]?.value
  return before === 'from' || before === 'join' || before === ',' || before === 'only' || before === '('
}

export const isName = ({ kind }: Word): boolean => kind === 'name' || kind === 'quoted'

export interface CopyOut {
  readonly query: Statement
  readonly format: 'text' | 'csv'
  readonly hasHeader: boolean
}

/** COPY (SELECT …) TO STDOUT. Throws 0A000 for any other. */
export function copyOf({ sql, words }: Statement): CopyOut {
  const open = words[1]
  let depth = 0
  const close = words.findIndex(({ text }, at) => {
    if (at === 0) return false
    depth += text === '(' ? 1 : text === ')' ? -1 : 0
    return depth === 0
  })
  const [to, out] = words.slice(close + 1, close + 3).map(({ value }) => value)
  const end = words[close]
  if (open?.text !== '(' || end === undefined || close < 2 || to !== 'to' || out !== 'stdout') {
    throw notSupported(
      'only COPY (SELECT …) TO STDOUT is taken',
      'Give the table as COPY (SELECT * FROM namespace.product).',
    )
  }
  const inner = {
    sql: sql.slice(open.at - (words[0]?.at ?? 0) + 1, end.at - (words[0]?.at ?? 0)).trim(),
    words: words.slice(2, close),
  }
  return { query: inner, ...copyOptions(words.slice(close + 3)) }
}

function copyOptions(words: readonly Word[]): Pick<CopyOut, 'format' | 'hasHeader'> {
  const told = words
    .filter(({ text }) => !['(', ')', ','].includes(text))
    .map(({ value }) => value.replaceAll("'", '').toLowerCase())
  let format: CopyOut['format'] = 'text'
  let hasHeader = false
  for (let at = told[0] === 'with' ? 1 : 0; at < told.length; at += 1) {
    const option = told[at]
    if (option === 'format' && (told[at + 1] === 'csv' || told[at + 1] === 'text')) {
      format = told[at + 1] as CopyOut['format']
      at += 1
    } else if (option === 'csv') format = 'csv'
    else if (option === 'header') {
      const value = told[at + 1]
      hasHeader = value === undefined || !['false', 'off', '0'].includes(value)
      if (value !== undefined && ['true', 'false', 'on', 'off', '1', '0'].includes(value)) at += 1
    } else throw notSupported('of COPY only FORMAT text or csv, and HEADER, are taken')
  }
  return { format, hasHeader }
}

export interface CursorDeclaration {
  readonly name: string
  readonly query: Statement
}

/** DECLARE name [NO SCROLL] CURSOR [WITHOUT HOLD] FOR SELECT …. Throws 0A000 for any other. */
export function cursorOf({ sql, words }: Statement): CursorDeclaration {
  const at = words.findIndex(({ kind, value }) => kind === 'name' && value === 'for')
  const [name, query] = [words[1], words[at + 1]]
  const options = words.slice(2, Math.max(2, at)).map(({ value }) => value)
  const isPlain = /^(?:no scroll )?(?:insensitive |asensitive )?cursor(?: without hold)?$/.test(options.join(' '))
  if (at < 0 || name === undefined || !isName(name) || query === undefined || !isPlain) {
    throw notSupported('only DECLARE … [NO SCROLL] CURSOR [WITHOUT HOLD] FOR SELECT … is taken')
  }
  return { name: name.value, query: { sql: sql.slice(query.at - (words[0]?.at ?? 0)), words: words.slice(at + 1) } }
}

export interface FetchCommand {
  readonly name: string
  /** 0: all that is left. */
  readonly rows: number
  readonly isNothing: boolean
}

/** FETCH [NEXT | FORWARD | n | ALL] [FROM | IN] name. Throws 0A000 for any other, as backwards. */
export function fetchOf({ words }: Statement): FetchCommand {
  const last = words.at(-1)
  const told = words.slice(1, -1).map(({ value }) => value)
  const way = told.filter((word) => word !== 'from' && word !== 'in').join(' ')
  const count = /^(?:forward )?([0-9]{1,9})$/.exec(way)?.[1]
  const isOne = way === '' || way === 'next' || way === 'forward'
  const isAll = way === 'all' || way === 'forward all'
  if (last === undefined || !isName(last) || words.length < 2 || (count === undefined && !isOne && !isAll)) {
    throw notSupported('cursors only go forward: FETCH [NEXT | n | ALL] FROM name')
  }
  return {
    name: last.value,
    rows: isAll ? 0 : isOne ? 1 : Number(count),
    isNothing: count !== undefined && Number(count) === 0,
  }
}
