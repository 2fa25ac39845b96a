import { writeSync } from 'node:fs'
import type { FromChild } from '../protocol.ts'

const WAIT_MS = 1
const nothing = new Int32Array(new SharedArrayBuffer(4))

/**
 * Sends a message to the parent and waits until it has left. Node's own `process.send` would have the event loop wait
 * for a full channel, by a system call that is not let through the walls. The channel's form is Node's for
 * `serialization: 'json'`: one JSON text a line.
 */
export function tellOver(channel: number): (message: FromChild) => void {
  return (message) => {
    const bytes = Buffer.from(`${JSON.stringify(message)}\n`)
    for (let sent = 0; sent < bytes.length; ) sent += writeSome(channel, bytes.subarray(sent))
  }
}

function writeSome(channel: number, bytes: Uint8Array): number {
  try {
    return writeSync(channel, bytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    Atomics.wait(nothing, 0, 0, WAIT_MS)
    return 0
  }
}
