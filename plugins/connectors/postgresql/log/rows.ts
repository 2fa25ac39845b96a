/** Changed rows on their way out, as the shared CSV. Values that a read expresses by SQL are expressed by the same SQL. */
import type { ChangeEvent } from '@sluice/sdk'
import type { QueryResultRow } from 'pg'
import { sqlState } from '../failure.ts'
import type { Session } from '../session.ts'
import { outOfRange } from './range.ts'
import type { Shape, ShapedColumn } from './shape.ts'

export interface ChangedRow {
  readonly op: 'u' | 'd'
  readonly seq: string
  readonly unchanged: readonly string[]
  readonly from: readonly (string | null)[] | null
  /** By column of the shape. */
  readonly cells: (Buffer | null)[]
}

/** Why a row cannot come. */
interface Fault {
  /** The one that is to blame; null: the row is. */
  readonly column: ShapedColumn | null
  /** Its type has changed since. */
  readonly isFormer: boolean
}

/** Of values that are expressed, by place in the batch. */
type FaultsByRow = ReadonlyMap<number, readonly Fault[]>

const MAX_RAW_CHARACTERS = 1_000
const MAX_ROW_BYTES = 15 << 20

/** A row that comes, with the names of columns that it lacks. */
interface GivenRow {
  readonly row: ChangedRow
  readonly lacks: readonly string[]
}

export class RowBatch {
  bytes = 0
  /** Some values are none of their types any more. */
  isOutdated = false
  readonly #marks: boolean
  #rows: ChangedRow[] = []

  /** `marks`: a row comes without values that cannot be carried, and says so at its end. */
  constructor(marks: boolean) {
    this.#marks = marks
  }

  add(row: ChangedRow): void {
    this.#rows.push(row)
    this.bytes += 64
    for (const cell of row.cells) this.bytes += (cell?.length ?? 0) + 3
  }

  /** Its rows in order, and what cannot be carried of them in its place. */
  async *flush(stream: number, shape: Shape, session: Session): AsyncGenerator<ChangeEvent> {
    const rows = this.#rows
    this.#rows = []
    this.bytes = 0
    const faults = await expressAll(rows, shape, session)
    this.isOutdated ||= hasFormerValues(rows, shape, faults)
    let good: GivenRow[] = []
    const come = (): readonly ChangeEvent[] => {
      const given = good
      good = []
      return given.length === 0 ? [] : [{ kind: 'rows', stream, chunk: csvOf(given, this.#marks), rows: given.length }]
    }
    for (const [index, row] of rows.entries()) {
      const ranges = rangeFaults(row, shape)
      // A row whose key cannot be carried was never told: nothing of it is gone.
      if (row.op === 'd' && ranges.length > 0) continue
      const values = [...(faults.get(index) ?? []), ...ranges]
      const lacks = this.#lacking(values, shape)
      const carried = lacks === null ? [] : values.map((fault) => rejectOf(row, shape, fault, stream, true))
      for (const { column } of lacks === null ? [] : values)
        row.cells[shape.columns.indexOf(column as ShapedColumn)] = null
      const fault = lacks === null ? values[0] : sizeFault(row)
      if (fault === undefined) {
        good.push({ row, lacks: lacks ?? [] })
        if (carried.length > 0) yield* come()
        yield* carried
        continue
      }
      yield* come()
      yield rejectOf(row, shape, fault, stream)
    }
    yield* come()
  }

  /** Null: the row cannot come without these values. */
  #lacking(faults: readonly Fault[], { key, columns }: Shape): readonly string[] | null {
    const isKey = key.some((index) => faults.some(({ column }) => column === columns[index]))
    if (faults.length > 0 && (isKey || !this.#marks)) return null
    return faults.map(({ column }) => column?.name ?? '')
  }
}

/** The stages after this one hold a line of CSV whole, and this is as much as they hold. */
function sizeFault(row: ChangedRow): Fault | undefined {
  let bytes = 0
  for (const cell of row.cells) bytes += (cell?.length ?? 0) + 3
  return bytes > MAX_ROW_BYTES ? { column: null, isFormer: false } : undefined
}

export function isFitKey(shape: Shape, key: readonly Buffer[]): boolean {
  return shape.key.every((index, nth) => {
    const carriage = shape.columns[index]?.carriage
    const cell = key[nth]
    return !carriage?.unfit || cell === undefined || !outOfRange(carriage.type, cell)
  })
}

function hasFormerValues(rows: readonly ChangedRow[], shape: Shape, faults: FaultsByRow): boolean {
  if ([...faults.values()].flat().some(({ isFormer }) => isFormer)) return true
  return shape.columns.some(({ labels }, index) => {
    if (labels === null) return false
    return rows.some(({ cells }) => cells[index] != null && !labels.has(cells[index].toString('utf8')))
  })
}

function rangeFaults(row: ChangedRow, shape: Shape): readonly Fault[] {
  const columns = shape.columns.filter(({ carriage }, index) => {
    const cell = row.cells[index]
    return carriage.unfit && !carriage.express && cell != null && outOfRange(carriage.type, cell)
  })
  return columns.map((column) => ({ column, isFormer: false }))
}

/** Puts the expressed values in the place of the logged ones; gives the rows that have one that cannot be carried. */
async function expressAll(rows: readonly ChangedRow[], shape: Shape, session: Session): Promise<FaultsByRow> {
  const faults = new Map<number, Fault[]>()
  for (const [index, column] of shape.columns.entries()) {
    if (!column.carriage.express || column.sourceType === null) continue
    const places = rows.flatMap((row, place) => (row.cells[index] == null ? [] : [place]))
    const texts = places.map((place) => rows[place]?.cells[index]?.toString('utf8') ?? '')
    const found = await expressed(session, column, texts)
    for (const [nth, place] of places.entries()) {
      const row = rows[place]
      const one = found[nth]
      if (!row || !one) throw new Error('the server sent another number of values')
      const fault = { column, isFormer: one.isFormer === true }
      if (one.fault) faults.set(place, [...(faults.get(place) ?? []), fault])
      else row.cells[index] = one.value === null ? null : Buffer.from(one.value)
    }
  }
  return faults
}

interface Expressed {
  readonly value: string | null
  readonly fault: boolean | null
  readonly isFormer?: boolean
}

/** A type may have changed since: what it does not take any more is found by halves. */
async function expressed(
  session: Session,
  column: ShapedColumn,
  texts: readonly string[],
): Promise<readonly Expressed[]> {
  if (texts.length === 0) return []
  const { express, unfit } = column.carriage
  const value = `(v.value::${column.sourceType})`
  const fault = unfit ? `(${unfit.when(value)})` : 'false'
  try {
    return await session.query<Expressed & QueryResultRow>(
      `SELECT (${express?.(value)})::text AS value, ${fault} AS fault
       FROM unnest($1::text[]) WITH ORDINALITY v(value, place) ORDER BY v.place`,
      [texts],
    )
  } catch (error) {
    if (!/^(22|23|42)/.test(sqlState(error) ?? '')) throw error
    if (texts.length === 1) return [{ value: null, fault: true, isFormer: true }]
    const half = texts.length >> 1
    const first = await expressed(session, column, texts.slice(0, half))
    return [...first, ...(await expressed(session, column, texts.slice(half)))]
  }
}

function rejectOf(
  row: ChangedRow,
  shape: Shape,
  { column, isFormer }: Fault,
  stream: number,
  carried = false,
): ChangeEvent {
  const place = column === null ? -1 : shape.columns.indexOf(column)
  const textOf = (index: number) => row.cells[index]?.toString('utf8') ?? ''
  // Whatever its length: by its key the row of before is taken away.
  const key = shape.key.map((index) => [shape.columns[index]?.name ?? '', textOf(index)] as const)
  return {
    kind: 'reject',
    stream,
    seq: row.seq,
    reason: reasonOf(column, isFormer),
    column: column?.name ?? null,
    ...(shape.key.includes(place) ? {} : { key: Object.fromEntries(key) }),
    ...(column === null ? {} : { raw: textOf(place).slice(0, MAX_RAW_CHARACTERS) }),
    ...(carried ? { carried } : {}),
  }
}

function reasonOf(column: ShapedColumn | null, isFormer: boolean): string {
  if (column === null) return `the row has more than ${MAX_ROW_BYTES >> 20} MiB`
  if (isFormer) return 'its type takes this value no more'
  return column.carriage.unfit?.reason ?? 'a value cannot be carried'
}

const QUOTE = 0x22
const COMMA = 0x2c
const NEWLINE = 0x0a

/** `marks`: each row ends with what it lacks. */
function csvOf(rows: readonly GivenRow[], marks: boolean): Buffer {
  let size = 0
  for (const row of rows) size += sizeOf(row)
  const out = new Writer(size)
  for (const { row, lacks } of rows) {
    out.text(row.op)
    out.text(row.seq)
    out.text(row.unchanged.length === 0 ? null : JSON.stringify(row.unchanged))
    out.text(row.from === null ? null : JSON.stringify(row.from))
    for (const cell of row.cells) out.cell(cell)
    if (marks) out.text(lacks.length === 0 ? null : JSON.stringify(lacks))
    out.endRow()
  }
  return out.written()
}

/** At most: every byte doubled. */
function sizeOf({ row, lacks }: GivenRow): number {
  let size = 128 + 6 * JSON.stringify([row.unchanged, row.from, lacks]).length
  for (const cell of row.cells) size += 2 * (cell?.length ?? 0) + 3
  return size
}

class Writer {
  readonly #out: Buffer
  #at = 0

  constructor(size: number) {
    this.#out = Buffer.allocUnsafe(size)
  }

  text(text: string | null): void {
    this.cell(text === null ? null : Buffer.from(text))
  }

  cell(cell: Buffer | null): void {
    if (cell !== null) {
      this.#out[this.#at++] = QUOTE
      this.#quoted(cell)
      this.#out[this.#at++] = QUOTE
    }
    this.#out[this.#at++] = COMMA
  }

  endRow(): void {
    this.#out[this.#at - 1] = NEWLINE
  }

  written(): Buffer {
    return this.#out.subarray(0, this.#at)
  }

  #quoted(cell: Buffer): void {
    let from = 0
    for (let quote = cell.indexOf(QUOTE); quote >= 0; quote = cell.indexOf(QUOTE, from)) {
      this.#at += cell.copy(this.#out, this.#at, from, quote + 1)
      this.#out[this.#at++] = QUOTE
      from = quote + 1
    }
    this.#at += cell.copy(this.#out, this.#at, from)
  }
}
