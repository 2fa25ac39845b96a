import type { EngineTable } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { DataFile } from './format/data-file.ts'
import type { ManifestEntry } from './format/manifest-entries.ts'
import { type Snapshot, schemaById } from './format/metadata.ts'
import { fromIceberg, type LakeSchema } from './format/table-schema.ts'
import { MAX_ENTRIES, type Manifests } from './manifests.ts'
import { mapAtOnce } from './store/at-once.ts'
import { inSnapshot } from './table-files.ts'
import type { TableRef } from './table-ref.ts'
import { chooseSnapshot, type SnapshotChoice, type SnapshotId, type TableState } from './table-state.ts'

/** What one snapshot holds: the files to read and the columns to read them by. */
export interface Scan {
  readonly ref: TableRef
  /** Null for a table without a snapshot; it has no files then. */
  readonly snapshotId: SnapshotId | null
  readonly committedAtMs: number | null
  readonly summary: Readonly<Record<string, string>>
  /** The schema of that snapshot, with field ids. */
  readonly schema: LakeSchema
  readonly files: readonly ScanFile[]
  /** Files of position deletes: the rows of `files` that are gone. */
  readonly deletes: readonly ScanFile[]
  /** Less those that are gone; too few where other engines have listed a row twice, or rows of a file that went. */
  readonly rows: number
  readonly bytes: number
}

export interface ScanFile {
  readonly uri: string
  /** The path in the object store. */
  readonly path: string
  /** The file on this machine's disk; null where the object store is elsewhere. */
  readonly localFile: string | null
  readonly rows: number
  readonly sizeBytes: number
  /** The manifest that lists it. */
  readonly manifest: string
  /** The snapshot that brought it, which may have expired. */
  readonly addedIn: SnapshotId
  readonly file: DataFile
}

/** @param skipped manifests whose files are left out, unread */
export async function scanTable(
  manifests: Manifests,
  state: TableState,
  choice: SnapshotChoice,
  signal?: AbortSignal,
  skipped: ReadonlySet<string> = new Set(),
): Promise<Scan> {
  const snapshot = chooseSnapshot(state.metadata, choice)
  const all = snapshot === null ? [] : await filesOf(manifests, state, snapshot, skipped, signal)
  const files = all.filter(({ file }) => file.content === 'data')
  const deletes = all.filter(({ file }) => file.content === 'deletes')
  const rowsOf = (some: readonly ScanFile[]) => some.reduce((sum, file) => sum + file.rows, 0)
  return {
    ref: state.ref,
    snapshotId: snapshot === null ? null : String(snapshot['snapshot-id']),
    committedAtMs: snapshot?.['timestamp-ms'] ?? null,
    summary: snapshot?.summary ?? {},
    schema: schemaOf(state, snapshot),
    files,
    deletes,
    rows: Math.max(0, rowsOf(files) - rowsOf(deletes)),
    bytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  }
}

/** Manifests that two snapshots both list; none where either has delete files, which concern files of any manifest. */
export async function sharedManifests(
  manifests: Manifests,
  state: TableState,
  one: SnapshotId,
  other: SnapshotId,
  signal?: AbortSignal,
): Promise<ReadonlySet<string>> {
  const lists = await Promise.all(
    [one, other].map(async (snapshotId) => {
      const snapshot = chooseSnapshot(state.metadata, { snapshotId })
      return snapshot === null ? [] : manifests.readList(state.files, snapshot['manifest-list'], signal)
    }),
  )
  if (lists.flat().some((manifest) => manifest.content !== 0)) return new Set()
  const [first = [], second = []] = lists.map((list) => list.map((manifest) => manifest.manifest_path))
  const known = new Set(first)
  return new Set(second.filter((path) => known.has(path)))
}

function schemaOf(state: TableState, snapshot: Snapshot | null): LakeSchema {
  const id = snapshot?.['schema-id']
  if (id === undefined || id === state.schema.schemaId) return state.schema
  return state.files.parse(state.location, () => {
    const schema = schemaById(state.metadata, id)
    if (schema === null) throw new Error(`the schema ${id} of a snapshot is missing`)
    return fromIceberg(schema)
  })
}

async function filesOf(
  manifests: Manifests,
  state: TableState,
  snapshot: Snapshot,
  skipped: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<readonly ScanFile[]> {
  try {
    return await liveFiles(manifests, state, snapshot, skipped, signal)
  } catch (error) {
    throw inSnapshot(error, String(snapshot['snapshot-id']))
  }
}

/** Of an object store each costs the way there and back. */
const MANIFESTS_AT_ONCE = 8

async function liveFiles(
  manifests: Manifests,
  state: TableState,
  snapshot: Snapshot,
  skipped: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<readonly ScanFile[]> {
  const list = await manifests.readList(state.files, snapshot['manifest-list'], signal)
  const wanted = list.filter((manifest) => !skipped.has(manifest.manifest_path))
  let found = 0
  const lists = await mapAtOnce(wanted, MANIFESTS_AT_ONCE, async (manifest) => {
    const entries = await manifests.readEntries(state.files, manifest, signal)
    const live = entries.filter((entry) => entry.status !== 'deleted')
    found += live.length
    if (found > MAX_ENTRIES) throw tooManyFiles()
    return live.map((entry) => toScanFile(state, entry, manifest.manifest_path))
  })
  return lists.flat()
}

function toScanFile(state: TableState, { file, snapshotId }: ManifestEntry, manifest: string): ScanFile {
  const path = state.files.pathOf(file.uri)
  const { store } = state.files
  return {
    uri: file.uri,
    path,
    localFile: store.localPath?.(path) ?? null,
    rows: file.rows,
    sizeBytes: file.sizeBytes,
    manifest,
    addedIn: String(snapshotId),
    file,
  }
}

/**
 * The relation over a scan for an engine job.
 * @param name see `EngineTable.name`
 * @param columns the columns of the relation; default: the scan's own. By field id, so that another snapshot's
 *   columns may be asked for: what the files have not is null.
 */
export function engineTable(scan: Scan, name: readonly string[], columns: LakeSchema = scan.schema): EngineTable {
  const files = scan.files.map(localFileOf)
  SCANS.set(files, scan)
  return {
    name,
    files,
    columns: columns.fields.map((field) => ({ name: field.name, type: field.type, fieldId: field.id })),
    ...(scan.deletes.length === 0
      ? {}
      : { deletes: scan.deletes.map(localFileOf), deletedFrom: scan.files.map((file) => file.uri) }),
  }
}

/** Beside the lists, because a job passes through hands that know files only. */
const SCANS = new WeakMap<readonly string[], Scan>()

/** The scan that a list of files comes from which `engineTable` has made. */
export const scanOf = (files: readonly string[]): Scan | undefined => SCANS.get(files)

function localFileOf(file: ScanFile): string {
  if (file.localFile === null) throw new Error('the object store has no local files')
  return file.localFile
}

function tooManyFiles(): SluiceError {
  return new SluiceError('QUOTA', `the lake table has more than ${MAX_ENTRIES} files`, {
    code: 'lake_too_many_files',
    remedy: 'Partition the table more coarsely, and replace it once.',
  })
}
