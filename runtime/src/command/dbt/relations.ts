/** Names of tables in compiled SQL, and the aliases of inputs in their place. */
import { type Dialect, forDuckDb, nameText, type Token, tokensOf } from './tokens.ts'

/** A table that the SQL may read. */
export interface Relation {
  /** As the warehouse calls it: database, schema, name. */
  readonly parts: readonly string[]
  /** What is read in its place, as it is written in SQL. */
  readonly becomes: string
}

export interface Rewritten {
  readonly sql: string
  /** Places in `relations` of those that were found. */
  readonly found: ReadonlySet<number>
}

/** The parts of a name such as "db"."schema"."table". Names of BigQuery may stand in one pair of quotes. */
export function partsOf(name: string, dialect: Dialect): readonly string[] {
  const tokens = tokensOf(name, dialect)
  const isName = ({ kind, text }: Token, index: number) =>
    index % 2 === 1 ? text === '.' : kind === 'name' || kind === 'quoted'
  if (tokens.length % 2 === 0 || !tokens.every(isName)) return []
  const parts = tokens.filter((_, index) => index % 2 === 0).flatMap((token) => wordsOf(token))
  return parts
}

const wordsOf = ({ kind, text, value }: Token): readonly string[] =>
  kind === 'quoted' && text.startsWith('`') ? value.split('.') : [value]

/**
 * The SQL with `becomes` where a table of `relations` is named, and in the words of DuckDB as far as quotes and comments go.
 * What stands in texts and comments stays. Throws SqlTextError.
 */
export function rewritten(sql: string, relations: readonly Relation[], dialect: Dialect): Rewritten {
  const tokens = withoutEnd(tokensOf(sql, dialect))
  const written: string[] = []
  const found = new Set<number>()
  const place = new Place()
  for (let at = 0; at < tokens.length; ) {
    const token = tokens[at] as Token
    const chain = place.afterDot ? null : chainAt(tokens, at)
    const hit = chain === null ? null : hitOf(chain, relations, place)
    if (chain === null || hit === null) {
      written.push(forDuckDb(token, dialect))
      place.pass(token)
      at += 1
      continue
    }
    found.add(hit.index)
    written.push(textOf(chain, hit, relations[hit.index] as Relation, tokens))
    place.passName()
    at = chain.end
  }
  return { sql: written.join(''), found }
}

/** A statement may end with a semicolon, which a transform may not. */
function withoutEnd(tokens: readonly Token[]): readonly Token[] {
  const last = tokens.findLastIndex(({ kind, text }) => kind !== 'space' && kind !== 'comment' && text !== ';')
  return tokens.filter(({ text }, index) => index <= last || text !== ';')
}

interface Chain {
  readonly words: readonly string[]
  /** The place behind it. */
  readonly end: number
}

/** Names with dots between them. */
function chainAt(tokens: readonly Token[], at: number): Chain | null {
  const isName = (token: Token | undefined) => token?.kind === 'name' || token?.kind === 'quoted'
  if (!isName(tokens[at])) return null
  let end = at + 1
  while (tokens[end]?.text === '.' && isName(tokens[end + 1])) end += 2
  const words = tokens.slice(at, end).filter(isName).flatMap(wordsOf)
  return tokens[end]?.text === '(' ? null : { words, end }
}

interface Hit {
  readonly index: number
  /** Whether it is named to be read; else a column is named by it. */
  readonly isRead: boolean
}

const fold = (name: string): string => name.toLowerCase()

function hitOf({ words }: Chain, relations: readonly Relation[], place: Place): Hit | null {
  const isRead = place.readsTables
  const isNamed = (parts: readonly string[]) => parts.every((part, at) => fold(part) === fold(words[at] as string))
  const index = relations.findIndex(({ parts }) => {
    const fits = isRead ? words.length === parts.length : words.length > parts.length && parts.length > 2
    return fits && parts.length > 0 && isNamed(parts)
  })
  if (index >= 0) return { index, isRead }
  // Some warehouses are asked without the name of the database.
  if (!isRead || words.length !== 2) return null
  const short = relations.flatMap(({ parts }, at) => (parts.length > 2 && isNamed(parts.slice(-2)) ? [at] : []))
  return short.length === 1 ? { index: short[0] as number, isRead } : null
}

function textOf(
  { words, end }: Chain,
  { isRead }: Hit,
  { parts, becomes }: Relation,
  tokens: readonly Token[],
): string {
  const own = nameText(parts.at(-1) as string)
  if (!isRead) return [own, ...words.slice(parts.length).map(nameText)].join('.')
  // Columns may be named by the table's own name.
  return fold(becomes) === fold(own) || hasAlias(tokens, end) ? becomes : `${becomes} AS ${own}`
}

/** Words that may follow a table and are no name for it. */
const NO_ALIAS: ReadonlySet<string> = new Set(
  `anti array asof at connect cross except fetch final for full group having inner intersect join lateral left limit match_recognize
  minus natural offset on order outer pivot positional qualify right sample select semi start tablesample union unpivot using
  where window with`.split(/\s+/),
)

function hasAlias(tokens: readonly Token[], from: number): boolean {
  const next = tokens.slice(from, from + 10).find(({ kind }) => kind !== 'space' && kind !== 'comment')
  return next?.kind === 'quoted' || (next?.kind === 'name' && !NO_ALIAS.has(fold(next.text)))
}

/** Names of queries that the SQL defines by WITH: none of them may be the alias of an input. */
export function definedNames(sql: string, dialect: Dialect): ReadonlySet<string> {
  const tokens = tokensOf(sql, dialect).filter(({ kind }) => kind !== 'space' && kind !== 'comment')
  const textAt = (at: number) => fold(tokens[at]?.text ?? '')
  const defined = tokens.filter(({ kind }, at) => {
    if (kind !== 'name' && kind !== 'quoted') return false
    if (!['with', 'recursive', ','].includes(textAt(at - 1))) return false
    const after = textAt(at + 1) === '(' ? closing(tokens, at + 1) + 1 : at + 1
    return textAt(after) === 'as' && ['(', 'not', 'materialized'].includes(textAt(after + 1))
  })
  return new Set(defined.map(({ value }) => fold(value)))
}

/** The place of the bracket that ends a list of plain names. */
function closing(tokens: readonly Token[], open: number): number {
  const end = tokens.findIndex(({ kind, text }, at) => at > open && kind === 'symbol' && text !== ',')
  return end < 0 ? tokens.length : end
}

interface Frame {
  clause: 'from' | 'on' | 'other'
  hasSelect: boolean
  /** In brackets behind a name: `extract(year from x)` reads no table. */
  readonly isCall: boolean
}

const frame = (clause: Frame['clause'], isCall: boolean): Frame => ({ clause, hasSelect: false, isCall })

const ENDS_FROM: ReadonlySet<string> = new Set(
  'where group having qualify order limit window union except intersect set returning values minus'.split(' '),
)

/** Where in a statement the tokens that have passed lead to. */
class Place {
  #frames: Frame[] = [frame('other', false)]
  #last = ''
  #lastIsName = false

  get #frame(): Frame {
    return this.#frames.at(-1) as Frame
  }

  get afterDot(): boolean {
    return this.#last === '.'
  }

  /** Whether a name that comes next is one of a table. */
  get readsTables(): boolean {
    return this.#frame.clause === 'from' && ['from', 'join', ',', '(', 'lateral', 'only'].includes(this.#last)
  }

  passName(): void {
    this.#last = 'a name'
    this.#lastIsName = true
  }

  pass(token: Token): void {
    const { kind, text } = token
    if (kind === 'space' || kind === 'comment') return
    const word = kind === 'name' || kind === 'symbol' ? fold(text) : kind
    if (word === '(') this.#frames.push(this.#inner())
    else if (word === ')' && this.#frames.length > 1) this.#frames.pop()
    else this.#clause(word)
    this.#lastIsName = kind === 'name' || kind === 'quoted'
    this.#last = word
  }

  #inner(): Frame {
    const isJoined = this.#frame.clause === 'from' && ['from', 'join', ',', '('].includes(this.#last)
    return frame(isJoined ? 'from' : 'other', this.#lastIsName && !isJoined)
  }

  #clause(word: string): void {
    const own = this.#frame
    if (word === 'select') Object.assign(own, { clause: 'other', hasSelect: true })
    else if (word === 'join') own.clause = 'from'
    else if (word === 'from' && this.#last !== 'distinct' && (own.hasSelect || !own.isCall)) own.clause = 'from'
    else if ((word === 'on' || word === 'using') && own.clause === 'from') own.clause = 'on'
    else if (word === ',' && own.clause === 'on') own.clause = 'from'
    else if (ENDS_FROM.has(word)) own.clause = 'other'
  }
}
