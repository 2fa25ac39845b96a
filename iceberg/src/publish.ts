import type { Catalog } from './catalog.ts'
import type { StagedCommit } from './commit.ts'
import { parseInt64 } from './format/int64.ts'
import { snapshotById } from './format/metadata.ts'
import { commitConflict } from './format/table-updates.ts'
import type { TableReader } from './table-state.ts'

/**
 * Moves the pointers of all staged tables, one after the other: where the catalog is a transaction, all become visible
 * with its COMMIT, or none. Repeatable: a commit that is in the table already is passed over. Throws CONFLICT `lake_commit_conflict` where a
 * table has moved on; the caller then rolls back.
 */
export async function publishAll(
  catalog: Catalog,
  reader: TableReader,
  staged: readonly StagedCommit[],
): Promise<void> {
  // One order for all, so that two publications of the same tables wait for each other instead of deadlocking.
  const ordered = staged.toSorted((a, b) => compare(keyOf(a), keyOf(b)))
  for (const commit of ordered) await publishOne(catalog, reader, commit)
}

const keyOf = ({ ref }: StagedCommit): string => `${ref.warehouse}\0${ref.namespace}\0${ref.table}`

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

async function publishOne(catalog: Catalog, reader: TableReader, commit: StagedCommit): Promise<void> {
  if (await catalog.movePointer(commit.ref, commit.from, commit.to)) {
    await catalog.addBytes?.(commit.ref, commit.addedBytes)
  } else if (!(await isPublished(catalog, reader, commit))) {
    throw commitConflict('table-moved-on')
  }
  if (commit.writeId !== null) await catalog.endWrite(commit.ref, commit.writeId)
}

/** True where the pointer is the commit's own, or a later one whose history holds the commit. */
async function isPublished(catalog: Catalog, reader: TableReader, commit: StagedCommit): Promise<boolean> {
  const location = await catalog.pointer(commit.ref)
  if (location === commit.to) return true
  if (location === null) return false
  const metadata = await reader.metadataAt(reader.filesAt(commit.ref, location), location)
  if (metadata['metadata-log'].some((entry) => entry['metadata-file'] === commit.to)) return true
  return commit.snapshotId !== null && snapshotById(metadata, parseInt64(commit.snapshotId)) !== null
}
