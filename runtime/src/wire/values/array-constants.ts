/** Arrays that a statement writes as PostgreSQL does, `'{1,2,NULL}'::integer[]`, as the engine reads lists. */
import { WireError } from '../protocol/wire-error.ts'
import { type Statement, statementsOf, type Word } from '../sql/words.ts'
import { elementOf } from './arrays.ts'
import { OID } from './column-types.ts'
import { isInCast, MOST_TYPE_WORDS, oidOfCast, typedValueOf } from './parameters.ts'

/**
 * `'{1,NULL}'::int4[]` → `'["1", NULL]'::int4[]`. Throws 22P02 for what is no array of that type, 0A000 for more than one dimension, 22021, 22025 and 42601
 * for escapes that name nothing.
 */
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
    const list = typedValueOf(oid, { format: 0, bytes: constantOf(word) })
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
const ESCAPE = /\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g
const MOST_CODE = 0x10ffff

/** Of `'…'`, and of `E'…'`, where numbers of one or two digits of base 16, or three of base 8, are bytes. Throws 22025, 42601 and 22021. */
function constantOf({ text }: Word): Buffer {
  const isEscaped = !text.startsWith("'")
  const inner = text.slice(isEscaped ? 2 : 1, -1)
  if (!isEscaped) return Buffer.from(inner.replaceAll("''", "'"))
  const bytes: Buffer[] = []
  let told = ''
  let end = 0
  const tell = (): void => {
    // Half of a pair has no bytes.
    if (!told.isWellFormed()) throw noCharacter('42601')
    bytes.push(Buffer.from(told))
    told = ''
  }
  for (const escape of inner.matchAll(ESCAPE)) {
    const [whole, hex, octal, short, long, sign = ''] = escape
    told += inner.slice(end, escape.index).replaceAll("''", "'")
    end = escape.index + whole.length
    const byte = hex ?? octal
    if (byte === undefined) told += signOf(short ?? long, sign)
    else {
      tell()
      bytes.push(Buffer.of(Number.parseInt(byte, hex === undefined ? 8 : 16) & 0xff))
    }
  }
  told += inner.slice(end).replaceAll("''", "'")
  tell()
  const all = Buffer.concat(bytes)
  if (all.includes(0)) throw new WireError('22021', 'a text of a statement has a zero byte')
  return all
}

function signOf(code: string | undefined, sign: string): string {
  if (code === undefined && (sign === 'u' || sign === 'U')) throw noCharacter('22025')
  if (code === undefined) return ESCAPES[sign] ?? sign
  const number = Number.parseInt(code, 16)
  if (number > MOST_CODE) throw noCharacter('42601')
  return String.fromCodePoint(number)
}

const noCharacter = (sqlState: string): WireError =>
  new WireError(sqlState, 'an escape in a text of the statement names no character', {
    hint: 'Write \\u with four digits, or \\U with eight, of a character of Unicode.',
  })
