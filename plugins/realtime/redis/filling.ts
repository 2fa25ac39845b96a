/**
 * Puts values under keys that are thought to be free, as plain SETs that come as bytes: on its server this costs what a
 * bulk load does, half of what a script takes that looks at each key first.
 */
import type { KeyedRows } from '@sluice/sdk'
import type { BulkConnection } from './bulk-connection.ts'
import { headOf } from './records.ts'

export interface Filling {
  readonly prefix: string
  readonly write: number
  readonly layoutIndex: number
  readonly liveForMs: number
}

/** Over one connection. Its buffers are used again: made anew for each call they would cost more than what goes into them. */
export class Filler {
  readonly #connection: BulkConnection
  readonly #free: Buffer[] = []

  constructor(connection: BulkConnection) {
    this.#connection = connection
  }

  /** Whether all values lie there now; where a key was not free its value does not, and of the others any may. */
  async fill(rows: KeyedRows, filling: Filling): Promise<boolean> {
    const sets = new Sets(filling)
    const buffer = this.#take(sets.maxBytes(rows))
    const { bytes, count } = sets.writtenInto(buffer, rows)
    const nils = count === 0 ? 0 : await this.#connection.send(bytes, count)
    // The server has read it.
    if (buffer.length <= LARGEST_KEPT_BYTES) this.#free.push(buffer)
    return nils === 0
  }

  /** How many replicas have all that was filled in. */
  wait(replicas: number, timeoutMs: number): Promise<number> {
    return this.#connection.wait(replicas, timeoutMs)
  }

  close(): void {
    this.#connection.close()
  }

  #take(bytes: number): Buffer {
    const at = this.#free.findIndex((buffer) => buffer.length >= bytes)
    return at < 0 ? Buffer.allocUnsafeSlow(Math.max(bytes, SMALLEST_BYTES)) : (this.#free.splice(at, 1)[0] as Buffer)
  }
}

const SMALLEST_BYTES = 1 << 17
const LARGEST_KEPT_BYTES = 1 << 21

const CR = 0x0d
const LF = 0x0a
const DOLLAR = 0x24
const ZERO = 0x30

/** A length of at most ten digits, and the line ends behind it and behind the bytes that it is of. */
const MARKS_BYTES = 14

/**
 * `SET key value PX … NX` for each row, as the protocol writes it:
 * https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
class Sets {
  readonly #before = Buffer.from('*6\r\n$3\r\nSET\r\n$')
  readonly #prefix: Buffer
  readonly #head: Buffer
  readonly #after: Buffer

  constructor({ prefix, write, layoutIndex, liveForMs }: Filling) {
    const end = String(Math.ceil(liveForMs))
    this.#prefix = Buffer.from(prefix)
    this.#head = headOf(write, layoutIndex)
    this.#after = Buffer.from(`\r\n$2\r\nPX\r\n$${end.length}\r\n${end}\r\n$2\r\nNX\r\n`)
  }

  maxBytes(rows: KeyedRows): number {
    const textBytes = rows.jsonEnd(rows.rowCount - 1) - rows.keyStart(0)
    const ownBytes = this.#before.length + this.#prefix.length + this.#head.length + this.#after.length
    return textBytes + rows.rowCount * (ownBytes + 2 * MARKS_BYTES)
  }

  writtenInto(target: Buffer, rows: KeyedRows): { readonly bytes: Buffer; readonly count: number } {
    const { bytes, rowCount } = rows
    const [before, prefix, head, after] = [this.#before, this.#prefix, this.#head, this.#after]
    let end = 0
    let count = 0
    for (let row = 0; row < rowCount; row += 1) {
      if (!rows.hasKey(row)) continue
      const [keyStart, keyEnd] = [rows.keyStart(row), rows.keyEnd(row)]
      const [jsonStart, jsonEnd] = [rows.jsonStart(row), rows.jsonEnd(row)]
      end = put(before, target, end)
      end = putLength(prefix.length + keyEnd - keyStart, target, end)
      end = put(prefix, target, end)
      end += bytes.copy(target, end, keyStart, keyEnd)
      target[end] = CR
      target[end + 1] = LF
      target[end + 2] = DOLLAR
      end = putLength(head.length + jsonEnd - jsonStart, target, end + 3)
      head.writeUInt32BE(jsonEnd - jsonStart, head.length - 4)
      end = put(head, target, end)
      end += bytes.copy(target, end, jsonStart, jsonEnd)
      end = put(after, target, end)
      count += 1
    }
    return { bytes: target.subarray(0, end), count }
  }
}

/** For a few bytes, of which a call of `copy` would take longer. Returns where they end. */
function put(source: Buffer, target: Buffer, start: number): number {
  for (let at = 0; at < source.length; at += 1) target[start + at] = source[at] as number
  return start + source.length
}

function putLength(value: number, target: Buffer, start: number): number {
  let digits = 1
  for (let limit = 10; value >= limit; limit *= 10) digits += 1
  let rest = value
  for (let at = start + digits - 1; at >= start; at -= 1) {
    target[at] = ZERO + (rest % 10)
    rest = Math.floor(rest / 10)
  }
  target[start + digits] = CR
  target[start + digits + 1] = LF
  return start + digits + 2
}
