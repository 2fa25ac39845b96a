/** What a source's log has told, taken apart: each row by itself, and whether the events stand as the contract has them. */
import {
  CHANGE_COLUMNS,
  type ChangeEvent,
  type ChangePosition,
  type ChangeStream,
  type Row,
  type TableSchema,
} from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import { csvRows, valueOf } from './connector-reading.ts'

/** A row of an event of kind `rows`. */
export interface ToldRow {
  readonly kind: 'row'
  readonly stream: number
  readonly op: 'u' | 'd'
  readonly seq: string
  readonly unchanged: readonly string[]
  /** The former key. */
  readonly from: Row | null
  readonly row: Row
  /** The columns that it says it lacks; null where its stream gives no marks. */
  readonly lacking: readonly string[] | null
  readonly schema: TableSchema
}

export type Told = ToldRow | Exclude<ChangeEvent, { kind: 'rows' }>

export interface GivenChanges {
  readonly told: readonly Told[]
  /** Of the last checkpoint. */
  readonly end: ChangePosition
}

export interface Reading {
  readonly after: ChangePosition
  readonly streams: readonly ChangeStream[]
}

/** Reads to the end. Throws a CheckFailure where the events do not stand as they have to. */
export async function gatherChanges(events: AsyncIterable<ChangeEvent>, reading: Reading): Promise<GivenChanges> {
  const form = new Form(reading)
  const told: Told[] = []
  for await (const event of events) {
    for (const one of form.taken(event)) told.push(one)
  }
  const last = told.at(-1)
  if (last?.kind !== 'checkpoint') throw malformed('the last event is no checkpoint', `${last?.kind ?? 'no event'}`)
  return { told, end: last.position }
}

export function isRow(one: Told): one is ToldRow {
  return one.kind === 'row'
}

class Form {
  readonly #streams: readonly ChangeStream[]
  readonly #schemas = new Map<number, TableSchema>()
  readonly #marked = new Map<number, boolean>()
  readonly #last = new Map<number, ToldRow>()
  readonly #seqs = new Map<number, string>()
  readonly #gone = new Map<number, Set<string>>()
  #position: ChangePosition

  constructor({ after, streams }: Reading) {
    this.#streams = streams
    this.#position = after
  }

  taken(event: ChangeEvent): readonly Told[] {
    if (event.kind === 'checkpoint') {
      this.#checkpoint(event)
      return [event]
    }
    if (this.#streams[event.stream] === undefined) throw malformed('an event is of no stream', String(event.stream))
    if (event.kind === 'schema') this.#schema(event.stream, event)
    if (event.kind === 'reject' && event.carried === true) {
      this.#carried(event)
      return [event]
    }
    if (event.kind === 'truncate' || event.kind === 'reject') this.#grow(event.stream, event.seq)
    if (event.kind === 'reject' && event.reason === '') throw malformed('a row is rejected without a reason', 'no text')
    return event.kind === 'rows' ? this.#rows(event) : [event]
  }

  #checkpoint({ position, sourceTime }: Extract<ChangeEvent, { kind: 'checkpoint' }>): void {
    const { lineage, order } = position
    if (lineage !== this.#position.lineage) throw malformed('a checkpoint is of another lineage', lineage)
    if (order < this.#position.order) throw malformed('a checkpoint stands before the one before it', order)
    if (!/^[\x20-\x7e]{1,200}$/.test(order) || lineage.length > 200)
      throw malformed('a position is no text of at most 200 characters of ASCII', order)
    if (sourceTime !== null && !/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(sourceTime))
      throw malformed('the time of a checkpoint is not ISO 8601 in UTC', sourceTime)
    this.#position = position
  }

  #schema(stream: number, { schema, marks = false }: Extract<ChangeEvent, { kind: 'schema' }>): void {
    const { primaryKey = [], marks: isAsked = false } = this.#streams[stream] ?? {}
    if (marks && !isAsked) throw malformed('marks are given to who has not asked for them', 'marks')
    const former = this.#marked.get(stream)
    if (former !== undefined && former !== marks)
      throw malformed('one schema of a stream has marks and another has none', marks ? 'marks' : 'no marks')
    this.#marked.set(stream, marks)
    const names = schema.columns.map(({ name }) => name)
    if (schema.primaryKey.join() !== primaryKey.join() || !primaryKey.every((name) => names.includes(name)))
      throw malformed('a schema has another key than was asked for', schema.primaryKey.join(', ') || 'none')
    this.#schemas.set(stream, schema)
  }

  /** Of the row before it, which has come without the value and says so. */
  #carried({ stream, seq, column }: Extract<ChangeEvent, { kind: 'reject' }>): void {
    const last = this.#last.get(stream)
    if (last?.seq !== seq) throw malformed('a reject that is carried is not of the row before it', seq)
    if (column === null || !last.lacking?.includes(column))
      throw malformed('a reject is carried of a column that its row does not say it lacks', String(column))
  }

  #grow(stream: number, seq: string): void {
    const former = this.#seqs.get(stream)
    if (former !== undefined && seq <= former) throw malformed('_seq of a stream does not grow', `${former}, ${seq}`)
    this.#seqs.set(stream, seq)
  }

  #rows({ stream, chunk, rows: count }: Extract<ChangeEvent, { kind: 'rows' }>): readonly ToldRow[] {
    const schema = this.#schemas.get(stream)
    if (schema === undefined) throw malformed('rows came before the schema of their stream', 'rows')
    const lines = csvRows(new TextDecoder('utf-8', { fatal: true }).decode(chunk), null)
    if (lines.length !== count) throw malformed(`an event of ${count} rows holds others`, `${lines.length} rows`)
    return lines.map((cells) => this.#row(stream, schema, cells as readonly (string | null)[]))
  }

  #row(stream: number, schema: TableSchema, cells: readonly (string | null)[]): ToldRow {
    const [op, seq = null, unchanged = null, from = null, ...texts] = cells
    const isMarked = this.#marked.get(stream) === true
    if (cells.length !== CHANGE_COLUMNS.length + schema.columns.length + (isMarked ? 1 : 0))
      throw malformed('a row has other columns than its schema', `${cells.length} cells`)
    if ((op !== 'u' && op !== 'd') || seq === null) throw malformed('a row has no _op or no _seq', `${op}, ${seq}`)
    this.#grow(stream, seq)
    const key = schema.primaryKey.map((name) => schema.columns.findIndex((column) => column.name === name))
    const valueAt = (index: number, text: string | null | undefined) =>
      text == null ? null : valueOf(schema.columns[index]?.type ?? 'string', text)
    const row = schema.columns.map((_, index) => valueAt(index, texts[index]))
    const lacking = isMarked ? (listOf(cells.at(-1) ?? null) ?? []) : null
    if (lacking?.some((name) => (row[schema.columns.findIndex((column) => column.name === name)] ?? null) !== null))
      throw malformed('a row has a value that it says it lacks', JSON.stringify(cells))
    const former = listOf(from)
    const left = listOf(unchanged) ?? []
    if (key.some((index) => row[index] === null)) throw malformed('a row came without its key', JSON.stringify(cells))
    if (op === 'd' && (left.length > 0 || from !== null || row.some((cell, at) => cell !== null && !key.includes(at))))
      throw malformed('of a row that is gone more came than its key', JSON.stringify(cells))
    if (lacking?.some((name) => left.includes(name)))
      throw malformed('a column is both unchanged and said to be lacking', left.join(', '))
    if (left.some((name) => row[schema.columns.findIndex((column) => column.name === name)] !== null))
      throw malformed('a column is called unchanged and has a value', left.join(', '))
    const gone = this.#gone.get(stream) ?? new Set()
    this.#gone.set(stream, gone)
    if (op === 'd') gone.add(JSON.stringify(key.map((index) => texts[index])))
    if (former !== null && !gone.has(JSON.stringify(former)))
      throw malformed('a row has come from a key that was not told to be gone', JSON.stringify(former))
    const fromKey = former && key.map((index, nth) => valueAt(index, former[nth]))
    const told: ToldRow = { kind: 'row', stream, op, seq, unchanged: left, from: fromKey, row, lacking, schema }
    this.#last.set(stream, told)
    return told
  }
}

function listOf(text: string | null): readonly string[] | null {
  return text === null ? null : (JSON.parse(text) as readonly string[])
}

function malformed(what: string, came: string): CheckFailure {
  return new CheckFailure({
    what: `the events of a log do not stand as the contract has them: ${what}`,
    expected: 'what ChangeEvent says of each event, and a checkpoint last',
    came,
    where: 'connector.changes.changes',
    why: 'the runtime applies the events as they come, whole transactions only',
    remedy: 'Compare the events with ChangeEvent in the SDK.',
  })
}
