/**
 * Calls of functions that are about the session, which is here and not in the PostgreSQL of the catalogue:
 * `current_setting('jit')`, `set_config('jit', 'off', false)`. Their arguments are constants.
 */
import { notSupported } from '../protocol/wire-error.ts'
import type { Word } from '../sql/words.ts'

export interface SessionCall {
  readonly function: 'current_setting' | 'set_config'
  readonly name: string
  /** Of set_config what is set. */
  readonly value: string
  /** Of current_setting, that a name which nobody knows is null; of set_config, that it is for the transaction. */
  readonly flag: boolean
}

export interface WithCalls {
  /** Each call is one word of it. */
  readonly words: readonly Word[]
  readonly calls: ReadonlyMap<Word, SessionCall>
}

/** Throws 0A000 where set_config is told what to set by anything but constants, or for each of several rows. */
export function sessionCalls(words: readonly Word[]): WithCalls {
  const calls = new Map<Word, SessionCall>()
  const kept: Word[] = []
  for (let at = 0; at < words.length; ) {
    const start = isCatalogue(words, at) ? at + 2 : at
    const found = callAt(words, start)
    const first = words[at] as Word
    if (found === null) {
      kept.push(first)
      at += 1
      continue
    }
    const last = words[start + found.length - 1] as Word
    const length = last.at + last.text.length - first.at
    // As long as the call, so that what touches it touches it still.
    const word: Word = { kind: 'text', text: "''".padEnd(length), value: '', at: first.at }
    calls.set(word, found.call)
    kept.push(word)
    at = start + found.length
  }
  const sets = [...calls.values()].some((call) => call.function === 'set_config')
  if (sets && words.some(({ kind, value }) => kind === 'name' && value === 'from') && !isOfSetting(words)) {
    throw notSupported('set_config() is taken in a SELECT without FROM', 'Send SET.')
  }
  return { words: kept, calls }
}

/** `FROM pg_settings WHERE name = 'bytea_output'`: one row, where there is that setting. */
function isOfSetting(words: readonly Word[]): boolean {
  const at = words.findIndex(({ kind, value }) => kind === 'name' && value === 'from')
  const told = words.slice(at + 1).map(({ text, value }) => (text === '.' ? '.' : value))
  const text = told.join(' ').replace(/^pg_catalog \. /, '')
  return /^(?:pg_settings|pg_show_all_settings \( \)) where name = '\w+'$/.test(text)
}

const isCatalogue = (words: readonly Word[], at: number): boolean =>
  words[at]?.value === 'pg_catalog' && words[at + 1]?.text === '.'

function callAt(words: readonly Word[], at: number): { readonly call: SessionCall; readonly length: number } | null {
  const name = words[at]?.value
  if ((name !== 'current_setting' && name !== 'set_config') || words[at + 1]?.text !== '(') return null
  const end = words.findIndex(({ text }, own) => own > at && text === ')')
  const inner = words.slice(at + 2, Math.max(at + 2, end))
  const isList = inner.length % 2 === 1 && inner.every(({ text }, own) => own % 2 === 0 || text === ',')
  const told = inner.filter((_, own) => own % 2 === 0)
  const texts = told.map(constantOf)
  const most = name === 'current_setting' ? [1, 2] : [3]
  if (!isList || !most.includes(told.length) || texts.includes(null)) {
    // Others of it are answered by what the catalogue itself knows.
    if (name === 'current_setting') return null
    throw notSupported('set_config() takes constants here', 'Send SET.')
  }
  const flag = ['true', 't', 'on', '1'].includes((texts.at(-1) ?? '').toLowerCase())
  const isSet = name === 'set_config'
  const call = {
    function: name,
    name: texts[0] ?? '',
    value: isSet ? (texts[1] ?? '') : '',
    flag: told.length > 1 && flag,
  } as const
  return { call, length: end - at + 1 }
}

function constantOf({ kind, text, value }: Word): string | null {
  if (kind === 'text' && text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'")
  return kind === 'name' && (value === 'true' || value === 'false') ? value : null
}
