/** COPY … TO STDOUT: rows as lines, one a message. */
import type { TenantCall } from '../../flow.ts'
import { endOfRow, type RowBatch } from '../protocol/row-batch.ts'
import { commandComplete, copyDone, copyOut, dataRow } from '../protocol/server-messages.ts'
import type { CopyOut } from '../sql/commands.ts'
import { Growing, putBytes, putInt32 } from '../values/growing.ts'
import type { ClientStream } from './client-stream.ts'
import type { Portal } from './portal.ts'

export async function sendCopy(
  stream: ClientStream,
  portal: Portal,
  { format, hasHeader }: CopyOut,
  admit: (signal: AbortSignal) => Promise<TenantCall>,
): Promise<void> {
  const columns = await portal.columns(admit)
  const form = format === 'csv' ? CSV : TEXT
  await stream.write(copyOut(columns.length))
  if (hasHeader) {
    const names = dataRow(columns.map(({ name }) => Buffer.from(name)))
    await stream.write(copyLines({ bytes: names, rows: 1 }, form))
  }
  let rows = 0
  for await (const some of portal.read(0)) {
    rows += some.rows
    await stream.write(copyLines(some, form))
  }
  await stream.write(copyDone())
  await stream.write(commandComplete(`COPY ${rows}`))
}

interface Form {
  readonly separator: number
  readonly null: Buffer
  /** Writes a value and returns where it ends; there is room for twice its bytes and two more. */
  put(from: Buffer, start: number, end: number, to: Buffer, at: number): number
}

const [COPY_DATA, NEWLINE, BACKSLASH, QUOTE] = [0x64, 0x0a, 0x5c, 0x22]
const HEAD_BYTES = 5
const ROW_HEAD_BYTES = 7

/** Each row as a message of a line. */
export function copyLines({ bytes, rows }: RowBatch, form: Form): Buffer {
  const out = new Growing(bytes.length + (bytes.length >> 3))
  let used = 0
  let row = 0
  for (let count = 0; count < rows; count += 1) {
    const end = endOfRow(bytes, row)
    out.makeRoom(used, HEAD_BYTES + 2 * (end - row))
    const begun = used
    used = putLine(bytes, row + ROW_HEAD_BYTES, end, form, out.bytes, used + HEAD_BYTES)
    out.bytes[begun] = COPY_DATA
    putInt32(out.bytes, begun + 1, used - begun - 1)
    row = end
  }
  return out.bytes.subarray(0, used)
}

/** Takes at most twice the bytes of its cells, which have four each for their length. */
function putLine(from: Buffer, start: number, end: number, form: Form, to: Buffer, at: number): number {
  for (let cell = start; cell < end; ) {
    if (cell > start) to[at++] = form.separator
    const length = from.readInt32BE(cell)
    cell += 4
    if (length < 0) {
      at = putBytes(form.null, 0, form.null.length, to, at)
      continue
    }
    at = form.put(from, cell, cell + length, to, at)
    cell += length
  }
  to[at] = NEWLINE
  return at + 1
}

/** By the byte: what stands behind the backslash. Zero: it stays as it is, as bytes of UTF-8 beyond ASCII do. */
const ESCAPES = new Uint8Array(256)
for (const [sign, letter] of ['\\\\', '\bb', '\ff', '\nn', '\rr', '\tt', '\vv']) {
  ESCAPES[String(sign).charCodeAt(0)] = String(letter).charCodeAt(0)
}

export const TEXT: Form = {
  separator: 0x09,
  null: Buffer.from('\\N'),
  put(from, start, end, to, at) {
    for (let byte = start; byte < end; byte += 1) {
      const value = from[byte] as number
      const escaped = ESCAPES[value] as number
      if (escaped !== 0) to[at++] = BACKSLASH
      to[at++] = escaped === 0 ? value : escaped
    }
    return at
  },
}

/** By the byte: whether a value with it has quotes. */
const QUOTED = new Uint8Array(256)
for (const sign of '",\r\n') QUOTED[sign.charCodeAt(0)] = 1

/** Null is empty, and the empty text has quotes. A line `\.` would end the rows for older readers. */
export const CSV: Form = {
  separator: 0x2c,
  null: Buffer.alloc(0),
  put(from, start, end, to, at) {
    if (isPlain(from, start, end)) return putBytes(from, start, end, to, at)
    to[at++] = QUOTE
    for (let byte = start; byte < end; byte += 1) {
      const value = from[byte] as number
      if (value === QUOTE) to[at++] = QUOTE
      to[at++] = value
    }
    to[at] = QUOTE
    return at + 1
  },
}

function isPlain(from: Buffer, start: number, end: number): boolean {
  if (start === end) return false
  if (end - start === 2 && from[start] === BACKSLASH && from[start + 1] === 0x2e) return false
  for (let byte = start; byte < end; byte += 1) if (QUOTED[from[byte] as number] === 1) return false
  return true
}
