/** The keys of a read by many keys, as a reader writes them: from JSON to texts of columns. */
import { type Column, SluiceError, typeName } from '@sluice/sdk'
import { isRounded, mayBeRounded } from '../../parsing/kept-numbers.ts'

export type KeyColumn = Pick<Column, 'name' | 'type'>

export type KeyPart = string | number | boolean

/** A value, where the key is one column or a whole rendered key; else an object with the value of each column. */
export type AskedKey = KeyPart | Readonly<Record<string, KeyPart>>

/**
 * The text of each column of the key at `position`, in the order of `columns`. Throws INVALID_DATA `key_malformed`, which says which key
 * it is and never repeats a value.
 */
export function keyTexts(
  keys: readonly AskedKey[],
  columns: readonly KeyColumn[],
  position: number,
): readonly string[] {
  const key = keys[position] as AskedKey
  const names = columns.map(({ name }) => name)
  if (typeof key !== 'object') {
    const [column] = columns
    if (column === undefined || columns.length > 1) throw malformed(position, `it has ${columns.length} columns`, names)
    return [keyText({ part: key, isExact: isExact(keys, position, key) }, column, position)]
  }
  const isWhole = Object.keys(key).length === names.length && names.every((name) => Object.hasOwn(key, name))
  if (!isWhole) throw malformed(position, 'it does not name exactly its columns', names)
  return columns.map((column) => {
    const part = key[column.name] as KeyPart
    return keyText({ part, isExact: isExact(key, column.name, part) }, column, position)
  })
}

/** Whether it is what was meant, of which type it may be. */
export const isExact = (holder: object, at: string | number, part: KeyPart): boolean =>
  typeof part !== 'number' || !(mayBeRounded(part) || isRounded(holder, at))

interface Part {
  readonly part: KeyPart
  readonly isExact: boolean
}

/** Digits that were lost of the number, on its way or here, would name another row. */
function keyText({ part, isExact }: Part, { name, type }: KeyColumn, position: number): string {
  const isDouble = ['float', 'double'].includes(typeName(type))
  if (isDouble || isExact) return String(part)
  throw roundedKey(position, [name])
}

/** A number of more than 15 digits that is no whole one within ±(2^53−1): JSON's readers and writers round such. */
export function roundedKey(position: number, columns: readonly string[]): SluiceError {
  return new SluiceError('INVALID_DATA', `key ${position + 1} has a number that may have lost digits on its way`, {
    code: 'key_malformed',
    remedy: 'Write numbers of more than 15 digits, or beyond ±(2^53−1), as strings.',
    details: { key: position, columns },
  })
}

function malformed(position: number, why: string, columns: readonly string[]): SluiceError {
  const example = `{${columns.map((name) => `"${name}": …`).join(', ')}}`
  return new SluiceError('INVALID_DATA', `key ${position + 1} cannot be read: ${why}`, {
    code: 'key_malformed',
    remedy: `Write it as ${example}${columns.length === 1 ? ', or the value alone' : ''}.`,
    details: { key: position, columns },
  })
}
