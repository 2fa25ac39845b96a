/** CRC-32C (Castagnoli), by which batches of records are summed; the platform has the other one alone. */
const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let crc = index
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1) === 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  return crc
})

export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff
  for (let at = 0; at < bytes.length; at += 1)
    crc = (TABLE[(crc ^ (bytes[at] as number)) & 255] as number) ^ (crc >>> 8)
  return (crc ^ 0xffff_ffff) >>> 0
}
