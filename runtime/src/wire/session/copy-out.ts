/** COPY … TO STDOUT: rows as lines or as they are in binary, one a message. */
import type { TenantCall } from '../../flow.ts'
import type { Format } from '../protocol/client-messages.ts'
import { endOfRow, type RowBatch } from '../protocol/row-batch.ts'
import { commandComplete, copyData, copyDone, copyOut, dataRow } from '../protocol/server-messages.ts'
import { type CopyFormat, copyOf } from '../sql/copy.ts'
import type { Statement } from '../sql/words.ts'
import { Growing, putBytes, putInt32 } from '../values/growing.ts'
import type { ClientStream } from './client-stream.ts'
import { Portal } from './portal.ts'
import type { SessionPlanParts } from './row-plan.ts'
import { rowPlan } from './row-plans.ts'

export interface CopyParts extends SessionPlanParts {
  readonly stream: ClientStream
  readonly settings: { readonly timeoutMs: number | undefined }
}

/** How rows are sent, and what goes before the first and behind the last of them. */
interface Layout {
  readonly format: Format
  readonly head: Buffer
  readonly tail: Buffer
  messages(batch: RowBatch): Buffer
}

/** Runs it, and tells its end. Nothing of it is kept. */
export async function runCopy(
  parts: CopyParts,
  statement: Statement,
  admit: (signal: AbortSignal) => Promise<TenantCall>,
): Promise<void> {
  const { query, format, hasHeader } = copyOf(statement)
  const layout = LAYOUTS[format]
  const bound = { values: [], formats: [layout.format], timeoutMs: parts.settings.timeoutMs }
  const portal = new Portal(rowPlan(parts, query, []), bound)
  try {
    await sendCopy(parts.stream, portal, layout, hasHeader, admit)
  } finally {
    portal.close()
  }
}

async function sendCopy(
  stream: ClientStream,
  portal: Portal,
  { format, head, tail, messages }: Layout,
  hasHeader: boolean,
  admit: (signal: AbortSignal) => Promise<TenantCall>,
): Promise<void> {
  const columns = await portal.columns(admit)
  await stream.write(copyOut(columns.length, format))
  if (hasHeader) {
    const names = dataRow(columns.map(({ name }) => Buffer.from(name)))
    await stream.write(messages({ bytes: names, rows: 1 }))
  }
  let rows = 0
  for await (const some of portal.read(0)) {
    const bytes = messages(some)
    await stream.write(rows === 0 ? withHead(head, bytes) : bytes)
    rows += some.rows
  }
  if (tail.length > 0) await stream.write(copyData(rows === 0 ? Buffer.concat([head, tail]) : tail))
  await stream.write(copyDone())
  await stream.write(commandComplete(`COPY ${rows}`))
}

interface Form {
  readonly separator: number
  readonly null: Buffer
  /** Writes a value and returns where it ends; there is room for twice its bytes and two more. */
  put(from: Buffer, start: number, end: number, to: Buffer, at: number, isAlone: boolean): number
}

const [COPY_DATA, NEWLINE, BACKSLASH, QUOTE] = [0x64, 0x0a, 0x5c, 0x22]
const HEAD_BYTES = 5
const ROW_HEAD_BYTES = 7

/**
 * In binary each row is a count and cells with their lengths, as in a message of a row: only what the message is called differs.
 * The batch is written over.
 */
export function copyTuples({ bytes, rows }: RowBatch): Buffer {
  for (let count = 0, row = 0; count < rows; count += 1) {
    const end = endOfRow(bytes, row)
    bytes[row] = COPY_DATA
    row = end
  }
  return bytes
}

/** The first message has both, as PostgreSQL sends it and clients rely on. */
function withHead(head: Buffer, messages: Buffer): Buffer {
  if (head.length === 0) return messages
  const all = Buffer.concat([messages.subarray(0, HEAD_BYTES), head, messages.subarray(HEAD_BYTES)])
  putInt32(all, 1, messages.readInt32BE(1) + head.length)
  return all
}

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
    at = form.put(from, cell, cell + length, to, at, cell === start + 4 && cell + length === end)
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

/** Null is empty, and the empty text has quotes. A line that is `\.` alone would end the rows for older readers. */
export const CSV: Form = {
  separator: 0x2c,
  null: Buffer.alloc(0),
  put(from, start, end, to, at, isAlone) {
    if (isPlain(from, start, end, isAlone)) return putBytes(from, start, end, to, at)
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

function isPlain(from: Buffer, start: number, end: number, isAlone: boolean): boolean {
  if (start === end) return false
  if (isAlone && end - start === 2 && from[start] === BACKSLASH && from[start + 1] === 0x2e) return false
  for (let byte = start; byte < end; byte += 1) if (QUOTED[from[byte] as number] === 1) return false
  return true
}

const NOTHING = Buffer.alloc(0)

const LAYOUTS: Readonly<Record<CopyFormat, Layout>> = {
  text: { format: 0, head: NOTHING, tail: NOTHING, messages: (batch) => copyLines(batch, TEXT) },
  csv: { format: 0, head: NOTHING, tail: NOTHING, messages: (batch) => copyLines(batch, CSV) },
  binary: {
    format: 1,
    // No flags, and no bytes of an extension.
    head: Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1'),
    // In place of a count of cells.
    tail: Buffer.from([0xff, 0xff]),
    messages: copyTuples,
  },
}
