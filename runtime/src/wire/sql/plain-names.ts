/** Names that PostgreSQL takes as they are, and products' dialect in quotes only. */
import { type Statement, statementsOf, type Word } from './words.ts'

/** What the dialect keeps for itself, with what follows where it is meant so: `AT TIME ZONE`, `AT (VERSION => 1)`. */
const KEPT: Readonly<Record<string, ReadonlySet<string>>> = { at: new Set(['time', 'local', '(']) }

/** `SELECT at FROM crm.visits` → `SELECT "at" FROM crm.visits`. */
export function withNames(statement: Statement): Statement {
  const { sql, words } = statement
  const start = words[0]?.at ?? 0
  let text = ''
  let end = 0
  for (const [at, word] of words.entries()) {
    if (!isPlainName(word, words[at + 1])) continue
    text += `${sql.slice(end, word.at - start)}"${word.value}"`
    end = word.at - start + word.text.length
  }
  return end === 0 ? statement : (statementsOf(text + sql.slice(end))[0] ?? statement)
}

function isPlainName({ kind, value }: Word, next: Word | undefined): boolean {
  const kept = kind === 'name' && Object.hasOwn(KEPT, value) ? KEPT[value] : undefined
  return kept !== undefined && !kept.has(next?.value ?? '')
}
