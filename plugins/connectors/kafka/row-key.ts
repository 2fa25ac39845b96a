/** What tells the rows of an upsert apart: the values of its key, however a producer has written them. */
import { createHash } from 'node:crypto'
import { type ValueReader, valueReader } from '@sluice/sdk'
import { Misfit } from '../files/written-row.ts'
import { Unreadable } from './decode.ts'
import { type Decoder, plainDecoder } from './decoder.ts'
import type { NamedType, TopicTable } from './topic-settings.ts'

const PLAIN_CHARACTERS = 32

/** Equal of keys of one row, and of no others. A key that tells no row is told by its bytes. */
export type RowKey = (key: Buffer) => string

/** @param values all columns that records may hold */
export function rowKeys(
  table: TopicTable,
  values: readonly NamedType[],
  decoder: Decoder = plainDecoder(table),
): RowKey {
  const columns = table.primaryKey.map((name) => {
    const type = values.find((column) => column.name === name)?.type ?? 'string'
    return { name, type, reader: valueReader(type) }
  })
  return (key) => {
    const texts = textsOf(key, decoder, columns)
    return texts === null ? short('b', key.toString('latin1')) : short('t', texts)
  }
}

/** Null where a part of it cannot be read. */
function textsOf(
  key: Buffer,
  decoder: Decoder,
  columns: readonly (NamedType & { readonly reader: ValueReader })[],
): string | null {
  const fields = decoder.key(key)
  if (fields instanceof Unreadable) return null
  const texts: string[] = []
  for (const column of columns) {
    const found = fields.text(column)
    const text = found === null || found instanceof Misfit ? null : column.reader(found)
    if (text === null) return null
    texts.push(text)
  }
  const [only] = texts
  return texts.length === 1 && only !== undefined ? only : JSON.stringify(texts)
}

/** Long keys take the room of a sum. */
function short(kind: 'b' | 't', text: string): string {
  if (text.length <= PLAIN_CHARACTERS) return kind + text
  return `${kind}#${createHash('sha256').update(text).digest('base64')}`
}
