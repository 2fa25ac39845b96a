import { LRUCache } from 'lru-cache'
import { readAvro, writeAvro } from './format/avro-file.ts'
import type { DataFile } from './format/data-file.ts'
import type { Int64 } from './format/int64.ts'
import type { EntryStatus, ManifestEntry, ManifestFile, PartitionSummary } from './format/manifest-entries.ts'
import { dataFileRecord, entriesFromRecords } from './format/manifest-records.ts'
import { MANIFEST_LIST_SCHEMA, manifestEntrySchema } from './format/manifest-schema.ts'
import { type PartitionSpec, partitionType } from './format/partitioning.ts'
import { encodeStored, type StoredValue } from './format/stored-value.ts'
import { type LakeSchema, toIceberg } from './format/table-schema.ts'
import type { TableFiles } from './table-files.ts'

/** An entry to write. Added ones inherit snapshot and sequence number from the manifest list. */
export type NewEntry = Omit<ManifestEntry, 'sequenceNumber' | 'fileSequenceNumber'> & {
  readonly sequenceNumber: Int64 | null
  readonly fileSequenceNumber: Int64 | null
}

export const MAX_MANIFESTS = 10_000
export const MAX_ENTRIES = 200_000
const MAX_CACHED_ENTRIES = 50_000

/** Reads and writes the manifests of tables. Manifests never change, so what was read is kept, within a bound. */
export class Manifests {
  /** Of one manifest, and of all that one commit of somebody else brings. */
  readonly maxEntries: number
  readonly #cache = new LRUCache<string, readonly ManifestEntry[]>({
    maxSize: MAX_CACHED_ENTRIES,
    sizeCalculation: (entries) => entries.length + 1,
  })

  constructor({ maxEntries = MAX_ENTRIES }: { readonly maxEntries?: number } = {}) {
    this.maxEntries = maxEntries
  }

  async readList(files: TableFiles, uri: string, signal?: AbortSignal): Promise<readonly ManifestFile[]> {
    const bytes = await files.read(uri, signal)
    const { records } = await files.parseSlowly(uri, () => readAvro(bytes, { records: MAX_MANIFESTS }))
    return records as readonly ManifestFile[]
  }

  /** All entries, deleted ones too. Throws INTERNAL `lake_file_corrupted`, naming the file in the cause only. */
  async readEntries(
    files: TableFiles,
    manifest: ManifestFile,
    signal?: AbortSignal,
  ): Promise<readonly ManifestEntry[]> {
    // The key holds what entries inherit, because a manifest list could name one file twice.
    const key = `${manifest.manifest_path}\0${manifest.sequence_number}\0${manifest.added_snapshot_id}`
    const cached = this.#cache.get(key)
    if (cached !== undefined) return cached
    const entries = await this.readEntriesAnew(files, manifest, signal)
    this.#cache.set(key, entries)
    return entries
  }

  /** The same, from the file itself. */
  async readEntriesAnew(
    files: TableFiles,
    manifest: ManifestFile,
    signal?: AbortSignal,
  ): Promise<readonly ManifestEntry[]> {
    const bytes = await files.read(manifest.manifest_path, signal, Number(manifest.manifest_length))
    return files.parseSlowly(manifest.manifest_path, async () =>
      entriesFromRecords(await readAvro(bytes, { records: this.maxEntries }), manifest),
    )
  }

  async writeManifest(
    files: TableFiles,
    uri: string,
    content: { readonly spec: PartitionSpec; readonly schema: LakeSchema; readonly kind: DataFile['content'] },
    commit: { readonly snapshotId: Int64; readonly sequenceNumber: Int64 },
    entries: readonly NewEntry[],
  ): Promise<ManifestFile> {
    const schema = manifestEntrySchema(content.spec, content.schema)
    const records = entries.map((entry) => ({
      status: STATUS_CODES[entry.status],
      snapshot_id: entry.snapshotId,
      sequence_number: entry.sequenceNumber,
      file_sequence_number: entry.fileSequenceNumber,
      data_file: dataFileRecord(entry.file, content.spec, content.schema),
    }))
    const body = writeAvro(schema, manifestHeader(content), records)
    await files.write(uri, body)
    return describeManifest(uri, body.length, content, commit, entries)
  }

  async writeList(
    files: TableFiles,
    uri: string,
    snapshot: { readonly id: Int64; readonly parentId: Int64 | null; readonly sequenceNumber: Int64 },
    manifests: readonly ManifestFile[],
  ): Promise<number> {
    const header = {
      'snapshot-id': String(snapshot.id),
      'parent-snapshot-id': String(snapshot.parentId),
      'sequence-number': String(snapshot.sequenceNumber),
      'format-version': '2',
    }
    const body = writeAvro(MANIFEST_LIST_SCHEMA, header, manifests)
    await files.write(uri, body)
    return body.length
  }
}

const STATUS_CODES = { existing: 0, added: 1, deleted: 2 } as const satisfies Record<EntryStatus, number>

function manifestHeader(content: {
  readonly spec: PartitionSpec
  readonly schema: LakeSchema
  readonly kind: DataFile['content']
}): Readonly<Record<string, string>> {
  return {
    schema: JSON.stringify(toIceberg(content.schema)),
    'schema-id': String(content.schema.schemaId),
    'partition-spec': JSON.stringify(content.spec.fields),
    'partition-spec-id': String(content.spec['spec-id']),
    'format-version': '2',
    content: content.kind,
  }
}

function describeManifest(
  uri: string,
  sizeBytes: number,
  content: { readonly spec: PartitionSpec; readonly schema: LakeSchema; readonly kind: DataFile['content'] },
  commit: { readonly snapshotId: Int64; readonly sequenceNumber: Int64 },
  entries: readonly NewEntry[],
): ManifestFile {
  const count = (status: EntryStatus) => entries.filter((entry) => entry.status === status).length
  const rows = (status: EntryStatus) =>
    entries.reduce((sum, entry) => sum + (entry.status === status ? entry.file.rows : 0), 0)
  const live = entries.filter((entry) => entry.status !== 'deleted')
  return {
    manifest_path: uri,
    manifest_length: sizeBytes,
    partition_spec_id: content.spec['spec-id'],
    content: content.kind === 'data' ? 0 : 1,
    sequence_number: commit.sequenceNumber,
    min_sequence_number: live.reduce<Int64>(
      (least, { sequenceNumber }) => (sequenceNumber !== null && sequenceNumber < least ? sequenceNumber : least),
      commit.sequenceNumber,
    ),
    added_snapshot_id: commit.snapshotId,
    added_files_count: count('added'),
    existing_files_count: count('existing'),
    deleted_files_count: count('deleted'),
    added_rows_count: rows('added'),
    existing_rows_count: rows('existing'),
    deleted_rows_count: rows('deleted'),
    partitions: content.spec.fields.map((_, at) => summarise(content, at, entries)),
    key_metadata: null,
  }
}

function summarise(
  content: { readonly spec: PartitionSpec; readonly schema: LakeSchema },
  at: number,
  entries: readonly NewEntry[],
): PartitionSummary {
  const field = content.spec.fields[at]
  const type = field === undefined ? null : partitionType(field, content.schema)
  const values = entries.map((entry) => entry.file.partition[at] ?? null)
  const present = values.filter((value) => value !== null)
  // Readers take a field without bounds for one that is null everywhere, so every other one gets them.
  const ordered = type !== null
  const bound = (pick: (a: StoredValue, b: StoredValue) => StoredValue): Uint8Array | null => {
    const [first, ...others] = present
    return ordered && first !== undefined ? encodeStored(type, others.reduce<StoredValue>(pick, first)) : null
  }
  return {
    contains_null: values.includes(null),
    contains_nan: false,
    lower_bound: bound((a, b) => (isBelow(b, a) ? b : a)),
    upper_bound: bound((a, b) => (isBelow(a, b) ? b : a)),
  }
}

function isBelow(a: StoredValue, b: StoredValue): boolean {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0
  return a < b
}
