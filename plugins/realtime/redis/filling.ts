/**
 * Puts values under keys that are thought to be free, many with one command and as the bytes that they came as. On its
 * server this costs about as much as plain SETs do, half of what a script takes that looks at each key first.
 */
import type { KeyedRows } from '@sluice/sdk'
import { Command, type Redis } from 'ioredis'
import { headOf } from './records.ts'
import { RENEW } from './scripts.ts'

export interface Filling {
  readonly prefix: string
  readonly write: number
  readonly layoutIndex: number
  readonly liveForMs: number
}

/** Buffers that are used again: made anew for each chunk they would cost more time than all that is put into them. */
export class Buffers {
  readonly #free: Buffer[] = []

  take(bytes: number): Buffer {
    const at = this.#free.findIndex((buffer) => buffer.length >= bytes)
    return at < 0 ? Buffer.allocUnsafeSlow(Math.max(bytes, SMALLEST_BYTES)) : (this.#free.splice(at, 1)[0] as Buffer)
  }

  /** To be called when nobody reads what is in it any more. */
  release(buffer: Buffer): void {
    if (buffer.length <= LARGEST_KEPT_BYTES) this.#free.push(buffer)
  }
}

const SMALLEST_BYTES = 1 << 17
const LARGEST_KEPT_BYTES = 1 << 21

/** Whether the values lie there now: all of them or, where one of the keys is not free, none. */
export async function fill(client: Redis, rows: KeyedRows, filling: Filling, buffers: Buffers): Promise<boolean> {
  const { keys, pairs } = argumentsOf(rows, filling, buffers)
  if (keys.count === 0) return true
  keys.addText(String(Math.ceil(filling.liveForMs)))
  const set = commandOf('MSETNX', [], pairs)
  const renew = commandOf('EVAL', [RENEW.lua, String(keys.count - 1)], keys)
  // Sent in one turn and one packet, so that nothing of another caller's comes between; no value is there without its end.
  client.stream.cork()
  const sent = [client.call('MULTI'), client.sendCommand(set), client.sendCommand(renew), client.call('EXEC')]
  client.stream.uncork()
  const replies = await Promise.all(sent)
  // The server has read both.
  buffers.release(keys.buffer)
  buffers.release(pairs.buffer)
  const answers = replies[3] as readonly unknown[]
  const failure = answers.find((answer) => answer instanceof Error)
  if (failure !== undefined) throw failure
  return answers[0] === 1
}

function argumentsOf(rows: KeyedRows, { prefix, write, layoutIndex }: Filling, buffers: Buffers) {
  const { bytes, rowCount } = rows
  const before = Buffer.from(prefix)
  const head = headOf(write, layoutIndex)
  const textBytes = rows.jsonEnd(rowCount - 1) - rows.keyStart(0)
  const takeArguments = (bytesARow: number) =>
    new Arguments(buffers.take(RESERVED_BYTES + textBytes + rowCount * bytesARow))
  const keys = takeArguments(before.length + MARKS_BYTES)
  const pairs = takeArguments(before.length + head.length + 2 * MARKS_BYTES)
  for (let row = 0; row < rowCount; row += 1) {
    if (!rows.hasKey(row)) continue
    const [start, end] = [rows.keyStart(row), rows.keyEnd(row)]
    const [from, to] = [rows.jsonStart(row), rows.jsonEnd(row)]
    keys.add(before, bytes, start, end)
    pairs.add(before, bytes, start, end)
    head.writeUInt32BE(to - from, head.length - 4)
    pairs.add(head, bytes, from, to)
  }
  return { keys, pairs }
}

const CR = 0x0d
const LF = 0x0a
const DOLLAR = 0x24
const ZERO = 0x30

/** `$`, a length of at most ten digits, and two line ends. */
const MARKS_BYTES = 15

/** For the command in front of its arguments, and one more behind them. */
const HEAD_BYTES = 512
const RESERVED_BYTES = HEAD_BYTES + 64

/** Arguments of a command as the protocol writes them: https://redis.io/docs/latest/develop/reference/protocol-spec/ */
class Arguments {
  readonly buffer: Buffer
  #end = HEAD_BYTES
  count = 0

  constructor(buffer: Buffer) {
    this.buffer = buffer
  }

  /** One of `before` and the bytes from `start` to `end`. */
  add(before: Buffer, source: Buffer, start: number, end: number): void {
    const target = this.buffer
    target[this.#end++] = DOLLAR
    this.#number(before.length + end - start)
    target[this.#end++] = CR
    target[this.#end++] = LF
    this.#end += before.copy(target, this.#end)
    this.#end += source.copy(target, this.#end, start, end)
    target[this.#end++] = CR
    target[this.#end++] = LF
    this.count += 1
  }

  addText(text: string): void {
    const bytes = Buffer.from(text)
    this.add(bytes, bytes, 0, 0)
  }

  /** With this in front of them. */
  after(head: string): Buffer {
    const start = HEAD_BYTES - head.length
    this.buffer.write(head, start, 'latin1')
    return this.buffer.subarray(start, this.#end)
  }

  #number(value: number): void {
    let digits = 1
    for (let limit = 10; value >= limit; limit *= 10) digits += 1
    let rest = value
    for (let at = this.#end + digits - 1; at >= this.#end; at -= 1) {
      this.buffer[at] = ZERO + (rest % 10)
      rest = Math.floor(rest / 10)
    }
    this.#end += digits
  }
}

function commandOf(name: string, first: readonly string[], rest: Arguments): Command {
  const words = [name, ...first].map((word) => `$${word.length}\r\n${word}\r\n`).join('')
  return new ReadyCommand(name, rest.after(`*${1 + first.length + rest.count}\r\n${words}`))
}

/** A command that is written already. */
class ReadyCommand extends Command {
  readonly #bytes: Buffer

  constructor(name: string, bytes: Buffer) {
    super(name)
    this.#bytes = bytes
  }

  override toWritable(): Buffer {
    return this.#bytes
  }
}
