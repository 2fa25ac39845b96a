/** Makes rows of the shared CSV out of records, or says why one cannot be carried, and where it stands. */
import { isUtf8 } from 'node:buffer'
import { type Column, type ReadEvent, type ReadRequest, type ValueReader, valueReader } from '@sluice/sdk'
import { type Fields, headersText, keyFields, Misfit, NO_FIELDS, Unreadable, valueFields } from './decode.ts'
import type { NamedType, TopicTable } from './topic-settings.ts'
import type { KafkaRecord } from './wire/records.ts'

type Reject = Extract<ReadEvent, { kind: 'reject' }>

export interface WrittenRow {
  /** Null: it cannot be carried. */
  readonly line: string | null
  readonly rejects: readonly Reject[]
}

interface ReadColumn extends Column {
  readonly reader: ValueReader
  /** A value of it that cannot be carried does not cost the row. */
  readonly isForgiven: boolean
  readonly source: 'key' | 'value' | 'record'
}

const MAX_RAW_CHARACTERS = 2000
/** The end of the year 9999. */
const MOST_MS = 253_402_300_799_999n

export class RowWriter {
  readonly #table: TopicTable
  readonly #columns: readonly ReadColumn[]
  readonly #known: ReadonlySet<string>
  readonly #key: readonly string[]
  readonly #marks: boolean

  /** `values`: all columns that records may hold. */
  constructor(
    table: TopicTable,
    values: readonly NamedType[],
    columns: readonly Column[],
    request: Pick<ReadRequest, 'optional' | 'marked' | 'primaryKey'>,
  ) {
    const forgiven = new Set([...(request.optional ?? []), ...(request.marked ?? [])])
    this.#table = table
    this.#known = new Set(values.map(({ name }) => name))
    this.#key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
    this.#marks = request.marked !== undefined
    const isOfKey = (name: string) => table.mode === 'upsert' && table.primaryKey.includes(name)
    this.#columns = columns.map((column) => ({
      ...column,
      reader: valueReader(column.type),
      isForgiven: column.nullable && forgiven.has(column.name),
      source: isOfKey(column.name) ? 'key' : this.#known.has(column.name) ? 'value' : 'record',
    }))
  }

  write(record: KafkaRecord, partition: number): WrittenRow {
    const { mode } = this.#table
    const raw = () => `${this.#table.name}/${partition}/${record.offset}: ${shown(record)}`
    // Whoever asks for keys is told them, whatever the values are, and of no record that has none.
    const isValueAsked = this.#columns.some(({ source }) => source === 'value')
    if (mode === 'upsert' && record.key === null && !isValueAsked) return { line: null, rejects: [] }
    const key = mode === 'upsert' ? keyFields(record.key, this.#table) : NO_FIELDS
    if (key instanceof Unreadable) return refused({ reason: key.reason, column: null }, raw())
    const value = record.value === null || !isValueAsked ? NO_FIELDS : valueFields(record.value, this.#table)
    const texts: (string | null)[] = []
    const faults: { readonly column: ReadColumn; readonly reason: string; readonly raw: string }[] = []
    for (const column of this.#columns) {
      if (column.source === 'value' && value instanceof Unreadable) {
        texts.push(null)
        continue
      }
      const found = this.#found(column, {
        key,
        value: value instanceof Unreadable ? NO_FIELDS : value,
        record,
        partition,
      })
      const text = found === null || found instanceof Misfit ? null : column.reader(found)
      texts.push(text)
      if (found !== null && text === null)
        faults.push({ column, reason: `it is no ${column.type}`, raw: found instanceof Misfit ? found.text : found })
      else if (text === null && !column.nullable) faults.push({ column, reason: 'it is missing', raw: '' })
    }
    const row = this.#keyOf(texts)
    if (value instanceof Unreadable) return refused({ reason: value.reason, column: null }, raw(), row)
    if (this.#table.columns === null && isValueAsked)
      for (const name of value.names)
        if (!this.#known.has(name))
          return refused(
            { reason: 'it has a field that the table does not: list its columns under columns', column: null },
            raw(),
            row,
          )
    const costly = faults.find(({ column }) => !column.isForgiven)
    if (costly !== undefined) return refused({ reason: costly.reason, column: costly.column.name }, raw(), row)
    const line = texts.map(quoted).join(',')
    const marks = faults.length === 0 ? null : JSON.stringify(faults.map(({ column }) => column.name))
    return {
      line: this.#marks ? `${line},${quoted(marks)}` : line,
      rejects: faults.map(({ column, reason, raw: text }) => ({
        ...{ kind: 'reject', reason, column: column.name, raw: cut(text), carried: true },
        ...(row === undefined ? {} : { key: row }),
      })),
    }
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
        return isUtf8(record.key) ? record.key.toString('utf8') : new Misfit(`\\x${record.key.toString('hex')}`)
    }
  }

  /** Absent where a part of it is not known. */
  #keyOf(texts: readonly (string | null)[]): Readonly<Record<string, string>> | undefined {
    const parts: [string, string][] = []
    for (const name of this.#key) {
      const text = texts[this.#columns.findIndex((column) => column.name === name)] ?? null
      if (text === null) return undefined
      parts.push([name, text])
    }
    return parts.length === 0 ? undefined : Object.fromEntries(parts)
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
  const part = bytes.subarray(0, 4 * MAX_RAW_CHARACTERS)
  return isUtf8(bytes) ? part.toString('utf8') : part.toString('latin1')
}

function refused(
  fault: { readonly reason: string; readonly column: string | null },
  raw: string,
  key?: Readonly<Record<string, string>>,
): WrittenRow {
  return { line: null, rejects: [{ kind: 'reject', ...fault, raw: cut(raw), ...(key === undefined ? {} : { key }) }] }
}

const cut = (text: string) => text.slice(0, MAX_RAW_CHARACTERS).toWellFormed()

function quoted(text: string | null): string {
  if (text === null) return ''
  return text.includes('"') ? `"${text.replaceAll('"', '""')}"` : `"${text}"`
}
