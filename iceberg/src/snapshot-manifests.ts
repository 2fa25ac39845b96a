import { randomUUID } from 'node:crypto'
import type { DataFile } from './format/data-file.ts'
import type { Int64 } from './format/int64.ts'
import type { ManifestEntry, ManifestFile } from './format/manifest-entries.ts'
import { type Snapshot, specById, type TableMetadata } from './format/metadata.ts'
import { fromIceberg, type LakeSchema } from './format/table-schema.ts'
import { commitConflict } from './format/table-updates.ts'
import type { Manifests, NewEntry } from './manifests.ts'
import { isUnreadable, type TableFiles } from './table-files.ts'

/** What one new snapshot does with files. */
export interface FileChange {
  readonly added: readonly DataFile[]
  /** Addresses of files of the parent that are gone; `all` for every one. */
  readonly removed: readonly string[] | 'all'
  /** Manifests that are likely to list them, which are read first. */
  readonly removedFrom: readonly string[]
  /** Files that are gone are not listed as such: neither these nor those of commits before. */
  readonly leavesNoTrace: boolean
}

export interface NewSnapshot {
  readonly id: Int64
  readonly sequenceNumber: Int64
  /** Of the table, with the new schema and spec in it. */
  readonly metadata: TableMetadata
  readonly schema: LakeSchema
  readonly parent: Snapshot | null
}

export interface SnapshotManifests {
  readonly manifests: readonly ManifestFile[]
  readonly removed: readonly DataFile[]
  readonly writtenBytes: number
}

/** More manifests than this are merged, so that a table of many small commits stays quick to read. */
const MERGE_ABOVE = 100
const MERGED_ENTRIES = 20_000

/** Writes the manifests of a snapshot. Nothing of it is visible until a manifest list names them. */
export async function writeManifests(
  manifests: Manifests,
  files: TableFiles,
  snapshot: NewSnapshot,
  change: FileChange,
  signal: AbortSignal | undefined,
): Promise<SnapshotManifests> {
  const writer = new ManifestWriter(manifests, files, snapshot)
  await writer.write(change.added.map((file) => writer.added(file)))
  const before = snapshot.parent?.['manifest-list']
  const parent =
    before === undefined ? [] : ((await ifReadable(change, () => manifests.readList(files, before, signal))) ?? [])
  const live = parent.filter((manifest) => manifest.added_files_count + manifest.existing_files_count > 0)
  const removal = await removeFiles(manifests, files, writer, live, change, signal)
  const kept = await mergeMany(manifests, files, writer, removal.kept, signal)
  return { manifests: [...writer.written, ...kept], removed: removal.removed, writtenBytes: writer.writtenBytes }
}

/** Entries grouped into manifests: one for each partition spec and kind of content. */
class ManifestWriter {
  readonly written: ManifestFile[] = []
  writtenBytes = 0
  readonly #manifests: Manifests
  readonly #files: TableFiles
  readonly #snapshot: NewSnapshot

  constructor(manifests: Manifests, files: TableFiles, snapshot: NewSnapshot) {
    this.#manifests = manifests
    this.#files = files
    this.#snapshot = snapshot
  }

  async write(entries: readonly NewEntry[]): Promise<void> {
    const groups = Map.groupBy(entries, (entry) => `${entry.file.specId} ${entry.file.content}`)
    for (const group of groups.values()) await this.#writeOne(group)
  }

  added(file: DataFile): NewEntry {
    return { status: 'added', snapshotId: this.#snapshot.id, sequenceNumber: null, fileSequenceNumber: null, file }
  }

  deleted(entry: ManifestEntry): NewEntry {
    return { ...entry, status: 'deleted', snapshotId: this.#snapshot.id }
  }

  async #writeOne(entries: readonly NewEntry[]): Promise<void> {
    const first = entries[0]
    if (first === undefined) return
    const spec = specById(this.#snapshot.metadata, first.file.specId)
    if (spec === null) throw new Error(`the table has no partition spec ${first.file.specId}`)
    const manifest = await this.#manifests.writeManifest(
      this.#files,
      this.#files.metadataUri(`${randomUUID()}-m.avro`),
      { spec, schema: this.#schemaFor(spec.fields.map((field) => field['source-id'])), kind: first.file.content },
      { snapshotId: this.#snapshot.id, sequenceNumber: this.#snapshot.sequenceNumber },
      entries,
    )
    this.written.push(manifest)
    this.writtenBytes += manifest.manifest_length
  }

  /** A manifest must know the columns its files are partitioned by, also when the newest schema has dropped them. */
  #schemaFor(sources: readonly number[]): LakeSchema {
    const missing = sources.filter((id) => !this.#snapshot.schema.fields.some((field) => field.id === id))
    if (missing.length === 0) return this.#snapshot.schema
    const older = this.#snapshot.metadata.schemas.flatMap((schema) => fromIceberg(schema).fields).reverse()
    const found = missing.flatMap((id) => older.find((field) => field.id === id) ?? [])
    return { ...this.#snapshot.schema, fields: [...this.#snapshot.schema.fields, ...found] }
  }
}

/** Null where that cannot be read any more. Where nothing stays of the snapshot before, it need not be told of as removed either. */
async function ifReadable<Item>(
  { removed }: FileChange,
  read: () => Promise<readonly Item[]>,
): Promise<readonly Item[] | null> {
  try {
    return await read()
  } catch (error) {
    if (removed === 'all' && isUnreadable(error)) return null
    throw error
  }
}

interface Removal {
  readonly kept: readonly ManifestFile[]
  readonly removed: readonly DataFile[]
}

async function removeFiles(
  manifests: Manifests,
  files: TableFiles,
  writer: ManifestWriter,
  live: readonly ManifestFile[],
  change: FileChange,
  signal: AbortSignal | undefined,
): Promise<Removal> {
  const { removed: targets, removedFrom, leavesNoTrace } = change
  if (targets !== 'all' && targets.length === 0 && !leavesNoTrace) return { kept: live, removed: [] }
  const isToStay = (manifest: ManifestFile) => !leavesNoTrace || manifest.deleted_files_count === 0
  const missing = new Set(targets === 'all' ? [] : targets)
  const isTarget = (file: DataFile) => targets === 'all' || missing.delete(file.uri)
  const kept: ManifestFile[] = []
  const rewritten: NewEntry[] = []
  const removed: DataFile[] = []
  const likely = new Set(removedFrom)
  const isLikely = ({ manifest_path: path }: ManifestFile) => likely.has(path)
  for (const manifest of [...live.filter(isLikely), ...live.filter((each) => !isLikely(each))]) {
    if (targets !== 'all' && missing.size === 0 && isToStay(manifest)) {
      kept.push(manifest)
      continue
    }
    const listed = await ifReadable(change, () => manifests.readEntries(files, manifest, signal))
    if (listed === null) continue
    const entries = listed.filter((entry) => entry.status !== 'deleted')
    const gone = new Set(entries.filter((entry) => isTarget(entry.file)))
    if (gone.size === 0 && isToStay(manifest)) {
      kept.push(manifest)
      continue
    }
    removed.push(...Array.from(gone, (entry) => entry.file))
    const told = leavesNoTrace ? entries.filter((entry) => !gone.has(entry)) : entries
    rewritten.push(...told.map((entry) => (gone.has(entry) ? writer.deleted(entry) : existing(entry))))
  }
  if (missing.size > 0) throw commitConflict('files-to-remove-missing')
  await writer.write(rewritten)
  return { kept, removed }
}

async function mergeMany(
  manifests: Manifests,
  files: TableFiles,
  writer: ManifestWriter,
  kept: readonly ManifestFile[],
  signal: AbortSignal | undefined,
): Promise<readonly ManifestFile[]> {
  if (kept.length <= MERGE_ABOVE) return kept
  const small = kept.filter(
    (manifest) => manifest.added_files_count + manifest.existing_files_count < MERGED_ENTRIES / 4,
  )
  let entries: ManifestEntry[] = []
  for (const manifest of small) {
    entries = entries.concat(await manifests.readEntries(files, manifest, signal))
    if (entries.length < MERGED_ENTRIES) continue
    await writer.write(entries.filter((entry) => entry.status !== 'deleted').map(existing))
    entries = []
  }
  await writer.write(entries.filter((entry) => entry.status !== 'deleted').map(existing))
  return kept.filter((manifest) => !small.includes(manifest))
}

const existing = (entry: ManifestEntry): NewEntry => ({ ...entry, status: 'existing' })
