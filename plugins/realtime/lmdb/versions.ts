/**
 * What lies under a key: the value of the epoch that is served and, while another is being written, that one's too.
 * A marker for each dataset says which write counts, so a million keys change hands in one small step.
 *
 * Bytes: for each version, newest first, the write's number (6), the layout (2), the length (4; all ones for a deletion)
 * and the value as UTF-8.
 */

export interface Version {
  /** Which write made it; numbers of a dataset only grow. */
  readonly write: number
  /** Which columns the value holds, as an index into the marker's layouts. */
  readonly layout: number
  /** Null where the write deleted the key. */
  readonly value: string | null
}

/** Which writes count. */
export interface Visibility {
  /** The newest committed write; whatever is newer is not there yet. */
  readonly committed: number
  /** Older writes were replaced as a whole. */
  readonly floor: number
  /** Writes that were begun and never committed, and whose values may still lie about. */
  readonly aborted: readonly number[]
}

const HEADER_BYTES = 12
const DELETED = 0xffffffff

function isVisible(write: number, { committed, floor, aborted }: Visibility): boolean {
  return write <= committed && write >= floor && (aborted.length === 0 || !aborted.includes(write))
}

/** The version that counts; undefined where none does. A deletion is a version with a null value. */
export function visibleVersion(record: Buffer, visibility: Visibility): Version | undefined {
  let offset = 0
  while (offset < record.length) {
    const write = record.readUIntBE(offset, 6)
    const length = record.readUInt32BE(offset + 8)
    const start = offset + HEADER_BYTES
    const end = length === DELETED ? start : start + length
    if (isVisible(write, visibility)) {
      const value = length === DELETED ? null : record.toString('utf8', start, end)
      return { write, layout: record.readUInt16BE(offset + 6), value }
    }
    offset = end
  }
  return undefined
}

/** The record with a new version in front of the one that counts now. What counts no more is left out. */
export function withVersion(record: Buffer | undefined, next: Version, visibility: Visibility): Buffer {
  const current = record ? visibleVersion(record, visibility) : undefined
  return encode(current === undefined || current.value === null ? [next] : [next, current])
}

/** The record with nothing but what counts; null where that is nothing. */
export function compacted(record: Buffer, visibility: Visibility): Buffer | null {
  const current = visibleVersion(record, visibility)
  return current === undefined || current.value === null ? null : encode([current])
}

function encode(versions: readonly Version[]): Buffer {
  const lengths = versions.map(({ value }) => (value === null ? 0 : Buffer.byteLength(value)))
  const record = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + HEADER_BYTES + length, 0))
  let offset = 0
  for (const [index, { write, layout, value }] of versions.entries()) {
    const length = lengths[index] as number
    record.writeUIntBE(write, offset, 6)
    record.writeUInt16BE(layout, offset + 6)
    record.writeUInt32BE(value === null ? DELETED : length, offset + 8)
    if (value !== null) record.write(value, offset + HEADER_BYTES, 'utf8')
    offset += HEADER_BYTES + length
  }
  return record
}
