/** Bytes that are written one behind the other into a piece that grows; whoever writes asks for room before. */

const SMALLEST_BYTES = 1_024

export class Growing {
  bytes: Buffer

  constructor(bytes: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(bytes, SMALLEST_BYTES))
  }

  /** Keeps the first `used` bytes. */
  makeRoom(used: number, more: number): void {
    if (used + more <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(used + more, 2 * this.bytes.length))
    this.bytes.copy(larger, 0, 0, used)
    this.bytes = larger
  }
}

export function putInt32(to: Buffer, at: number, value: number): void {
  to[at] = value >>> 24
  to[at + 1] = value >>> 16
  to[at + 2] = value >>> 8
  to[at + 3] = value
}

/** Of fewer bytes than this, a call to copy costs more than the copy. */
const COPY_BYTES = 64

/** Returns where it ends. */
export function putBytes(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start >= COPY_BYTES) return at + from.copy(to, at, start, end)
  for (let byte = start; byte < end; byte += 1, at += 1) to[at] = from[byte] as number
  return at
}
