/**
 * Rows as the server sends them, made into the shared CSV: bytes are moved from the buffer that the socket filled to the one that
 * goes on, and no value is made of a cell that can be carried.
 */
import { isUtf8 } from 'node:buffer'
import type { ReadEvent } from '@sluice/sdk'
import type { RelationColumn } from './relation.ts'
import type { CellKind } from './types.ts'
import { Fields } from './wire/fields.ts'
import { Garbled, HEADER_BYTES, MAX_PAYLOAD_BYTES, type Packets } from './wire/packets.ts'
import { isEnd } from './wire/result.ts'
import { ServerError } from './wire/server-error.ts'

type RejectEvent = Extract<ReadEvent, { kind: 'reject' }>

export interface Chosen {
  readonly columns: readonly RelationColumn[]
  readonly primaryKey: readonly string[]
  /** Names of columns without whose value a row may come. */
  readonly optional: ReadonlySet<string>
  /** Rows end with a cell that tells of which columns. */
  readonly marks: boolean
}

const QUOTE = 0x22
const COMMA = 0x2c
const LINE_END = 0x0a
const BACKSLASH = 0x5c
const NULL = 0xfb
const HEX = Buffer.from('0123456789abcdef')
/** Of a row in the shared CSV: what the engine takes. */
const MAX_ROW_BYTES = 16 * 1024 * 1024 - 1
const MAX_RAW_CHARACTERS = 1_000
const MAX_KEY_CHARACTERS = 256

const UNFIT: Readonly<Record<CellKind, string>> = {
  text: 'the text holds a NUL character, or is no UTF-8',
  bytes: 'the bytes cannot be carried',
  bit: 'the bit cannot be carried',
  date: 'the date is zero in whole or in part, or no day of the calendar',
  datetime: 'the time is zero in whole or in part, or of no day of the calendar',
  instant: 'the time is zero in whole or in part, or of no day of the calendar',
}

export class Rows {
  readonly #chosen: Chosen
  readonly #kinds: readonly CellKind[]
  #out = Buffer.allocUnsafe(1 << 17)
  #written = 0
  #rejects: RejectEvent[] = []
  /** Rows that came, without those that were left out. */
  carried = 0
  /** Rows that were left out. */
  refused = 0

  constructor(chosen: Chosen) {
    this.#chosen = chosen
    this.#kinds = chosen.columns.map(({ carriage }) => carriage.kind)
  }

  /** CSV and rejects, to the end of the rows. */
  async *take(packets: Packets): AsyncGenerator<ReadEvent> {
    let needed = HEADER_BYTES
    for (;;) {
      const all = await packets.atLeast(needed)
      let at = 0
      let isOver = false
      needed = HEADER_BYTES
      while (all.length - at >= HEADER_BYTES) {
        const length = all.readUIntLE(at, 3)
        if (length === MAX_PAYLOAD_BYTES) break
        if (all.length - at < HEADER_BYTES + length) {
          needed = HEADER_BYTES + length
          break
        }
        packets.count(all[at + 3] ?? 0)
        const payload = all.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length)
        at += HEADER_BYTES + length
        isOver = this.#isLast(payload)
        if (isOver) break
        this.#row(payload)
      }
      const isLarge = !isOver && all.length - at >= HEADER_BYTES && all.readUIntLE(at, 3) === MAX_PAYLOAD_BYTES
      packets.consume(at)
      yield* this.#flush()
      if (isOver) return
      if (isLarge) {
        await skipLarge(packets)
        this.#refuse({ kind: 'reject', reason: TOO_LARGE, column: null })
      }
    }
  }

  #isLast(payload: Buffer): boolean {
    if (payload[0] === 0xff) throw ServerError.of(payload)
    return isEnd(payload)
  }

  *#flush(): Generator<ReadEvent> {
    if (this.#written > 0) {
      // A copy: the next rows are written over these.
      yield { kind: 'csv', chunk: Buffer.from(this.#out.subarray(0, this.#written)) }
      this.#written = 0
    }
    const rejects = this.#rejects
    this.#rejects = []
    yield* rejects
  }

  #row(payload: Buffer): void {
    // A byte is two at most, and a cell has quotes, a comma, and what stands for its kind around it.
    this.#reserve(2 * payload.length + 8 * this.#kinds.length)
    const start = this.#written
    const out = this.#out
    let to = start
    let from = 0
    let unfit: number[] | null = null
    for (let column = 0; column < this.#kinds.length; column += 1) {
      if (column > 0) out[to++] = COMMA
      let length = payload[from] ?? -1
      if (length < 0) throw new Garbled('a row with less than its columns')
      from += 1
      if (length === NULL) continue
      if (length > NULL) {
        const bytes = length - NULL + 1
        if (length > 0xfd || payload.length - from < bytes) throw new Garbled('a length that no value has')
        length = payload.readUIntLE(from, bytes)
        from += bytes
      }
      const end = from + length
      if (end > payload.length) throw new Garbled('a value that is longer than its row')
      const next = writeCell(this.#kinds[column] as CellKind, payload, from, end, out, to)
      if (next < 0) (unfit ??= []).push(column)
      else to = next
      from = end
    }
    if (from !== payload.length) throw new Garbled('a row with more than its columns')
    if (unfit !== null && !this.#isOptional(unfit)) {
      this.#refuse(...this.#rejectsOf(payload, unfit, false).slice(0, 1))
      return
    }
    if (this.#chosen.marks) {
      out[to++] = COMMA
      if (unfit !== null) to = this.#mark(unfit, to)
    }
    this.#out[to++] = LINE_END
    if (to - start > MAX_ROW_BYTES) {
      this.#written = start
      this.#refuse({ kind: 'reject', reason: TOO_LARGE, column: null, ...this.#keyOf(textsOf(payload)) })
      return
    }
    this.#written = to
    this.carried += 1
    if (unfit !== null) this.#rejects.push(...this.#rejectsOf(payload, unfit, true))
  }

  #refuse(...rejects: readonly RejectEvent[]): void {
    this.refused += 1
    this.#rejects.push(...rejects)
  }

  #isOptional(unfit: readonly number[]): boolean {
    return unfit.every((column) => this.#chosen.optional.has(this.#chosen.columns[column]?.name ?? ''))
  }

  /** Gives where the cell ends. */
  #mark(unfit: readonly number[], to: number): number {
    const names = unfit.map((column) => this.#chosen.columns[column]?.name ?? '')
    const cell = Buffer.from(`"${JSON.stringify(names).replaceAll('"', '""')}"`)
    this.#written = to
    this.#reserve(cell.length + 1)
    return to + cell.copy(this.#out, to)
  }

  /** One for each column at fault; where the row does not come, first one that it could not come without. */
  #rejectsOf(payload: Buffer, unfit: readonly number[], carried: boolean): RejectEvent[] {
    const texts = textsOf(payload)
    const { columns, optional } = this.#chosen
    const isNeeded = (column: number) => !optional.has(columns[column]?.name ?? '')
    return [...unfit.filter(isNeeded), ...unfit.filter((column) => !isNeeded(column))].map((at) => ({
      kind: 'reject',
      reason: UNFIT[this.#kinds[at] ?? 'text'],
      column: columns[at]?.name ?? null,
      ...this.#keyOf(texts),
      raw: (texts[at] ?? '').slice(0, MAX_RAW_CHARACTERS).replaceAll('\0', '\u2400'),
      ...(carried ? { carried } : {}),
    }))
  }

  #keyOf(texts: readonly (string | null)[]): { readonly key?: Readonly<Record<string, string>> } {
    const { columns, primaryKey } = this.#chosen
    const cells = primaryKey.map((name) => {
      const at = columns.findIndex((column) => column.name === name)
      return [name, keyText(this.#kinds[at] ?? 'text', texts[at] ?? null)] as const
    })
    const isKnown = cells.length > 0 && cells.every(([, text]) => text !== null && text.length <= MAX_KEY_CHARACTERS)
    return isKnown ? { key: Object.fromEntries(cells) as Record<string, string> } : {}
  }

  #reserve(bytes: number): void {
    if (this.#out.length - this.#written >= bytes) return
    const larger = Buffer.allocUnsafe(Math.max(2 * this.#out.length, this.#written + bytes))
    this.#out.copy(larger, 0, 0, this.#written)
    this.#out = larger
  }
}

const TOO_LARGE = 'the row is larger than 16 MiB'

/** A row of several packets: the last of them is the first that is not full. */
async function skipLarge(packets: Packets): Promise<void> {
  for (;;) {
    const header = await packets.atLeast(HEADER_BYTES)
    const length = header.readUIntLE(0, 3)
    packets.count(header[3] ?? 0)
    packets.consume(HEADER_BYTES)
    await packets.skip(length)
    if (length < MAX_PAYLOAD_BYTES) return
  }
}

/** Gives where the cell ends in `out`; -1 where the value cannot be carried. */
function writeCell(kind: CellKind, bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  out[to++] = QUOTE
  let after = -1
  if (kind === 'bytes') after = writeHex(bytes, from, end, out, to)
  else if (kind === 'bit') after = writeBit(bytes, from, end, out, to)
  else if (kind === 'text') after = writeText(bytes, from, end, out, to)
  else if (isDay(bytes, from, end)) after = writeTime(kind, bytes, from, end, out, to)
  if (after < 0) return -1
  out[after] = QUOTE
  return after + 1
}

function writeText(bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  let isPlain = true
  let after = to
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at] as number
    if (byte === 0) return -1
    if (byte >= 0x80) isPlain = false
    out[after++] = byte
    if (byte === QUOTE) out[after++] = QUOTE
  }
  return isPlain || isUtf8(bytes.subarray(from, end)) ? after : -1
}

function writeHex(bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  let after = to
  out[after++] = BACKSLASH
  out[after++] = 0x78
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at] as number
    out[after++] = HEX[byte >> 4] as number
    out[after++] = HEX[byte & 15] as number
  }
  return after
}

function writeBit(bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  if (end - from !== 1) throw new Garbled('a bit of another size')
  out[to] = bytes[from] === 0 ? 0x66 : 0x74
  return to + 1
}

function writeTime(kind: CellKind, bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  const after = to + bytes.copy(out, to, from, end)
  return kind === 'instant' ? after + out.write('+00', after, 'latin1') : after
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const DAY_CHARACTERS = 10

/** `YYYY-MM-DD` of the calendar, and no character in what follows that a time does not have. */
function isDay(bytes: Buffer, from: number, end: number): boolean {
  if (end - from < DAY_CHARACTERS || bytes[from + 4] !== 0x2d || bytes[from + 7] !== 0x2d) return false
  const year = digits(bytes, from, 4)
  const month = digits(bytes, from + 5, 2)
  const day = digits(bytes, from + 8, 2)
  if (year < 1 || month < 1 || month > 12 || day < 1) return false
  const isLeap = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  if (day > (DAYS[month - 1] ?? 0) + (isLeap ? 1 : 0)) return false
  for (let at = from + DAY_CHARACTERS; at < end; at += 1) {
    const byte = bytes[at] as number
    if ((byte < 0x30 || byte > 0x3a) && byte !== 0x20 && byte !== 0x2e) return false
  }
  return true
}

/** -1 where one is none. */
function digits(bytes: Buffer, from: number, count: number): number {
  let value = 0
  for (let at = from; at < from + count; at += 1) {
    const digit = (bytes[at] as number) - 0x30
    if (digit < 0 || digit > 9) return -1
    value = 10 * value + digit
  }
  return value
}

/** Of a row that cannot come as it is; what is no UTF-8 is shown by replacement characters. */
function textsOf(payload: Buffer): readonly (string | null)[] {
  const fields = new Fields(payload)
  const texts: (string | null)[] = []
  while (fields.left > 0) texts.push(fields.value())
  return texts
}

/** As the shared CSV has it; null where it cannot be told. */
function keyText(kind: CellKind, text: string | null): string | null {
  if (text === null || kind === 'bytes' || (kind !== 'bit' && text.includes('\0'))) return null
  if (kind === 'bit') return text === '\0' ? 'f' : 't'
  return kind === 'instant' ? `${text}+00` : text
}
