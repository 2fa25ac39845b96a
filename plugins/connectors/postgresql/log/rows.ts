/** Changed rows on their way out, as the shared CSV. Values that a read expresses by SQL are expressed by the same SQL. */
import type { ChangeEvent } from '@sluice/sdk'
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

const MAX_RAW_CHARACTERS = 1_000
const MAX_KEY_CHARACTERS = 256

export class RowBatch {
  bytes = 0
  #rows: ChangedRow[] = []

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
    let good: ChangedRow[] = []
    for (const [index, row] of rows.entries()) {
      const column = faults.get(index) ?? (row.op === 'u' ? rangeFault(row, shape) : undefined)
      if (column === undefined) {
        good.push(row)
        continue
      }
      if (good.length > 0) yield { kind: 'rows', stream, chunk: csvOf(good), rows: good.length }
      good = []
      yield rejectOf(row, shape, column, stream)
    }
    if (good.length > 0) yield { kind: 'rows', stream, chunk: csvOf(good), rows: good.length }
  }
}

function rangeFault(row: ChangedRow, shape: Shape): ShapedColumn | undefined {
  return shape.columns.find((column, index) => {
    const cell = row.cells[index]
    return column.carriage.unfit && !column.carriage.express && cell != null && outOfRange(column.carriage.type, cell)
  })
}

/** Puts the expressed values in the place of the logged ones; gives the rows that have one that cannot be carried. */
async function expressAll(
  rows: readonly ChangedRow[],
  shape: Shape,
  session: Session,
): Promise<ReadonlyMap<number, ShapedColumn>> {
  const faults = new Map<number, ShapedColumn>()
  for (const [index, column] of shape.columns.entries()) {
    const { express, unfit } = column.carriage
    if (!express || column.sourceType === null) continue
    const places = rows.flatMap((row, place) => (row.cells[index] == null ? [] : [place]))
    if (places.length === 0) continue
    const value = `(v.value::${column.sourceType})`
    const fault = unfit ? `(${unfit.when(value)})` : 'false'
    const found = await session.query<{ readonly value: string | null; readonly fault: boolean | null }>(
      `SELECT (${express(value)})::text AS value, ${fault} AS fault FROM unnest($1::text[]) WITH ORDINALITY v(value, place) ORDER BY v.place`,
      [places.map((place) => rows[place]?.cells[index]?.toString('utf8') ?? null)],
    )
    for (const [nth, place] of places.entries()) {
      const row = rows[place]
      const one = found[nth]
      if (!row || !one) throw new Error('the server sent another number of values')
      if (one.fault === true) faults.set(place, column)
      else row.cells[index] = one.value === null ? null : Buffer.from(one.value)
    }
  }
  return faults
}

function rejectOf(row: ChangedRow, shape: Shape, column: ShapedColumn, stream: number): ChangeEvent {
  const key = shape.key.map(
    (index) => [shape.columns[index]?.name ?? '', row.cells[index]?.toString('utf8') ?? null] as const,
  )
  const isKnown = key.every(([, value]) => value !== null && value.length <= MAX_KEY_CHARACTERS)
  const raw = row.cells[shape.columns.indexOf(column)]?.toString('utf8').slice(0, MAX_RAW_CHARACTERS)
  return {
    kind: 'reject',
    stream,
    seq: row.seq,
    reason: column.carriage.unfit?.reason ?? 'a value cannot be carried',
    column: column.name,
    ...(isKnown ? { key: Object.fromEntries(key) } : {}),
    ...(raw === undefined ? {} : { raw }),
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const NEWLINE = 0x0a

function csvOf(rows: readonly ChangedRow[]): Buffer {
  let size = 0
  for (const row of rows) size += sizeOf(row)
  const out = new Writer(size)
  for (const row of rows) {
    out.text(row.op)
    out.text(row.seq)
    out.text(row.unchanged.length === 0 ? null : JSON.stringify(row.unchanged))
    out.text(row.from === null ? null : JSON.stringify(row.from))
    for (const cell of row.cells) out.cell(cell)
    out.endRow()
  }
  return out.written()
}

/** At most: every byte doubled. */
function sizeOf(row: ChangedRow): number {
  let size = 128 + 6 * JSON.stringify([row.unchanged, row.from]).length
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
