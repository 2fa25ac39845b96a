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

function refused(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the tag cannot be set: ${reason}`, {
    code: 'lake_tag_invalid',
    remedy: 'Choose another name.',
  })
}
