/** What the log's messages come to: rows of the streams asked for, and what befalls these. */
import type { ChangeEvent, ChangeStream } from '@sluice/sdk'
import type { Session } from '../session.ts'
import { type Cell, garbled, type LogMessage, type Tuple } from './pgoutput.ts'
import { fixed } from './position.ts'
import { type ChangedRow, RowBatch } from './rows.ts'
import { isSameShape, mustReread, type Shape, shapeOf } from './shape.ts'

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

  #flushOne({ batch, stream, shape }: Told): AsyncGenerator<ChangeEvent> {
    return batch.flush(stream, shape, this.#session)
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
    const shape = await shapeOf(this.#session, oid, columns, wanted.primaryKey)
    if (shape.key.includes(-1)) throw garbled()
    this.#byOid.set(oid, { stream, shape, batch: new RowBatch() })
    const known = this.#shapes.get(stream)
    this.#shapes.set(stream, shape)
    if (known && isSameShape(known, shape)) return
    const reread = known !== undefined && mustReread(known, shape)
    yield { kind: 'schema', stream, schema: shape.schema, ...(reread ? { mustReread: true } : {}) }
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
    const from = old === null ? null : formerKey(shape, old, cells)
    if (from !== null && old !== null) batch.add(this.#gone(shape, old))
    batch.add({ op: 'u', seq: this.#seq(), unchanged, from, cells })
  }

  #gone(shape: Shape, old: Tuple): ChangedRow {
    if (old.length !== shape.width) throw garbled()
    const cells = shape.columns.map(({ place }, index) => (shape.key.includes(index) ? known(old[place]) : null))
    return { op: 'd', seq: this.#seq(), unchanged: [], from: null, cells }
  }
}

function known(cell: Cell | undefined): Buffer {
  if (cell === undefined || cell === null || cell === 'unchanged') throw garbled()
  return cell
}

/** Null where the key is as it was. */
function formerKey(shape: Shape, old: Tuple, cells: readonly (Buffer | null)[]): readonly string[] | null {
  const former = shape.key.map((index) => known(old[shape.columns[index]?.place ?? -1]))
  const isSame = shape.key.every((index, nth) => cells[index]?.equals(former[nth] ?? Buffer.alloc(0)))
  return isSame ? null : former.map((cell) => cell.toString('utf8'))
}

function timeText(sinceEpochUs: bigint): string | null {
  const us = sinceEpochUs + EPOCH_US
  const ms = Number(us / 1000n)
  if (!Number.isSafeInteger(ms) || ms > 253_402_300_799_999) return null
  return `${new Date(ms).toISOString().slice(0, -1)}${String(us % 1000n).padStart(3, '0')}Z`
}
