/** Unpacks pages, to exactly as many bytes as were announced and never more. */
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import { cutOff } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { unpackLz4, unpackSnappy } from '../unpack.ts'

const CODECS = ['uncompressed', 'SNAPPY', 'GZIP', 'LZO', 'BROTLI', 'LZ4', 'ZSTD', 'LZ4_RAW'] as const

export function unpackedPage(codec: number, packed: Buffer, bytes: number): Buffer {
  if (bytes === 0) return Buffer.alloc(0)
  const page = unpacked(codec, packed, bytes)
  if (page.length !== bytes) throw cutOff('a page of it')
  return page
}

function unpacked(codec: number, packed: Buffer, bytes: number): Buffer {
  try {
    switch (CODECS[codec]) {
      case 'uncompressed':
        return packed
      case 'SNAPPY':
        return unpackSnappy(packed, bytes)
      case 'GZIP':
        return gunzipSync(packed, { maxOutputLength: bytes })
      case 'BROTLI':
        return brotliDecompressSync(packed, { maxOutputLength: bytes })
      case 'ZSTD':
        return zstdDecompressSync(packed, { maxOutputLength: bytes })
      case 'LZ4_RAW':
        return unpackLz4(packed, bytes)
    }
  } catch {
    // What a library says of bytes is no help to whoever wrote the file.
    throw cutOff('a page of it')
  }
  throw new BrokenFile(
    `it is packed by ${CODECS[codec] ?? `codec ${codec}`}, which is not read`,
    'Write it with SNAPPY, ZSTD, GZIP, BROTLI or LZ4_RAW, or unpacked.',
  )
}
