import { SluiceError } from '@sluice/sdk'
import type { EngineTable } from '../engine/job.ts'
import type { DataFile } from './data-file.ts'
import { MAX_ENTRIES, type Manifests } from './manifests.ts'
import { type Snapshot, schemaById } from './metadata.ts'
import type { TableRef } from './table-ref.ts'
import { fromIceberg, type LakeSchema } from './table-schema.ts'
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
  /** Files of position deletes. Sluice writes none. */
  readonly deletes: readonly ScanFile[]
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
  readonly file: DataFile
}

export async function scanTable(
  manifests: Manifests,
  state: TableState,
  choice: SnapshotChoice,
  signal?: AbortSignal,
): Promise<Scan> {
  const snapshot = chooseSnapshot(state.metadata, choice)
  const all = snapshot === null ? [] : await liveFiles(manifests, state, snapshot, signal)
  const files = all.filter(({ file }) => file.content === 'data')
  return {
    ref: state.ref,
    snapshotId: snapshot === null ? null : String(snapshot['snapshot-id']),
    committedAtMs: snapshot?.['timestamp-ms'] ?? null,
    summary: snapshot?.summary ?? {},
    schema: schemaOf(state, snapshot),
    files,
    deletes: all.filter(({ file }) => file.content === 'deletes'),
    rows: files.reduce((sum, file) => sum + file.rows, 0),
    bytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  }
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

async function liveFiles(
  manifests: Manifests,
  state: TableState,
  snapshot: Snapshot,
  signal?: AbortSignal,
): Promise<readonly ScanFile[]> {
  const found: ScanFile[] = []
  for (const manifest of await manifests.readList(state.files, snapshot['manifest-list'], signal)) {
    const entries = await manifests.readEntries(state.files, manifest, signal)
    for (const entry of entries) if (entry.status !== 'deleted') found.push(toScanFile(state, entry.file))
    if (found.length > MAX_ENTRIES) throw tooManyFiles()
  }
  return found
}

function toScanFile(state: TableState, file: DataFile): ScanFile {
  const path = state.files.pathOf(file.uri)
  const { store } = state.files
  return {
    uri: file.uri,
    path,
    localFile: store.localPath?.(path) ?? null,
    rows: file.rows,
    sizeBytes: file.sizeBytes,
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
  if (scan.deletes.length > 0) throw deletesUnsupported()
  return {
    name,
    files: scan.files.map((file) => {
      if (file.localFile === null) throw new Error('the object store has no local files')
      return file.localFile
    }),
    columns: columns.fields.map((field) => ({ name: field.name, type: field.type, fieldId: field.id })),
  }
}

function deletesUnsupported(): SluiceError {
  return new SluiceError('UNSUPPORTED', 'the lake table has position deletes, written by another engine', {
    code: 'lake_deletes_unsupported',
    remedy: 'Let the engine that wrote them rewrite the data files without deletes, or materialize the product anew.',
  })
}

function tooManyFiles(): SluiceError {
  return new SluiceError('QUOTA', `the lake table has more than ${MAX_ENTRIES} files`, {
    code: 'lake_too_many_files',
    remedy: 'Partition the table more coarsely, and replace it once.',
  })
}
