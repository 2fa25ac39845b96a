import { createHash } from 'node:crypto'

/** In which partition of its generation a key lies. */
export function partOf(key: string, parts: number): number {
  return createHash('sha256').update(key).digest().readUInt32BE(0) % parts
}
