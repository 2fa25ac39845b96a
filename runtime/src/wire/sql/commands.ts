/** Where a statement goes, by its words. What of it is understood wrongly here is judged all the same where it goes. */
import { notSupported } from '../protocol/wire-error.ts'
import { namesTable } from './table-names.ts'
import { isName, type Statement, type Word } from './words.ts'

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

/** What the catalogue's PostgreSQL has. */
export interface CatalogueNames {
  isRelation(name: string): boolean
  /** Or a keyword that stands in front of a parenthesis. */
  isFunction(name: string): boolean
  /** What products' dialect does not have, or tells otherwise. */
  isOwnFunction(name: string): boolean
}

/** Relations of the catalogue are named by their schema, or by a name that no product may have. */
export function doorOf(words: readonly Word[], names: CatalogueNames): Door {
  if (namesRelation(words, names)) return 'catalogue'
  const command = commandOf({ words })
  if (command !== 'select' && command !== 'values') return 'products'
  const called = calledNames(words)
  if (words.some(isFrom)) return isOfOwnCalls(words, called, names) ? 'catalogue' : 'products'
  if (!called.every((name) => names.isFunction(name))) return 'products'
  const isOwn = called.some((name) => names.isOwnFunction(name)) || words.some((_, at) => isOwnWord(words, at))
  return isOwn || words.every((word, at) => isPlain(word, words[at - 1])) ? 'catalogue' : 'products'
}

const isFrom = ({ kind, value }: Word): boolean => kind === 'name' && value === 'from'

/** `FROM unnest(current_schemas(true))`: rows of calls alone, one of which only a PostgreSQL has. A table beside them is a product. */
function isOfOwnCalls(words: readonly Word[], called: readonly string[], names: CatalogueNames): boolean {
  const areCalls = words.every((word, at) => !isFrom(word) || words[at + 2]?.text === '(')
  if (!areCalls || namesTable(words)) return false
  return called.some((name) => names.isOwnFunction(name)) && called.every((name) => names.isFunction(name))
}

/** Whether a relation of the catalogue is named. */
export const namesRelation = (words: readonly Word[], names: CatalogueNames): boolean =>
  words.some((_, at) => namesCatalogue(words, at, names))

const calledNames = (words: readonly Word[]): readonly string[] =>
  words.flatMap(({ kind, value }, at) => (kind === 'name' && words[at + 1]?.text === '(' ? [value] : []))

const OWN_WORDS: ReadonlySet<string> = new Set(
  'current_catalog current_role current_schema current_user session_user user'.split(' '),
)

/** Of the session as PostgreSQL has it, or a cast to what names something of the catalogue: `::regclass`. */
function isOwnWord(words: readonly Word[], at: number): boolean {
  const { kind, value } = words[at] as Word
  if (kind !== 'name') return false
  const before = words[at - 1]
  return value.startsWith('reg') ? before?.text === ':' || before?.value === 'as' : OWN_WORDS.has(value)
}

const PLAIN_WORDS: ReadonlySet<string> = new Set('select values as true false null'.split(' '))

/** `SELECT 1`, with which a client asks whether anybody is there: both dialects tell the same, and one costs less. */
function isPlain({ kind, text, value }: Word, before: Word | undefined): boolean {
  if (kind === 'number') return /^[0-9]{1,9}$/.test(text)
  if (kind === 'text') return text.startsWith("'")
  if (kind === 'mark') return ['(', ')', ','].includes(text)
  return kind !== 'parameter' && (PLAIN_WORDS.has(value) || before?.value === 'as')
}

const CATALOGUE_SCHEMAS: ReadonlySet<string> = new Set(['pg_catalog', 'information_schema'])

function namesCatalogue(words: readonly Word[], at: number, { isRelation, isOwnFunction }: CatalogueNames): boolean {
  const word = words[at] as Word
  if (!isName(word)) return false
  // `FROM current_schema()`
  if (words[at - 1]?.value === 'from' && words[at + 1]?.text === '(' && isOwnFunction(word.value)) return true
  if (CATALOGUE_SCHEMAS.has(word.value) && words[at + 1]?.text === '.') return true
  if (!word.value.startsWith('pg_') || words[at - 1]?.text === '.') return false
  const before = words[at - 1]?.value
  if (before === 'from' || before === 'join' || before === 'only') return true
  // There stand columns, too, and products may have some that are called so.
  return (before === ',' || before === '(') && isRelation(word.value)
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

const COMMANDS: ReadonlySet<string> = new Set(
  `begin start commit end rollback abort savepoint release set reset discard deallocate close unlisten listen prepare
  declare move fetch copy insert update delete merge create alter drop truncate grant revoke vacuum analyze reindex cluster
  refresh comment lock import security call do notify checkpoint reassign replace attach detach load install`.split(
    /\s+/,
  ),
)

/** What gives no rows of its own. */
export const isCommand = (command: string): boolean => COMMANDS.has(command)

/** Of products what SHOW TABLES, SHOW SCHEMAS and SHOW COLUMNS tell is told as to others. */
export const isOfTables = (words: readonly Word[]): boolean =>
  ['tables', 'schemas', 'columns'].includes(words[1]?.value ?? '') || words[2]?.value === 'tables'

/** `SHOW TRANSACTION ISOLATION LEVEL` is `transaction_isolation`, `SHOW TIME ZONE` is `timezone`. */
export function shownName(words: readonly Word[]): string {
  const name = words
    .slice(1)
    .map(({ value }) => value)
    .join(' ')
  if (name.toLowerCase() === 'transaction isolation level') return 'transaction_isolation'
  if (name.toLowerCase() === 'time zone') return 'TimeZone'
  return name.replaceAll(' . ', '.')
}
