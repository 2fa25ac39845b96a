import { SluiceError } from '@sluice/sdk'
import { parseInt64 } from './format/int64.ts'
import { MAIN } from './format/metadata.ts'
import type { TableUpdate } from './format/table-updates.ts'
import { chooseSnapshot, type SnapshotId, type TableState } from './table-state.ts'

export function tagUpdates(
  state: TableState,
  tags: Readonly<Record<string, SnapshotId | null>>,
): readonly TableUpdate[] {
  return Object.entries(tags).map(([name, snapshotId]): TableUpdate => {
    if (name === MAIN) throw refused('the name "main" is the table itself')
    if (snapshotId === null) return { action: 'remove-snapshot-ref', 'ref-name': name }
    chooseSnapshot(state.metadata, { snapshotId })
    return { action: 'set-snapshot-ref', 'ref-name': name, 'snapshot-id': parseInt64(snapshotId), type: 'tag' }
  })
}

export function expiryUpdates(state: TableState, snapshotIds: readonly SnapshotId[]): readonly TableUpdate[] {
  const ids = snapshotIds.map((snapshotId) => {
    chooseSnapshot(state.metadata, { snapshotId })
    return parseInt64(snapshotId)
  })
  return ids.length === 0 ? [] : [{ action: 'remove-snapshots', 'snapshot-ids': ids }]
}

/** When the history before the current snapshot was removed. Milliseconds since 1970. */
const FORGOTTEN_AT = 'sluice.history-forgotten-at-ms'

/** Only what the table is now stays: no other snapshot, and no name for one. */
export function forgettingUpdates({ metadata, snapshotId }: TableState, nowMs: number): readonly TableUpdate[] {
  const isCurrent = (id: unknown) => String(id) === snapshotId
  const names = Object.entries(metadata.refs).filter(([name, ref]) => name !== MAIN && !isCurrent(ref['snapshot-id']))
  const gone = metadata.snapshots.map((snapshot) => snapshot['snapshot-id']).filter((id) => !isCurrent(id))
  return [
    ...names.map(([name]): TableUpdate => ({ action: 'remove-snapshot-ref', 'ref-name': name })),
    ...(gone.length === 0 ? [] : [{ action: 'remove-snapshots', 'snapshot-ids': gone } as const]),
    // A commit even where there is nothing to remove: whoever writes by what the table was is to find it moved.
    { action: 'set-properties', updates: { [FORGOTTEN_AT]: String(nowMs) } },
  ]
}

function refused(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the tag cannot be set: ${reason}`, {
    code: 'lake_tag_invalid',
    remedy: 'Choose another name.',
  })
}
