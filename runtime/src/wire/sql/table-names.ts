/** Names of tables as PostgreSQL takes them: without their namespace, which a path has, or behind the name of their database. */
import { quoteName } from '@sluice/engine'
import { notSupported } from '../protocol/wire-error.ts'
import { isName, type Statement, statementsOf, type Word } from './words.ts'

/** The parts of a name, without the dots between them. */
interface Named {
  readonly parts: readonly Word[]
  /** Of its first word. */
  readonly at: number
  /** Where a table stands: behind FROM or JOIN, or a comma of theirs. */
  readonly isTable: boolean
}

const OPENS: ReadonlySet<string> = new Set(['from', 'join', 'table'])
/** A list of tables has ended. */
const CLOSES: ReadonlySet<string> = new Set(
  'select where group order having limit offset fetch window union except intersect on using set values qualify'.split(
    ' ',
  ),
)
/** Between FROM and a name. */
const PASSED: ReadonlySet<string> = new Set(['only', 'lateral'])

function namesIn(words: readonly Word[]): readonly Named[] {
  const found: Named[] = []
  /** For each parenthesis that is open, and what is around them: whether tables are listed there. */
  const lists = [false]
  let isNext = false
  for (let at = 0; at < words.length; at += 1) {
    const { kind, text, value } = words[at] as Word
    const wasNext: boolean = isNext
    isNext = false
    if (kind === 'mark') {
      if (text === '(') {
        lists.push(wasNext)
        isNext = wasNext
      } else if (text === ')' && lists.length > 1) lists.pop()
      else if (text === ',') isNext = lists.at(-1) === true
      continue
    }
    if (kind === 'name' && OPENS.has(value)) {
      lists[lists.length - 1] = true
      isNext = true
    } else if (kind === 'name' && wasNext && PASSED.has(value)) isNext = true
    else if (kind === 'name' && CLOSES.has(value)) lists[lists.length - 1] = false
    else if (kind === 'name' || kind === 'quoted') {
      const parts = partsFrom(words, at)
      const end = at + 2 * parts.length - 1
      if (words[end]?.text !== '(') found.push({ parts, at, isTable: wasNext })
      at = end - 1
    }
  }
  return found
}

/** `a.b.c`. */
function partsFrom(words: readonly Word[], start: number): readonly Word[] {
  const parts = [words[start] as Word]
  for (let at = start + 1; words[at]?.text === '.' && isName(words[at + 1] ?? (words[at] as Word)); at += 2) {
    parts.push(words[at + 1] as Word)
  }
  return parts
}

/** `WITH name [(column, …)] AS [NOT] [MATERIALIZED] (`: it stands before any table of that name. */
function ownNames(words: readonly Word[]): ReadonlySet<string> {
  const names = new Set<string>()
  for (const [at, word] of words.entries()) {
    if (!isName(word) || !['with', 'recursive', ','].includes(words[at - 1]?.value ?? '')) continue
    let next = at + 1
    if (words[next]?.text === '(') while (next < words.length && words[next++]?.text !== ')');
    if (words[next]?.value !== 'as') continue
    next += 1
    while (['not', 'materialized'].includes(words[next]?.value ?? '')) next += 1
    if (words[next]?.text === '(') names.add(word.value)
  }
  return names
}

/** The statement with other words at some places. */
function rewritten(statement: Statement, changes: ReadonlyMap<number, string>): Statement {
  if (changes.size === 0) return statement
  const { sql, words } = statement
  const start = words[0]?.at ?? 0
  let text = ''
  let end = 0
  for (const [at, change] of changes) {
    const word = words[at] as Word
    text += sql.slice(end, word.at - start) + change
    end = word.at - start + word.text.length
  }
  return statementsOf(text + sql.slice(end))[0] ?? statement
}

/**
 * `database.namespace.table` → `namespace.table`, with a column behind it or not, and in a text that is cast to a name of the
 * catalogue. Throws 0A000 for a table of another database.
 */
export function withoutDatabase(statement: Statement, database: string): Statement {
  const { words } = statement
  const changes = new Map<number, string>()
  for (const { parts, at, isTable } of namesIn(words)) {
    if (parts.length < 3 || (parts.length === 3 && !isTable)) continue
    const [first] = parts
    if (first?.value === database) {
      changes.set(at, '')
      changes.set(at + 1, '')
    } else if (isTable) {
      throw notSupported(
        `a table of another database is named: ${parts
          .map(({ text }) => text)
          .join('.')
          .slice(0, 200)}`,
        `Connected is ${database}: write namespace.table, or ${database}.namespace.table.`,
      )
    }
  }
  for (const [at, { kind, text }] of words.entries()) {
    if (kind !== 'text' || !text.startsWith("'") || words[at + 3]?.value !== 'regclass') continue
    const own = [`'${database}.`, `'${quoteName(database)}.`].find((one) => text.startsWith(one))
    if (own !== undefined && text.slice(own.length).includes('.')) changes.set(at, `'${text.slice(own.length)}`)
  }
  return rewritten(statement, new Map([...changes].sort(([one], [other]) => one - other)))
}

/** Whether rows of a table are asked for, and not of calls alone. */
export const namesTable = (words: readonly Word[]): boolean => namesIn(words).some(({ isTable }) => isTable)

/** Names of tables that stand alone. */
export function bareTables({ words }: Pick<Statement, 'words'>): readonly string[] {
  const own = ownNames(words)
  const bare = namesIn(words).filter(({ parts, isTable }) => isTable && parts.length === 1)
  return [...new Set(bare.flatMap(({ parts }) => parts.map(({ value }) => value)))].filter((name) => !own.has(name))
}

/** With its namespace in front of each of these. */
export function withNamespaces(statement: Statement, namespaces: ReadonlyMap<string, string>): Statement {
  const changes = new Map<number, string>()
  for (const { parts, at, isTable } of namesIn(statement.words)) {
    const [name] = parts
    const namespace = isTable && parts.length === 1 && name !== undefined ? namespaces.get(name.value) : undefined
    if (namespace !== undefined && name !== undefined) changes.set(at, `${quoteName(namespace)}.${name.text}`)
  }
  return rewritten(statement, changes)
}
