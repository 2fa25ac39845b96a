/** What batches of records are packed by. Nothing is unpacked to more than a batch may have. */
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { ByteReader } from '../../files/byte-reader.ts'
import { unpackLz4UpTo, unpackSnappy } from '../../files/unpack.ts'
import { BrokenAnswer } from './bytes.ts'

export const MAX_BATCH_BYTES = 64 * 1024 * 1024

const [GZIP, SNAPPY, LZ4, ZSTD] = [1, 2, 3, 4]

/** Throws BrokenAnswer. */
export function unpacked(codec: number, packed: Buffer): Buffer {
  const options = { maxOutputLength: MAX_BATCH_BYTES }
  try {
    switch (codec) {
      case 0:
        return packed
      case GZIP:
        return gunzipSync(packed, options)
      case SNAPPY:
        return framedSnappy(packed)
      case LZ4:
        return framedLz4(packed)
      case ZSTD:
        return zstdDecompressSync(packed, options)
    }
  } catch (error) {
    if (error instanceof BrokenAnswer) throw error
    throw new BrokenAnswer(`a batch of records is damaged, or unpacks to more than ${MAX_BATCH_BYTES / 1024 ** 2} MiB`)
  }
  throw new BrokenAnswer(`a batch of records is packed by codec ${codec}, which is not known`)
}

/** Java's client writes pieces behind a head of its own, others one piece without. */
const SNAPPY_HEAD = Buffer.from('\x82SNAPPY\0', 'latin1')

function framedSnappy(packed: Buffer): Buffer {
  if (!packed.subarray(0, SNAPPY_HEAD.length).equals(SNAPPY_HEAD)) return unpackSnappy(packed, MAX_BATCH_BYTES)
  const from = new ByteReader(packed, 16)
  const all = new Joined()
  while (from.left > 0) all.add(unpackSnappy(from.take(from.take(4).readUInt32BE()), all.room))
  return all.done()
}

const LZ4_MAGIC = 0x184d2204
const LZ4_BLOCK_BYTES: readonly number[] = [0, 0, 0, 0, 64 << 10, 256 << 10, 1 << 20, 4 << 20]

/** Frames of blocks that stand alone, as clients of Kafka write them. */
function framedLz4(packed: Buffer): Buffer {
  const from = new ByteReader(packed)
  if (from.take(4).readUInt32LE() !== LZ4_MAGIC) throw new BrokenAnswer('a batch of records is no LZ4 frame')
  const flags = from.byte()
  const blockBytes = LZ4_BLOCK_BYTES[(from.byte() >> 4) & 7] ?? 0
  if ((flags & 0x20) === 0)
    throw new BrokenAnswer('a batch of records is packed by LZ4 with blocks that need each other, which is not read')
  from.take(((flags & 8) === 0 ? 0 : 8) + ((flags & 1) === 0 ? 0 : 4) + 1)
  const all = new Joined()
  for (;;) {
    const length = from.take(4).readUInt32LE()
    if (length === 0) return all.done()
    const block = from.take(length & 0x7fffffff)
    all.add(length >= 0x80000000 ? block : unpackLz4UpTo(block, Math.min(blockBytes, all.room)))
    if ((flags & 0x10) !== 0) from.take(4)
  }
}

/** Pieces one behind the other, and nothing of each besides: there may be millions of them. */
class Joined {
  #bytes = Buffer.alloc(0)
  #length = 0

  get room(): number {
    return MAX_BATCH_BYTES - this.#length
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > MAX_BATCH_BYTES) throw new BrokenAnswer('a batch of records unpacks to more than it may')
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(MAX_BATCH_BYTES, Math.max(2 * this.#bytes.length, length)))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    piece.copy(this.#bytes, this.#length)
    this.#length = length
  }

  done(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}
