/**
 * What lies under a key: the value of the epoch that is served and, while another is being written, that one's too. A
 * marker for each dataset says which write counts, so a million keys change hands in one small step.
 *
 * Several rows may share a key, so a version names its row. Bytes of a version: the write's number (6), the layout (2),
 * the lengths of identity (2) and value (4; all ones for a deletion), identity and value as UTF-8. Newest first.
 * `scripts.ts` and `filling.ts` write them, and this reads them.
 */
import type { Layout } from '../keyed-values/cells.ts'

export interface Version {
  /** Which write made it; numbers of a dataset only grow. */
  readonly write: number
  /** Which columns the value holds, as an index into the marker's layouts. */
  readonly layout: number
  readonly identity: Buffer
  /** Null where the write deleted the row. */
  readonly value: string | null
}

/** Which writes count. */
export interface Visibility {
  /** The newest committed write; whatever is newer is not there yet. */
  readonly committed: number
  /** Older writes were replaced as a whole. */
  readonly floor: number
  /** Writes that were begun and never committed. */
  readonly aborted: readonly number[]
  readonly layouts?: readonly Layout[]
}

const HEADER_BYTES = 14
const DELETED = 0xffffffff

/** What stands before a value whose key names its row; the last four bytes, its length, are the caller's to fill. */
export function headOf(write: number, layout: number): Buffer {
  const head = Buffer.alloc(HEADER_BYTES)
  head.writeUIntBE(write, 0, 6)
  head.writeUInt16BE(layout, 6)
  return head
}

function isVisible(write: number, { committed, floor, aborted }: Visibility): boolean {
  return write <= committed && write >= floor && (aborted.length === 0 || !aborted.includes(write))
}

export function* versionsOf(record: Buffer): Generator<Version> {
  let offset = 0
  while (offset < record.length) {
    const identityBytes = record.readUInt16BE(offset + 8)
    const length = record.readUInt32BE(offset + 10)
    const start = offset + HEADER_BYTES + identityBytes
    const end = length === DELETED ? start : start + length
    yield {
      write: record.readUIntBE(offset, 6),
      layout: record.readUInt16BE(offset + 6),
      identity: record.subarray(offset + HEADER_BYTES, start),
      value: length === DELETED ? null : record.toString('utf8', start, end),
    }
    offset = end
  }
}

/** The rows that count, one version each. */
export function visibleRows(record: Buffer, visibility: Visibility): readonly Version[] {
  const rows: Version[] = []
  const decided: Buffer[] = []
  for (const version of versionsOf(record)) {
    if (!isVisible(version.write, visibility) || decided.some((other) => other.equals(version.identity))) continue
    decided.push(version.identity)
    if (version.value !== null) rows.push(version)
  }
  return rows
}

/** Of the rows that share the key the last by primary key; undefined where none counts. */
export function visibleVersion(record: Buffer, visibility: Visibility): Version | undefined {
  const [first, ...others] = visibleRows(record, visibility)
  if (first === undefined) return undefined
  return others.reduce((last, row) => (Buffer.compare(row.identity, last.identity) > 0 ? row : last), first)
}

/** Whether a write after the newest committed one has been here, which may have removed what a slower reader looks for. */
export function hasNewer(record: Buffer, { committed }: Visibility): boolean {
  for (const { write } of versionsOf(record)) if (write > committed) return true
  return false
}
