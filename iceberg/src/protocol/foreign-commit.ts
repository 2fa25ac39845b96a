/** A change that an outside engine asks for, made ready for publication: everything of it but its visibility. */
import { randomUUID } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import type { StagedCommit } from '../commit.ts'
import { stringifyJsonExactly } from '../format/int64.ts'
import { currentSnapshot, PROPERTIES, type TableMetadata } from '../format/metadata.ts'
import { applyUpdates, checkRequirements, emptyMetadata, type TableUpdate } from '../format/table-updates.ts'
import type { Manifests } from '../manifests.ts'
import type { TableFiles } from '../table-files.ts'
import type { TableState } from '../table-state.ts'
import { checkMetadata } from './check-metadata.ts'
import { invalid, type TableChange } from './commit-request.ts'
import { checkForeignFiles } from './foreign-files.ts'

export interface ForeignCommit {
  readonly staged: StagedCommit
  readonly metadata: TableMetadata
}

const MAX_METADATA_BYTES = 16 * 1024 * 1024
const NO_SORT_ORDER = { 'order-id': 0, fields: [] } as const

export const NEW_TABLE_PROPERTIES = {
  [PROPERTIES.previousVersionsMax]: '100',
  [PROPERTIES.deleteAfterCommit]: 'false',
  'write.parquet.compression-codec': 'zstd',
} as const

/**
 * Writes the new metadata; nothing is visible until it is published. Throws CONFLICT `lake_commit_conflict` where a
 * requirement does not hold, and INVALID_DATA for what may not be.
 * @param base null to make the table
 */
export async function stageForeign(
  manifests: Manifests,
  files: TableFiles,
  base: TableState | null,
  change: TableChange,
  nowMs: number,
  signal: AbortSignal,
): Promise<ForeignCommit> {
  checkRequirements(base?.metadata ?? null, change.requirements)
  checkActions(files, base, change.updates)
  const addedBytes = await checkForeignFiles(manifests, files, base?.metadata ?? null, change.updates, signal)
  const metadata = changedMetadata(files, base, change, nowMs)
  const version = base === null ? 0 : Number(/\/(\d{1,9})-[^/]*$/.exec(base.location)?.[1] ?? 0) + 1
  const location = files.metadataUri(`${String(version).padStart(5, '0')}-${randomUUID()}.metadata.json`)
  const body = Buffer.from(stringifyJsonExactly(metadata), 'utf8')
  if (body.length > MAX_METADATA_BYTES) throw tooLarge()
  await files.write(location, body)
  return { metadata, staged: describe(files, base, metadata, location, addedBytes + body.length) }
}

/** The metadata that the change leads to. */
export function changedMetadata(
  files: TableFiles,
  base: TableState | null,
  { updates }: Pick<TableChange, 'updates'>,
  nowMs: number,
): TableMetadata {
  const before = base?.metadata ?? emptyMetadata(randomUUID(), files.location)
  // A location was compared with the table's own, and may only be written differently.
  const changes = updates.filter(({ action }) => action !== 'set-location')
  const applied = applyUpdates(before, changes, nowMs, base?.location ?? null)
  const orders = applied['sort-orders']
  const metadata = {
    ...applied,
    'sort-orders': orders.some(({ 'order-id': id }) => id === applied['default-sort-order-id'])
      ? orders
      : [...orders, { ...NO_SORT_ORDER, 'order-id': applied['default-sort-order-id'] }],
  }
  checkMetadata(base?.metadata ?? null, metadata)
  return metadata
}

/** What is a table's own and not its writers': its id, its place, its format. */
function checkActions(files: TableFiles, base: TableState | null, updates: readonly TableUpdate[]): void {
  for (const update of updates) {
    if (update.action === 'assign-uuid' && base !== null && update.uuid !== base.metadata['table-uuid']) {
      throw invalid('a table keeps its uuid')
    }
    if (update.action === 'set-location' && update.location.replace(/\/$/, '') !== files.location) {
      throw locationRefused()
    }
  }
}

export function locationRefused(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the catalog chooses where a table lies, and it does not move', {
    code: 'catalog_location_refused',
    remedy: 'Leave out the location: the catalog chooses a folder for every table.',
  })
}

function tooLarge(): SluiceError {
  return new SluiceError('INVALID_DATA', `the table’s metadata would be larger than ${MAX_METADATA_BYTES} bytes`, {
    code: 'catalog_metadata_too_large',
    remedy: 'Expire old snapshots of the table, or make fewer columns.',
  })
}

function describe(
  files: TableFiles,
  base: TableState | null,
  metadata: TableMetadata,
  location: string,
  addedBytes: number,
): StagedCommit {
  const snapshot = currentSnapshot(metadata)
  const isNew = snapshot !== null && String(snapshot['snapshot-id']) !== base?.snapshotId
  const count = (name: string) => Number(snapshot?.summary[name] ?? 0) || 0
  return {
    ref: files.ref,
    from: base?.location ?? null,
    to: location,
    snapshotId: isNew ? String(snapshot['snapshot-id']) : null,
    committedAtMs: metadata['last-updated-ms'],
    addedRows: isNew ? count('added-records') : 0,
    removedRows: isNew ? count('deleted-records') : 0,
    totalRows: count('total-records'),
    addedBytes,
    writeId: null,
  }
}
