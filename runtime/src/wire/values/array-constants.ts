/** Arrays that a statement writes as PostgreSQL does, `'{1,2,NULL}'::integer[]`, as the engine reads lists. */
import { type Statement, statementsOf, type Word } from '../sql/words.ts'
import { elementOf } from './arrays.ts'
import { OID } from './column-types.ts'
import { isInCast, MOST_TYPE_WORDS, oidOfCast, typedValueOf } from './parameters.ts'

/** `'{1,NULL}'::int4[]` → `'["1", NULL]'::int4[]`. Throws 22P02 for what is no array of that type, 0A000 for more than one dimension. */
export function withLists(statement: Statement): Statement {
  const { sql, words } = statement
  const start = words[0]?.at ?? 0
  let text = ''
  let end = 0
  const replace = (word: Word, by: string): void => {
    text += sql.slice(end, word.at - start) + by
    end = word.at - start + word.text.length
  }
  for (const [at, word] of words.entries()) {
    const type = typePlace(words, at)
    if (type === null) continue
    const oid = oidOfCast(words.slice(type, type + MOST_TYPE_WORDS))
    if (elementOf(oid) === 0) continue
    const list = typedValueOf(oid, { format: 0, bytes: Buffer.from(constantOf(word)) })
    replace(word, `'${String(list.value).replaceAll("'", "''")}'`)
    const own = words[type]
    // The engine would give its numbers three places, and they have their own.
    const isBare = elementOf(oid) === OID.numeric && words[type + 1]?.text === '['
    if (isBare && own !== undefined) replace(own, String(list.type).slice(0, -'[]'.length))
  }
  return end === 0 ? statement : (statementsOf(text + sql.slice(end))[0] ?? statement)
}

/** Where the type begins that a text in braces is cast to; null: it is none, or is not cast. */
function typePlace(words: readonly Word[], at: number): number | null {
  const word = words[at]
  if (word?.kind !== 'text' || !/^[eE]?'\s*\{/.test(word.text)) return null
  if (words[at + 1]?.text === ':' && words[at + 2]?.text === ':') return at + 3
  return isInCast(words, at) ? at + 2 : null
}

const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
const ESCAPE = /\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g

/** Of `'…'`, and of `E'…'`, whose numbers are of characters: of those beyond ASCII nobody writes the bytes. */
function constantOf({ text }: Word): string {
  const isEscaped = !text.startsWith("'")
  const inner = text.slice(isEscaped ? 2 : 1, -1).replaceAll("''", "'")
  if (!isEscaped) return inner
  return inner.replace(ESCAPE, (_, byte?: string, short?: string, long?: string, sign = '') => {
    const hex = byte ?? short ?? long
    return hex === undefined ? (ESCAPES[sign] ?? sign) : String.fromCodePoint(Number.parseInt(hex, 16))
  })
}
