/** A reader's query as one statement for Trino, over the relations that this reader may see. */
import { textLiteral } from '@sluice/analytics/trino/statements'
import { type ComputeParameter, SluiceError } from '@sluice/sdk'
import { blank, guardedTokens, type Token } from './guard.ts'
import {
  atSnapshot,
  type InputRelation,
  MOST_OF_BIGINT,
  quoted,
  relation,
  type Source,
  withoutFilters,
} from './transform-sql.ts'

export interface QueryRelation extends Pick<InputRelation, 'columns' | 'table'> {
  /** How the query names it, in any case: `['sales', 'orders']`. */
  readonly name: readonly string[]
}

export interface QueryText<R extends QueryRelation> {
  readonly sql: string
  /** Of each `?` in its order, or of `$1`, `$2`, … */
  readonly parameters: readonly ComputeParameter[]
  readonly relations: readonly R[]
}

export interface QuerySql<R extends QueryRelation> {
  readonly sql: string
  /** Names the same tables and has the same lines; for an answer to which tables that are. */
  readonly tablesSql: string
  /** Those that the query names. */
  readonly named: readonly R[]
  /** Where in the reader's text a place in `sql` comes from, and which name stands there, if one does. */
  placeOf(place: Place): NamedPlace | null
}

export interface NamedPlace extends Place {
  /** Its parts, without quotes. */
  readonly name: readonly string[]
  /** Bytes of UTF-8 in front of it. */
  readonly offsetBytes: number
}

/** Both from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

/**
 * Each relation becomes a WITH query of ours whose name is the whole of the relation's; they stand before the reader's
 * own ones. Nothing could stand around the query, which would lose its order. Throws INVALID_DATA as `guardedQuery`
 * does, where the parameters make it too long as well, and `sql_invalid` for a parameter without a value.
 */
export function querySql<R extends QueryRelation>({ sql, parameters, relations }: QueryText<R>): QuerySql<R> {
  const tokens = guardedTokens(sql)
  const named = new Map<string, R>()
  const values = parameterTexts(parameters)
  const starts = relationStarts(tokens)
  const written = new WrittenQuery(sql)
  const begin = wordAt(tokens, 0) === 'WITH' ? (wordAt(tokens, 1) === 'RECURSIVE' ? 2 : 1) : 0
  for (let at = begin; at < tokens.length; at += 1) {
    const token = tokens[at] as Token
    const found = starts.has(at) ? relationAt(tokens, at, relations) : undefined
    if (found === undefined) written.put(token, token.kind === 'parameter' ? values(token.text) : token.text)
    else {
      const alias = found.name.join('.')
      named.set(alias, found)
      at += 2
      // The blank: a quoted alias right behind it would be the rest of its name.
      written.put(token, `${quoted(alias)} ${hasAlias(tokens, at) ? '' : `AS ${quoted(found.name[1] ?? '')}`}`)
      written.skip(tokens[at] as Token)
    }
  }
  const lead = (source: Source): string => {
    const items = [...named].map(([alias, { columns, table }]) =>
      relation({ alias, columns, table, where: null }, source),
    )
    return leadOf(items, begin)
  }
  const before = lead(atSnapshot)
  const leadLines = before.split('\n').length - 1
  return {
    sql: `${before}${written.text}`,
    tablesSql: `${lead(withoutFilters)}${written.text}`,
    named: [...named.values()],
    placeOf: ({ line, column }) => written.placeOf({ line: line - leadLines, column }),
  }
}

/** What stands in front of the reader's text, from which `begin` words were taken. Ends with a line. */
function leadOf(items: readonly string[], begin: number): string {
  if (items.length === 0 && begin === 0) return ''
  const isContinued = items.length > 0 && begin > 0
  return `WITH${begin === 2 ? ' RECURSIVE' : ''} ${items.join(',\n')}${isContinued ? ',' : ''}\n`
}

function parameterTexts(parameters: readonly ComputeParameter[]): (token: string) => string {
  const texts = parameters.map(literalOf)
  let next = 0
  return (token) => {
    const index = token === '?' ? next++ : Number(token.slice(1)) - 1
    const text = texts[index]
    if (text !== undefined) return ` ${text} `
    throw new SluiceError('INVALID_DATA', `the parameter ${index + 1} of the statement has no value`, {
      code: 'sql_invalid',
      remedy: 'Give a value in params for each ? or $1 of the statement.',
    })
  }
}

function literalOf(value: ComputeParameter): string {
  if (typeof value === 'string') return textLiteral(value)
  if (typeof value === 'bigint') return wholeLiteral(value)
  if (typeof value !== 'number') return String(value)
  if (!Number.isSafeInteger(value)) return `CAST('${value}' AS double)`
  // In parentheses a minus stands between no two numbers; behind LIMIT Trino takes none.
  return value < 0 ? `(${value})` : String(value)
}

/** Trino reads digits alone as a bigint, and has 38 of a decimal. */
function wholeLiteral(value: bigint): string {
  const digits = String(value)
  if (value >= -MOST_OF_BIGINT && value <= MOST_OF_BIGINT) return value < 0n ? `(${digits})` : digits
  return digits.replace('-', '').length > 38 ? `CAST('${digits}' AS double)` : `DECIMAL '${digits}'`
}

const wordAt = (tokens: readonly Token[], at: number): string => tokens[at]?.text.toUpperCase() ?? ''

/** Each ends what stands behind FROM. */
const ENDS_FROM: ReadonlySet<string> = new Set(
  'SELECT WHERE GROUP HAVING ORDER LIMIT OFFSET FETCH WINDOW UNION INTERSECT EXCEPT'.split(' '),
)

interface Clause {
  isSelect: boolean
  /** Behind FROM, where a comma stands between relations. */
  isFrom: boolean
  awaitsRelation: boolean
}

/** The tokens that a relation may begin with. */
function relationStarts(tokens: readonly Token[]): ReadonlySet<number> {
  const starts = new Set<number>()
  const clauses: Clause[] = []
  let clause: Clause = { isSelect: false, isFrom: false, awaitsRelation: false }
  for (const [at] of tokens.entries()) {
    const word = wordAt(tokens, at)
    const isAwaited = clause.awaitsRelation
    clause.awaitsRelation = false
    if (word === '(') {
      clauses.push(clause)
      clause = { isSelect: false, isFrom: isAwaited, awaitsRelation: isAwaited }
    } else if (word === ')') clause = clauses.pop() ?? clause
    // Others are in `extract(day FROM at)` and `IS DISTINCT FROM`.
    else if (word === 'FROM' && clause.isSelect && wordAt(tokens, at - 1) !== 'DISTINCT') {
      clause.isFrom = true
      clause.awaitsRelation = true
    } else if (word === 'JOIN' || word === ',') clause.awaitsRelation = clause.isFrom
    else if (ENDS_FROM.has(word)) {
      clause.isFrom = false
      clause.isSelect ||= word === 'SELECT'
    } else if (isAwaited) starts.add(at)
  }
  return starts
}

function relationAt<R extends QueryRelation>(
  tokens: readonly Token[],
  at: number,
  relations: readonly R[],
): R | undefined {
  const [first, dot, second] = [tokens[at], tokens[at + 1], tokens[at + 2]]
  if (first?.kind !== 'name' || dot?.text !== '.' || second?.kind !== 'name') return undefined
  const asked = JSON.stringify([nameOf(first), nameOf(second)])
  return relations.find(({ name }) => JSON.stringify(name.map((part) => part.toLowerCase())) === asked)
}

/** Trino tells no names apart by case, quoted ones neither. */
const nameOf = ({ text }: Token): string => unquoted(text).toLowerCase()

const unquoted = (text: string): string => (text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text)

/** What may follow a relation that has no alias. */
const BEHIND_RELATION: ReadonlySet<string> = new Set([
  ...ENDS_FROM,
  ...'JOIN INNER LEFT RIGHT FULL CROSS NATURAL ON USING TABLESAMPLE MATCH_RECOGNIZE FOR'.split(' '),
])

/** Whether the reader names the relation that ends here. */
function hasAlias(tokens: readonly Token[], end: number): boolean {
  return tokens[end + 1]?.kind === 'name' && !BEHIND_RELATION.has(wordAt(tokens, end + 1))
}

/** Of a statement that Trino takes, as it is configured by default. */
const MAX_STATEMENT_CHARS = 1_000_000

const NAME = /\w+|"(?:[^"]|"")*"/g
const QUALIFIED = /^(?:\w+|"(?:[^"]|"")*")(?:\s*\.\s*(?:\w+|"(?:[^"]|"")*"))*/

/** Text in which parts of another are replaced, and which knows where each part comes from. */
class WrittenQuery {
  readonly #source: string
  readonly #parts: { readonly at: number; readonly from: number }[] = []
  #taken = 0
  text = ''

  constructor(source: string) {
    this.#source = source
  }

  /** The token's place is the text's; what is between it and the one before becomes blank. Throws `sql_too_long`. */
  put(token: Token, text: string): void {
    if (this.text.length + token.at - this.#taken + text.length > MAX_STATEMENT_CHARS) throw tooLong()
    this.text += blank(this.#source.slice(this.#taken, token.at))
    this.#parts.push({ at: this.text.length, from: token.at })
    this.text += text
    this.skip(token)
  }

  /** Leaves out what is up to the token's end. */
  skip(token: Token): void {
    this.#taken = token.at + token.text.length
  }

  placeOf({ line, column }: Place): NamedPlace | null {
    const lines = this.text.split('\n')
    if (line < 1 || line > lines.length) return null
    const offset = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1
    const part = this.#parts.findLast(({ at }) => at <= offset)
    if (part === undefined) return null
    const text = this.#source.slice(0, part.from)
    const before = text.split('\n')
    const name = this.#source.slice(part.from).match(QUALIFIED)?.[0].match(NAME)?.map(unquoted) ?? []
    const placed = { line: before.length, column: (before.at(-1) ?? '').length + 1 }
    return { ...placed, name, offsetBytes: Buffer.byteLength(text) }
  }
}

function tooLong(): SluiceError {
  const message = `the statement is longer than ${MAX_STATEMENT_CHARS} characters with its parameters`
  return new SluiceError('INVALID_DATA', message, {
    code: 'sql_too_long',
    remedy: 'Send shorter parameters, or use each of them less often.',
    details: { max_chars: MAX_STATEMENT_CHARS },
  })
}
