/** The bytes of one row group: all at once where they are few, else a piece of each column ahead of where it is read. */
import type { Chunk, ReadRange } from './footer.ts'

const ALL_AHEAD_BYTES = 16 * 1024 * 1024
const MIN_AHEAD_BYTES = 16 * 1024
const MAX_AHEAD_BYTES = 1024 * 1024

/** Of one chunk: so many bytes from a place of the file on. */
export interface ChunkBytes {
  read(from: number, length: number): Promise<Buffer>
}

export async function bytesOfChunks(chunks: readonly Chunk[], read: ReadRange): Promise<readonly ChunkBytes[]> {
  const from = Math.min(...chunks.map((chunk) => chunk.from))
  const end = Math.max(...chunks.map((chunk) => chunk.end))
  if (chunks.length > 0 && end - from <= ALL_AHEAD_BYTES) {
    const whole = end > from ? await read(from, end - from) : Buffer.alloc(0)
    return chunks.map(() => ({ read: async (at, length) => whole.subarray(at - from, at - from + length) }))
  }
  const share = Math.floor(ALL_AHEAD_BYTES / Math.max(1, chunks.length))
  const ahead = Math.min(MAX_AHEAD_BYTES, Math.max(MIN_AHEAD_BYTES, share))
  return chunks.map(({ end: limit }) => readingAhead(limit, ahead, read))
}

function readingAhead(limit: number, ahead: number, read: ReadRange): ChunkBytes {
  let piece: Buffer = Buffer.alloc(0)
  let begins = 0
  return {
    async read(from, length) {
      if (from < begins || from + length > begins + piece.length) {
        piece = await read(from, Math.max(length, Math.min(ahead, limit - from)))
        begins = from
      }
      return piece.subarray(from - begins, from - begins + length)
    },
  }
}
