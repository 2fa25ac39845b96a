/** 32-bit Murmur3, x86 variant, seed 0: the hash behind Iceberg's `bucket[N]`. A signed 32-bit integer. */
export function murmur3(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const blocks = bytes.length >> 2
  let hash = 0
  for (let at = 0; at < blocks; at++) {
    hash ^= scramble(view.getUint32(at * 4, true))
    hash = (Math.imul(rotate(hash, 13), 5) + 0xe6546b64) | 0
  }
  let rest = 0
  for (let at = bytes.length - 1; at >= blocks * 4; at--) rest = (rest << 8) | (bytes[at] as number)
  hash ^= bytes.length % 4 === 0 ? 0 : scramble(rest)
  hash ^= bytes.length
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

const rotate = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits))

const scramble = (block: number): number => Math.imul(rotate(Math.imul(block, 0xcc9e2d51), 15), 0x1b873593)

/** The bucket that Iceberg puts the hashed bytes into. */
export const bucketOf = (bytes: Uint8Array, buckets: number): number => (murmur3(bytes) & 0x7fffffff) % buckets
