/** What a record holds, as texts by column; or why it holds none. */
import { isUtf8 } from 'node:buffer'
import { type Column, type JsonCell, jsonCells, jsonCellText, parseJsonAsWritten } from '@sluice/sdk'
import { newRoom } from '../files/avro/values.ts'
import { ByteReader } from '../files/byte-reader.ts'
import { BrokenFile, MAX_RECORD_BYTES } from '../files/records.ts'
import { Misfit } from '../files/written-row.ts'
import type { AvroFormat, TopicTable } from './topic-settings.ts'
import type { KafkaRecord } from './wire/records.ts'

/** Nothing of it can be carried; `reason` holds no value. */
export class Unreadable {
  readonly reason: string
  constructor(reason: string) {
    this.reason = reason
  }
}

/** By name; fields that are null are left out. */
export interface Fields {
  readonly names: Iterable<string>
  text(column: Pick<Column, 'name' | 'type'>): string | Misfit | null
}

export const NO_FIELDS: Fields = { names: [], text: () => null }

export function valueFields(value: Buffer, { avro }: Pick<TopicTable, 'avro'>): Fields | Unreadable {
  if (value.length > MAX_RECORD_BYTES) return new Unreadable(`it has more than ${MAX_RECORD_BYTES} bytes`)
  return avro === null ? jsonFields(value, 'its value') : avroFields(value, avro)
}

/** Of an upsert: a key that is missing tells no row. */
export function keyFields(
  key: Buffer | null,
  { keyFormat, primaryKey }: Pick<TopicTable, 'keyFormat' | 'primaryKey'>,
): Fields | Unreadable {
  if (key === null) return new Unreadable('it has no key')
  if (key.length > MAX_RECORD_BYTES) return new Unreadable(`its key has more than ${MAX_RECORD_BYTES} bytes`)
  if (keyFormat === 'json') return jsonFields(key, 'its key')
  if (!isUtf8(key)) return new Unreadable('its key is not written in UTF-8')
  const text = key.toString('utf8')
  const [only] = primaryKey
  return { names: [only ?? ''], text: ({ name }) => (name === only ? text : null) }
}

function jsonFields(bytes: Buffer, what: string): Fields | Unreadable {
  if (!isUtf8(bytes)) return new Unreadable(`${what} is not written in UTF-8`)
  let cells: ReadonlyMap<string, JsonCell> | null
  try {
    cells = jsonCells(parseJsonAsWritten(bytes.toString('utf8')))
  } catch {
    return new Unreadable(`${what} is no JSON`)
  }
  if (cells === null) return new Unreadable(`${what} is no object`)
  const found = cells
  return {
    names: found.keys(),
    text: ({ name, type }) => {
      const cell = found.get(name)
      return cell === undefined ? null : (jsonCellText(cell, type === 'json') ?? new Misfit(cell.text))
    },
  }
}

const FRAME_BYTES = 5

function avroFields(value: Buffer, { fields, schemaId }: AvroFormat): Fields | Unreadable {
  const at = schemaId === null ? 0 : FRAME_BYTES
  if (schemaId !== null) {
    if (value.length < FRAME_BYTES || value[0] !== 0) return new Unreadable('no number of a schema stands before it')
    if (value.readUInt32BE(1) !== schemaId) return new Unreadable('it is written by another schema than schema_id')
  }
  const from = new ByteReader(value, at)
  const texts = new Map<string, string | null>()
  const room = newRoom()
  try {
    for (const field of fields) texts.set(field.name, field.text(from, room))
  } catch (error) {
    // A schema may be deeper than the stack.
    if (error instanceof BrokenFile || error instanceof RangeError)
      return new Unreadable('it is not written by avro_schema')
    throw error
  }
  if (room.left < 0) return new Unreadable(`it has more than ${MAX_RECORD_BYTES} characters`)
  if (from.left > 0) return new Unreadable('it is not written by avro_schema: it goes on behind its end')
  return { names: texts.keys(), text: ({ name }) => texts.get(name) ?? null }
}

/** As JSON: names and values as texts, in their order; a value that is no text in base64. */
export function headersText({ headers }: Pick<KafkaRecord, 'headers'>): string | null {
  if (headers.length === 0) return null
  return JSON.stringify(
    headers.map(({ name, value }) => {
      if (value === null) return { name: name.toWellFormed(), value: null }
      if (isUtf8(value)) return { name: name.toWellFormed(), value: value.toString('utf8') }
      return { name: name.toWellFormed(), base64: value.toString('base64') }
    }),
  )
}
