import { isSluiceError, SluiceError } from '@sluice/sdk'
import { unreadableFiles } from './data-check.ts'
import type { DataFile } from './format/data-file.ts'
import { type Snapshot, schemaById } from './format/metadata.ts'
import type { Manifests } from './manifests.ts'
import { scanTable } from './scan.ts'
import { BrokenFile, type TableFiles } from './table-files.ts'
import type { TableReader, TableState } from './table-state.ts'
import type { JobRunner } from './write.ts'

/** One thing that keeps a table, or a snapshot of it, from being read. */
export interface LakeProblem {
  readonly kind: 'catalog' | 'metadata' | 'manifest_list' | 'manifest' | 'data_file'
  /** Below the table's own folder; null where the address itself is wrong. */
  readonly file: string | null
  /** The oldest snapshot that needs the file; null where all do. */
  readonly snapshotId: string | null
  readonly code: string
  readonly message: string
}

/** More would tell nothing new. */
const MAX_PROBLEMS = 200

export interface CheckContext {
  readonly reader: TableReader
  readonly manifests: Manifests
  readonly engine: JobRunner
}

/**
 * Reads the pointer, the metadata and every manifest of every snapshot, compares the length of every data file, and
 * decodes those of the current snapshot.
 * Never throws for what it finds; throws TRANSIENT where the store or the catalog cannot be asked.
 */
export async function checkTable(
  context: CheckContext,
  files: TableFiles,
  signal: AbortSignal,
): Promise<readonly LakeProblem[]> {
  const problems = new Problems(files)
  const state = await problems.caught({ kind: 'metadata', uri: null, snapshotId: null }, () =>
    context.reader.loadAnew(files.ref, signal),
  )
  if (state === null) {
    // Either its reading failed, which has been noted, or the catalog has no row that names it.
    if (problems.found.length === 0) await checkLost(files, problems, signal)
    return problems.found
  }
  const seen = new Set<string>()
  for (const snapshot of state.metadata.snapshots) {
    signal.throwIfAborted()
    await checkSnapshot(context, state, snapshot, seen, problems, signal)
    if (problems.found.length >= MAX_PROBLEMS) break
  }
  await checkContent(context, state, problems, signal)
  return problems.found
}

/** Files of a table that no row of the catalog leads to. */
async function checkLost(files: TableFiles, problems: Problems, signal: AbortSignal): Promise<void> {
  for await (const { path } of files.store.list(`${files.root}/metadata`, signal)) {
    if (!path.endsWith('.metadata.json')) continue
    const place = { kind: 'catalog', uri: files.store.uri(path), snapshotId: null } as const
    problems.add(place, 'lake_pointer_missing', 'the catalog names no table here: it was dropped, or its row is lost')
    return
  }
}

async function checkSnapshot(
  context: CheckContext,
  state: TableState,
  snapshot: Snapshot,
  seen: Set<string>,
  problems: Problems,
  signal: AbortSignal,
): Promise<void> {
  const snapshotId = String(snapshot['snapshot-id'])
  const { files } = state
  const schemaId = snapshot['schema-id']
  if (schemaId !== undefined && schemaById(state.metadata, schemaId) === null) {
    problems.add({ kind: 'metadata', uri: state.location, snapshotId }, 'lake_schema_missing', 'its schema is missing')
  }
  const uri = snapshot['manifest-list']
  const manifests = await problems.caught({ kind: 'manifest_list', uri, snapshotId }, () =>
    context.manifests.readList(files, uri, signal),
  )
  for (const manifest of manifests ?? []) {
    if (seen.has(manifest.manifest_path)) continue
    seen.add(manifest.manifest_path)
    const place = { kind: 'manifest', uri: manifest.manifest_path, snapshotId } as const
    const entries = await problems.caught(place, () => context.manifests.readEntriesAnew(files, manifest, signal))
    for (const { status, file } of entries ?? []) {
      if (status === 'deleted' || seen.has(file.uri)) continue
      seen.add(file.uri)
      signal.throwIfAborted()
      await problems.caught({ kind: 'data_file', uri: file.uri, snapshotId }, () => checkLength(files, file))
    }
  }
}

async function checkLength(files: TableFiles, file: DataFile): Promise<void> {
  const found = await files.store.stat(files.pathOf(file.uri))
  if (found === null) throw broken('object_missing', 'the file is missing')
  if (found.sizeBytes === file.sizeBytes) return
  throw broken('object_truncated', `the file has ${found.sizeBytes} bytes, the manifest says ${file.sizeBytes}`)
}

/** A file whose length is right may hold other bytes: every value of the current snapshot is decoded once. */
async function checkContent(
  context: CheckContext,
  state: TableState,
  problems: Problems,
  signal: AbortSignal,
): Promise<void> {
  if (problems.found.length > 0) return
  const snapshotId = state.snapshotId
  const place = { kind: 'metadata', uri: state.location, snapshotId } as const
  const scan = await problems.caught(place, () => scanTable(context.manifests, state, {}, signal))
  if (scan === null) return
  for (const uri of await unreadableFiles(context.engine, scan, signal)) {
    problems.add({ kind: 'data_file', uri, snapshotId }, 'lake_file_corrupted', 'the file cannot be decoded')
  }
}

const broken = (code: string, message: string): SluiceError => new SluiceError('INTERNAL', message, { code })

type Place = Pick<LakeProblem, 'kind' | 'snapshotId'> & { readonly uri: string | null }

class Problems {
  readonly found: LakeProblem[] = []
  readonly #files: TableFiles

  constructor(files: TableFiles) {
    this.#files = files
  }

  /** What `work` gives; null where it found something, which is kept. */
  async caught<Result>(place: Place, work: () => Promise<Result>): Promise<Result | null> {
    try {
      return await work()
    } catch (error) {
      if (!isSluiceError(error) || error.kind !== 'INTERNAL') throw error
      this.add(
        { ...place, uri: place.uri ?? (error.cause instanceof BrokenFile ? error.cause.uri : null) },
        error.code,
        error.message,
      )
      return null
    }
  }

  add(place: Place, code: string, message: string): void {
    if (this.found.length >= MAX_PROBLEMS) return
    const { uri, ...rest } = place
    this.found.push({ ...rest, file: uri === null ? null : this.#fileOf(uri), code, message })
  }

  /** An address that leaves the table is not repeated: it may be another tenant's, or of this machine. */
  #fileOf(uri: string): string | null {
    const path = this.#files.store.pathOf(uri)
    return path?.startsWith(`${this.#files.root}/`) === true ? path.slice(this.#files.root.length + 1) : null
  }
}
