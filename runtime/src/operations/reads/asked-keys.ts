/** The keys of a read by many keys, as a reader writes them: from JSON to texts of columns. */
import { SluiceError } from '@sluice/sdk'

export type KeyPart = string | number | boolean

/** A value, where the key is one column or a whole rendered key; else an object with the value of each column. */
export type AskedKey = KeyPart | Readonly<Record<string, KeyPart>>

/**
 * The text of each column of the key, in the order of `columns`. Throws INVALID_DATA `key_malformed`, which says which key
 * it is and never repeats a value.
 */
export function keyTexts(key: AskedKey, columns: readonly string[], position: number): readonly string[] {
  if (typeof key !== 'object') {
    if (columns.length !== 1) throw malformed(position, `it has ${columns.length} columns`, columns)
    return [keyText(key, columns, position)]
  }
  const isWhole = Object.keys(key).length === columns.length && columns.every((name) => Object.hasOwn(key, name))
  if (!isWhole) throw malformed(position, 'it does not name exactly its columns', columns)
  return columns.map((name) => keyText(key[name] as KeyPart, columns, position))
}

/** Of a number beyond 53 bits JSON's reader has already lost digits: it would name another row. */
function keyText(part: KeyPart, columns: readonly string[], position: number): string {
  if (typeof part !== 'number' || !Number.isInteger(part) || Number.isSafeInteger(part)) return String(part)
  throw malformed(position, 'a whole number beyond ±(2^53−1) has to be a string', columns)
}

function malformed(position: number, why: string, columns: readonly string[]): SluiceError {
  const example = `{${columns.map((name) => `"${name}": …`).join(', ')}}`
  return new SluiceError('INVALID_DATA', `key ${position + 1} cannot be read: ${why}`, {
    code: 'key_malformed',
    remedy: `Write it as ${example}${columns.length === 1 ? ', or the value alone' : ''}.`,
    details: { key: position, columns },
  })
}
