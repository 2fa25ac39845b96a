/** Where one statement's output ends in the pipe of a child that goes on to the next. */
import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'

const MARK_BYTES = 32

/** What a child writes behind each output. No statement can know it, so no row can hold it but by a chance of 2^-256. */
export function newMark(): string {
  return randomBytes(MARK_BYTES).toString('base64')
}

/**
 * The bytes in front of the mark, as they come. The mark is the last thing that the child writes until it is asked again.
 * Ends also where the pipe does. Whoever leaves early leaves the pipe open.
 */
export async function* untilMark(pipe: Readable, mark: Uint8Array): AsyncGenerator<Uint8Array> {
  let held: Uint8Array = new Uint8Array(0)
  for await (const chunk of pipe.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    const all = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    const end = Math.max(0, all.length - mark.length)
    if (end > 0) yield all.subarray(0, end)
    held = all.subarray(end)
    if (Buffer.compare(held, mark) === 0) return
  }
  if (held.length > 0) yield held
}
