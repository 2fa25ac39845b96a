/** Makes rows of the shared CSV out of records, or says why one cannot be carried, and where it stands. */
import { isUtf8 } from 'node:buffer'
import { type Column, type ReadRequest, valueReader } from '@sluice/sdk'
import {
  Misfit,
  RowTextWriter,
  refused,
  UNSEEN_FIELD,
  type WritableColumn,
  type WrittenRow,
} from '../files/written-row.ts'
import { type Fields, headersText, NO_FIELDS, Unreadable } from './decode.ts'
import { type Decoder, plainDecoder } from './decoder.ts'
import type { NamedType, TopicTable } from './topic-settings.ts'
import type { KafkaRecord } from './wire/records.ts'

interface ReadColumn extends WritableColumn {
  readonly source: 'key' | 'value' | 'record'
}

/** Of a record that is shown: more than a refused row shows of it. */
const MOST_SHOWN_BYTES = 8000
/** The end of the year 9999. */
const MOST_MS = 253_402_300_799_999n

export class RowWriter {
  readonly #table: TopicTable
  readonly #decoder: Decoder
  readonly #columns: readonly ReadColumn[]
  readonly #known: ReadonlySet<string>
  readonly #texts: RowTextWriter<ReadColumn>

  /** `values`: all columns that records may hold. */
  constructor(
    table: TopicTable,
    values: readonly NamedType[],
    columns: readonly Column[],
    request: Pick<ReadRequest, 'optional' | 'marked' | 'primaryKey'>,
    decoder: Decoder = plainDecoder(table),
  ) {
    const forgiven = new Set([...(request.optional ?? []), ...(request.marked ?? [])])
    this.#table = table
    this.#decoder = decoder
    this.#known = new Set(values.map(({ name }) => name))
    const isOfKey = (name: string) => table.mode === 'upsert' && table.primaryKey.includes(name)
    this.#columns = columns.map((column) => ({
      ...column,
      reader: valueReader(column.type),
      isForgiven: column.nullable && forgiven.has(column.name),
      source: isOfKey(column.name) ? 'key' : this.#known.has(column.name) ? 'value' : 'record',
    }))
    const key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
    this.#texts = new RowTextWriter(this.#columns, key, request.marked !== undefined)
  }

  write(record: KafkaRecord, partition: number): WrittenRow {
    const { mode } = this.#table
    const raw = () => `${this.#table.name}/${partition}/${record.offset}: ${shown(record)}`
    // Whoever asks for keys is told them, whatever the values are, and of no record that has none.
    const isValueAsked = this.#columns.some(({ source }) => source === 'value')
    if (mode === 'upsert' && record.key === null && !isValueAsked) return { line: null, rejects: [] }
    const key = mode === 'upsert' ? this.#decoder.key(record.key) : NO_FIELDS
    if (key instanceof Unreadable) return refused({ reason: key.reason, column: null }, raw())
    const value = record.value === null || !isValueAsked ? NO_FIELDS : this.#decoder.value(record.value)
    const from = { key, value: value instanceof Unreadable ? NO_FIELDS : value, record, partition }
    const row = this.#texts.read((column) =>
      column.source === 'value' && value instanceof Unreadable ? undefined : this.#found(column, from),
    )
    if (value instanceof Unreadable) return refused({ reason: value.reason, column: null }, raw(), row.key)
    if (this.#table.columns === null && isValueAsked)
      for (const name of value.names) if (!this.#known.has(name)) return refused(UNSEEN_FIELD, raw(), row.key)
    return this.#texts.write(row, raw)
  }

  #found(
    column: ReadColumn,
    from: { readonly key: Fields; readonly value: Fields; readonly record: KafkaRecord; readonly partition: number },
  ): string | Misfit | null {
    if (column.source === 'key') return from.key.text(column)
    if (column.source === 'value') return from.value.text(column)
    const { record } = from
    switch (column.name) {
      case '_partition':
        return String(from.partition)
      case '_offset':
        return String(record.offset)
      case '_timestamp':
        return timestampText(record.timestampMs)
      case '_headers':
        return headersText(record)
      default:
        if (record.key === null) return null
        return this.#keyText(record.key)
    }
  }

  #keyText(key: Buffer): string | Misfit | null {
    const text = this.#decoder.keyText(key)
    if (text !== undefined && !(text instanceof Unreadable)) return text
    return text === undefined && isUtf8(key) ? key.toString('utf8') : new Misfit(`\\x${key.toString('hex')}`)
  }
}

/** Null where nobody has said it: a time of before Kafka had any is none. */
function timestampText(ms: bigint): string | null {
  if (ms < 0n) return null
  return ms > MOST_MS ? `instant ${ms}` : new Date(Number(ms)).toISOString()
}

function shown({ key, value }: KafkaRecord): string {
  if (value !== null) return textOf(value)
  return key === null ? 'no key and no value' : `no value; key ${textOf(key)}`
}

function textOf(bytes: Buffer): string {
  const part = bytes.subarray(0, MOST_SHOWN_BYTES)
  return isUtf8(bytes) ? part.toString('utf8') : part.toString('latin1')
}
