/** What the log's messages come to: rows of the streams asked for, and what befalls these. */
import { type ChangeEvent, type ChangeStream, SluiceError } from '@sluice/sdk'
import type { Session } from '../session.ts'
import { type Cell, garbled, type LogMessage, type Tuple } from './pgoutput.ts'
import { fixed } from './position.ts'
import { type ChangedRow, isFitKey, RowBatch } from './rows.ts'
import { isAlike, isSameShape, mustReread, type Shape, shapeNow, shapeOf } from './shape.ts'

interface Told {
  readonly stream: number
  readonly shape: Shape
  readonly batch: RowBatch
}

/** More tables than a publication of ours has: a server that goes on naming others is none. */
const MAX_RELATIONS = 100_000

/** 2000-01-01 in microseconds of Unix time. */
const EPOCH_US = 946_684_800_000_000n

export class LogFold {
  readonly #streams: readonly ChangeStream[]
  readonly #session: Session
  readonly #byOid = new Map<number, Told | null>()
  readonly #shapes = new Map<number, Shape>()
  /** By stream, the shape that was given last. */
  readonly #given = new Map<number, Shape>()
  /** Streams that are not what is told of them: see `settle`. */
  readonly #unsettled = new Set<number>()
  readonly #leftOut = new Set<number>()
  readonly #settled = new Set<number>()
  #commitLsn: bigint | null = null
  #count = 0n
  sourceTime: string | null = null

  constructor(streams: readonly ChangeStream[], session: Session) {
    this.#streams = streams
    this.#session = session
  }

  get isInTransaction(): boolean {
    return this.#commitLsn !== null
  }

  get bytes(): number {
    let sum = 0
    for (const told of this.#byOid.values()) sum += told?.batch.bytes ?? 0
    return sum
  }

  async *flush(): AsyncGenerator<ChangeEvent> {
    for (const told of this.#byOid.values()) if (told) yield* this.#flushOne(told)
  }

  /**
   * To come before a checkpoint: a table that is not what the log has told of it is to be read whole. It may have been read
   * as it is now, and what came since is of how it was: columns that it had not yet, rows of a table that had its name. Where
   * rows were left out and the key is still another one, the reading stops, and the next one goes on without the table.
   */
  async *settle(): AsyncGenerator<ChangeEvent> {
    for (const index of this.#unsettled) {
      const stream = this.#streams[index]
      const now = stream ? await shapeNow(this.#session, stream) : null
      const isTellable = now !== null && !now.key.includes(-1)
      if (this.#leftOut.has(index) && !isTellable) throw keyChanged(stream?.table ?? '')
      this.#unsettled.delete(index)
      this.#leftOut.delete(index)
      if (!isTellable) continue
      this.#settled.add(index)
      yield this.#schemaEvent(index, now, true)
    }
  }

  async *take(message: LogMessage): AsyncGenerator<ChangeEvent> {
    switch (message.kind) {
      case 'begin':
        if (this.isInTransaction) throw garbled()
        this.#commitLsn = message.commitLsn
        this.#count = 0n
        return
      case 'commit':
        if (!this.isInTransaction) throw garbled()
        this.#commitLsn = null
        this.sourceTime = timeText(message.timeUs)
        return
      case 'relation':
        yield* this.#relation(message)
        return
      case 'truncate':
        for (const oid of message.oids) yield* this.#truncate(this.#told(oid))
        return
      case 'insert':
        this.#change(this.#told(message.oid), null, false, message.row)
        return
      case 'update':
        this.#change(this.#told(message.oid), message.old, message.isFull, message.row)
        return
      case 'delete': {
        const told = this.#told(message.oid)
        if (told) told.batch.add(this.#gone(told.shape, message.old))
        return
      }
      case 'other':
    }
  }

  async *#flushStream(stream: number): AsyncGenerator<ChangeEvent> {
    for (const told of this.#byOid.values()) if (told?.stream === stream) yield* this.#flushOne(told)
  }

  async *#flushOne({ batch, stream, shape }: Told): AsyncGenerator<ChangeEvent> {
    if (batch.bytes === 0) return
    if (this.#given.get(stream) !== shape) yield this.#schemaEvent(stream, shape, false)
    yield* batch.flush(stream, shape, this.#session)
    // What a type says has changed: rows of before say something else by now.
    if (batch.isOutdated && !this.#settled.has(stream)) this.#unsettled.add(stream)
  }

  #schemaEvent(stream: number, shape: Shape, mustReread: boolean): ChangeEvent {
    this.#given.set(stream, shape)
    const { marks = false } = this.#streams[stream] ?? {}
    const more = { ...(mustReread ? { mustReread: true } : {}), ...(marks ? { marks } : {}) }
    return { kind: 'schema', stream, schema: shape.schema, ...more }
  }

  #told(oid: number): Told | null {
    const told = this.#byOid.get(oid)
    if (told === undefined) throw garbled()
    return told
  }

  #seq(): string {
    if (this.#commitLsn === null) throw garbled()
    this.#count += 1n
    return `${fixed(this.#commitLsn, 16)}${fixed(this.#count, 12)}`
  }

  async *#relation(message: Extract<LogMessage, { kind: 'relation' }>): AsyncGenerator<ChangeEvent> {
    const { oid, schema, table, columns } = message
    const stream = this.#streams.findIndex((one) => one.schema === schema && one.table === table)
    const wanted = this.#streams[stream]
    if (this.#byOid.size > MAX_RELATIONS) throw garbled()
    const former = this.#byOid.get(oid)
    if (former) yield* this.#flushOne(former)
    if (!wanted) {
      this.#byOid.set(oid, null)
      return
    }
    // Another table may have had its name until now.
    yield* this.#flushStream(stream)
    const shape = await shapeOf(this.#session, oid, columns, wanted.primaryKey)
    const now = await shapeNow(this.#session, wanted)
    if (!this.#settled.has(stream)) {
      if (now !== null && !isAlike(shape, now)) this.#unsettled.add(stream)
      else if (!this.#leftOut.has(stream)) this.#unsettled.delete(stream)
    }
    if (shape.key.includes(-1)) {
      this.#byOid.set(oid, null)
      this.#leftOut.add(stream)
      this.#unsettled.add(stream)
      return
    }
    this.#byOid.set(oid, { stream, shape, batch: new RowBatch(wanted.marks === true) })
    const known = this.#shapes.get(stream)
    this.#shapes.set(stream, shape)
    if (known && isSameShape(known, shape)) {
      // Rows of either come alike.
      if (this.#given.get(stream) === known) this.#given.set(stream, shape)
      return
    }
    yield this.#schemaEvent(stream, shape, known !== undefined && mustReread(known, shape))
  }

  async *#truncate(told: Told | null): AsyncGenerator<ChangeEvent> {
    if (!told) return
    yield* this.#flushOne(told)
    yield { kind: 'truncate', stream: told.stream, seq: this.#seq() }
  }

  #change(told: Told | null, old: Tuple | null, isFull: boolean, row: Tuple): void {
    if (!told) return
    const { shape, batch } = told
    if (row.length !== shape.width || (old !== null && old.length !== shape.width)) throw garbled()
    const unchanged: string[] = []
    const cells = shape.columns.map(({ place, name }, index): Buffer | null => {
      const cell = row[place] ?? null
      if (cell !== 'unchanged') return cell
      const was = old !== null && (isFull || shape.key.includes(index)) ? (old[place] ?? null) : 'unchanged'
      if (was !== 'unchanged') return was
      if (shape.key.includes(index)) throw garbled()
      unchanged.push(name)
      return null
    })
    for (const index of shape.key) if (cells[index] == null) throw garbled()
    const former = old === null ? null : formerKey(shape, old, cells)
    if (former !== null && old !== null) batch.add(this.#gone(shape, old))
    // A row whose former key could not be carried was never told.
    const from = former !== null && isFitKey(shape, former) ? former.map((cell) => cell.toString('utf8')) : null
    batch.add({ op: 'u', seq: this.#seq(), unchanged, from, cells })
  }

  #gone(shape: Shape, old: Tuple): ChangedRow {
    if (old.length !== shape.width) throw garbled()
    const cells = shape.columns.map(({ place }, index) => (shape.key.includes(index) ? known(old[place]) : null))
    return { op: 'd', seq: this.#seq(), unchanged: [], from: null, cells }
  }
}

function keyChanged(table: string): SluiceError {
  return new SluiceError(
    'TRANSIENT',
    `table ${JSON.stringify(table)}: its key has changed since the log was prepared`,
    {
      code: 'source_changed',
      remedy: 'Try again: the next reading goes by the key that the table has now, or leaves the table out.',
    },
  )
}

function known(cell: Cell | undefined): Buffer {
  if (cell === undefined || cell === null || cell === 'unchanged') throw garbled()
  return cell
}

/** Null where the key is as it was. */
function formerKey(shape: Shape, old: Tuple, cells: readonly (Buffer | null)[]): readonly Buffer[] | null {
  const former = shape.key.map((index) => known(old[shape.columns[index]?.place ?? -1]))
  const isSame = shape.key.every((index, nth) => cells[index]?.equals(former[nth] ?? Buffer.alloc(0)))
  return isSame ? null : former
}

function timeText(sinceEpochUs: bigint): string | null {
  const us = sinceEpochUs + EPOCH_US
  const ms = Number(us / 1000n)
  if (!Number.isSafeInteger(ms) || ms > 253_402_300_799_999) return null
  return `${new Date(ms).toISOString().slice(0, -1)}${String(us % 1000n).padStart(3, '0')}Z`
}
