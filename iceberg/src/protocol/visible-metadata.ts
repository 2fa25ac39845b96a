import type { Int64 } from '../format/int64.ts'
import { currentSnapshot, type Snapshot, type TableMetadata } from '../format/metadata.ts'

export interface VisibleMetadata {
  readonly metadata: TableMetadata
  /** Snapshots that were left out. */
  readonly hidden: number
}

/**
 * The metadata with only those snapshots that the reader may see, and nothing that leads to the others: older metadata
 * files list every snapshot, so none of them is named.
 * @param mayRead by snapshot id, for the snapshots that policy knows; others (rewrites of files) go with their parent
 */
export function visibleMetadata(metadata: TableMetadata, mayRead: ReadonlyMap<string, boolean>): VisibleMetadata {
  const seen = visibleIds(metadata.snapshots, mayRead)
  const kept = metadata.snapshots.filter((snapshot) => seen.has(snapshot['snapshot-id']))
  const hidden = metadata.snapshots.length - kept.length
  const current = currentSnapshot(metadata)
  const ofSeen = (list: unknown) =>
    ((list ?? []) as readonly { readonly 'snapshot-id': Int64 }[]).filter((entry) => seen.has(entry['snapshot-id']))
  return {
    hidden,
    metadata: {
      ...metadata,
      'current-snapshot-id': current !== null && seen.has(current['snapshot-id']) ? current['snapshot-id'] : -1,
      snapshots: kept,
      'snapshot-log': metadata['snapshot-log'].filter((entry) => seen.has(entry['snapshot-id'])),
      'metadata-log': [],
      refs: Object.fromEntries(Object.entries(metadata.refs).filter(([, ref]) => seen.has(ref['snapshot-id']))),
      ...(metadata['statistics'] === undefined ? {} : { statistics: ofSeen(metadata['statistics']) }),
      ...(metadata['partition-statistics'] === undefined
        ? {}
        : { 'partition-statistics': ofSeen(metadata['partition-statistics']) }),
    },
  }
}

/** Only snapshots that a branch or tag names: what a client asks for that loads the others when it needs them. */
export function referencedOnly(metadata: TableMetadata): TableMetadata {
  const named = new Set(Object.values(metadata.refs).map((ref) => ref['snapshot-id']))
  return { ...metadata, snapshots: metadata.snapshots.filter((snapshot) => named.has(snapshot['snapshot-id'])) }
}

/** A snapshot that nothing is known of, nor of any of its parents, is seen by nobody. */
function visibleIds(snapshots: readonly Snapshot[], mayRead: ReadonlyMap<string, boolean>): ReadonlySet<Int64> {
  const byId = new Map(snapshots.map((snapshot) => [snapshot['snapshot-id'], snapshot]))
  const decided = new Map<Int64, boolean>()
  for (const snapshot of snapshots) {
    const path: Int64[] = []
    let at: Snapshot | undefined = snapshot
    let verdict: boolean | undefined
    while (at !== undefined && verdict === undefined && path.length <= snapshots.length) {
      const id: Int64 = at['snapshot-id']
      path.push(id)
      verdict = decided.get(id) ?? mayRead.get(String(id))
      const parent: Int64 | undefined = at['parent-snapshot-id']
      at = parent === undefined ? undefined : byId.get(parent)
    }
    for (const id of path) decided.set(id, verdict ?? false)
  }
  return new Set(snapshots.map((snapshot) => snapshot['snapshot-id']).filter((id) => decided.get(id) === true))
}
