/**
 * The files that a commit of somebody else names. Its author wrote them, so nothing in them is believed: every path must
 * lie below the table's own folder, manifests must be readable, and the files that are new must be there, as long as the
 * manifest says.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { DataFile } from '../format/data-file.ts'
import type { ManifestFile } from '../format/manifest-entries.ts'
import { currentSnapshot, type Snapshot, type TableMetadata } from '../format/metadata.ts'
import type { TableUpdate } from '../format/table-updates.ts'
import type { Manifests } from '../manifests.ts'
import { mapAtOnce } from '../store/at-once.ts'
import type { TableFiles } from '../table-files.ts'

const MAX_NEW_MANIFESTS = 2_000
const STATS_AT_ONCE = 16

/**
 * Bytes that the commit's files add to the object store. Throws INVALID_DATA `catalog_path_foreign` and
 * `catalog_files_unreadable`.
 */
export async function checkForeignFiles(
  manifests: Manifests,
  files: TableFiles,
  before: TableMetadata | null,
  updates: readonly TableUpdate[],
  signal: AbortSignal,
): Promise<number> {
  let bytes = 0
  for (const update of updates) {
    if (update.action === 'add-snapshot')
      bytes += await checkSnapshot(manifests, files, before, update.snapshot, signal)
    if (update.action === 'set-statistics') ownPath(files, update.statistics['statistics-path'])
    if (update.action === 'set-partition-statistics') ownPath(files, update['partition-statistics']['statistics-path'])
  }
  return bytes
}

async function checkSnapshot(
  manifests: Manifests,
  files: TableFiles,
  before: TableMetadata | null,
  snapshot: Snapshot,
  signal: AbortSignal,
): Promise<number> {
  const list = await listOf(manifests, files, snapshot, signal)
  const fresh = new Set(list.map((manifest) => manifest.manifest_path))
  for (const known of await knownManifests(manifests, files, before, signal)) fresh.delete(known)
  if (fresh.size > MAX_NEW_MANIFESTS) throw unreadable(`it brings more than ${MAX_NEW_MANIFESTS} manifests`)
  let bytes = (await sizeOf(files, snapshot['manifest-list'])) ?? 0
  const added: NamedFile[] = []
  let entries = 0
  for (const manifest of list) {
    ownPath(files, manifest.manifest_path)
    if (!fresh.has(manifest.manifest_path)) continue
    bytes += Number(manifest.manifest_length)
    for (const { status, file } of await readable(() => manifests.readEntriesAnew(files, manifest, signal))) {
      ownPath(files, file.uri)
      if (++entries > manifests.maxEntries) throw unreadable(`it names more than ${manifests.maxEntries} files`)
      // Their statistics are not kept: of many manifests they would be more than what one may hold.
      if (status === 'added') added.push({ uri: file.uri, sizeBytes: file.sizeBytes })
    }
  }
  await checkPresent(files, added, signal)
  return added.reduce((sum, file) => sum + file.sizeBytes, bytes)
}

function listOf(
  manifests: Manifests,
  files: TableFiles,
  snapshot: Snapshot,
  signal: AbortSignal,
): Promise<readonly ManifestFile[]> {
  ownPath(files, snapshot['manifest-list'])
  return readable(() => manifests.readList(files, snapshot['manifest-list'], signal))
}

/** Manifests of the table as it is were read when they came. */
async function knownManifests(
  manifests: Manifests,
  files: TableFiles,
  before: TableMetadata | null,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const current = before === null ? null : currentSnapshot(before)
  if (current === null) return []
  const list = await manifests.readList(files, current['manifest-list'], signal)
  return list.map((manifest) => manifest.manifest_path)
}

type NamedFile = Pick<DataFile, 'uri' | 'sizeBytes'>

async function checkPresent(files: TableFiles, added: readonly NamedFile[], signal: AbortSignal): Promise<void> {
  await mapAtOnce(added, STATS_AT_ONCE, async ({ uri, sizeBytes }) => {
    signal.throwIfAborted()
    if ((await sizeOf(files, uri)) === sizeBytes) return
    throw unreadable('a data file is missing, or not as long as its manifest says')
  })
}

async function sizeOf(files: TableFiles, uri: string): Promise<number | null> {
  return (await files.store.stat(files.pathOf(uri)))?.sizeBytes ?? null
}

function ownPath(files: TableFiles, uri: string): void {
  try {
    files.pathOf(uri)
  } catch (cause) {
    throw foreign(cause)
  }
}

/** What cannot be read of files that the caller wrote is the caller's fault, not ours. */
async function readable<Result>(read: () => Promise<Result>): Promise<Result> {
  try {
    return await read()
  } catch (cause) {
    if (!isSluiceError(cause, 'INTERNAL') && !isSluiceError(cause, 'UNSUPPORTED')) throw cause
    if (cause.code === 'lake_path_foreign') throw foreign(cause)
    throw unreadable('a manifest is missing, or holds what is not supported', cause)
  }
}

function foreign(cause: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', 'the commit names a file outside of the table’s own folder', {
    code: 'catalog_path_foreign',
    remedy: 'Write data and metadata below the location of the table.',
    cause,
  })
}

function unreadable(reason: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', `the files of the commit cannot be taken: ${reason}`, {
    code: 'catalog_files_unreadable',
    remedy: 'Write the manifests before the commit, with parquet files and position deletes only.',
    ...(cause === undefined ? {} : { cause }),
  })
}
