import { randomBytes, randomUUID } from 'node:crypto'
import type { DataFile } from './format/data-file.ts'
import { type Int64, parseInt64, stringifyJsonExactly } from './format/int64.ts'
import type { ManifestFile } from './format/manifest-entries.ts'
import {
  currentSnapshot,
  MAIN,
  PROPERTIES,
  type Snapshot,
  type SnapshotRef,
  schemaById,
  type TableMetadata,
} from './format/metadata.ts'
import type { PlannedSpec } from './format/partitioning.ts'
import type { PlannedSchema } from './format/schema-change.ts'
import { type PlannedSortOrder, UNSORTED } from './format/sort-order.ts'
import { fromIceberg, toIceberg } from './format/table-schema.ts'
import {
  applyUpdates,
  checkRequirements,
  emptyMetadata,
  type TableRequirement,
  type TableUpdate,
} from './format/table-updates.ts'
import { expiryUpdates } from './maintenance-updates.ts'
import type { Manifests } from './manifests.ts'
import { type FileChange, writeManifests } from './snapshot-manifests.ts'
import type { TableFiles } from './table-files.ts'
import type { TableRef } from './table-ref.ts'
import { chooseSnapshot, isToBegin, type SnapshotId, type TableState } from './table-state.ts'

/** Everything of a commit but its visibility: plain data, which may be kept as JSON and published by another process. */
export interface StagedCommit {
  readonly ref: TableRef
  /** The metadata file that must still be current; null where there must be no table. */
  readonly from: string | null
  /** The metadata file to be current. */
  readonly to: string
  /** The new snapshot; null where the commit makes none. */
  readonly snapshotId: SnapshotId | null
  readonly committedAtMs: number
  readonly addedRows: number
  readonly removedRows: number
  readonly totalRows: number
  /** What the commit adds to the object store, metadata included. */
  readonly addedBytes: number
  /** The lease that ends with the publication; null where no files were written. */
  readonly writeId: string | null
}

export interface TablePlan {
  readonly schema: PlannedSchema
  readonly spec: PlannedSpec
  readonly order: PlannedSortOrder
}

export interface CommitRequest {
  /** The state that the change was computed from; null to make the table. */
  readonly base: TableState | null
  /** Schema and layout that the files were written with, or of `planRestore`; may be left out where there are no files. */
  readonly plan?: TablePlan
  /**
   * - `append`: adds the files.
   * - `replace`: the files are all the table has.
   * - `overwrite`: adds the files and removes those of `removed`.
   * - `rewrite`: the same for files that hold the same rows in another layout; readers of changes may pass over it.
   * - `restore`: the content of an older snapshot becomes the newest one, with its schema.
   */
  readonly operation: 'append' | 'replace' | 'overwrite' | 'rewrite' | 'restore'
  readonly files: readonly DataFile[]
  /** Addresses (`ScanFile.uri`), for `overwrite` and `rewrite`. */
  readonly removed?: readonly string[]
  /** The manifests that list them (`ScanFile.manifest`); no others are read while they are found there. */
  readonly removedFrom?: readonly string[]
  /**
   * The snapshot's manifests say nothing of files that are gone, by this commit or by one before: bounds of columns are values
   * of rows.
   */
  readonly leavesNoTrace?: boolean
  /** For `restore`. */
  readonly snapshotId?: SnapshotId
  /** Kept in the snapshot: epoch, run, version … To be kept short: table metadata holds all snapshots at once. */
  readonly summary: Readonly<Record<string, string>>
  readonly properties?: Readonly<Record<string, string>>
  /** Tags to set on the new snapshot. */
  readonly tags?: readonly string[]
  /** Older snapshots that leave the history by the same commit. None of them may be tagged, or be the one before. */
  readonly expired?: readonly SnapshotId[]
  readonly writeId?: string
}

interface Context {
  readonly manifests: Manifests
  readonly files: TableFiles
  readonly nowMs: number
  readonly signal: AbortSignal | undefined
}

const DEFAULT_PROPERTIES = {
  [PROPERTIES.previousVersionsMax]: '100',
  [PROPERTIES.deleteAfterCommit]: 'false',
  'write.parquet.compression-codec': 'zstd',
}

/** Writes manifests and metadata of a new snapshot. Nothing is visible until `publish`. */
export async function stageCommit(context: Context, request: CommitRequest): Promise<StagedCommit> {
  const shape = shapeUpdates(context.files, request)
  const before = request.base?.metadata ?? emptyMetadata(randomUUID(), context.files.location)
  const shaped = applyUpdates(before, shape, context.nowMs, null)
  const made = await makeSnapshot(context, request, shaped)
  const updates: readonly TableUpdate[] = [
    ...shape,
    ...(made.schemaId === shaped['current-schema-id']
      ? []
      : [{ action: 'set-current-schema', 'schema-id': made.schemaId } as const]),
    { action: 'add-snapshot', snapshot: made.snapshot },
    setRef(MAIN, { 'snapshot-id': made.snapshot['snapshot-id'], type: 'branch' }),
    ...(request.tags ?? []).map((tag) => setRef(tag, { 'snapshot-id': made.snapshot['snapshot-id'], type: 'tag' })),
    ...(request.base === null ? [] : expiryUpdates(request.base, request.expired ?? [])),
  ]
  const written = await stageUpdates(context, request.base, before, requirementsOf(request.base), updates)
  return {
    ref: context.files.ref,
    from: request.base?.location ?? null,
    to: written.location,
    snapshotId: String(made.snapshot['snapshot-id']),
    committedAtMs: made.snapshot['timestamp-ms'],
    addedRows: Number(made.snapshot.summary['added-records'] ?? 0),
    removedRows: removedRows(made.snapshot.summary),
    totalRows: made.totalRows,
    addedBytes: made.writtenBytes + written.sizeBytes + request.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    writeId: request.writeId ?? null,
  }
}

/** A commit without a new snapshot: tags, properties, expiry. */
export async function stageChanges(
  context: Context,
  base: TableState,
  updates: readonly TableUpdate[],
): Promise<StagedCommit> {
  const written = await stageUpdates(context, base, base.metadata, requirementsOf(base), updates)
  return {
    ref: context.files.ref,
    from: base.location,
    to: written.location,
    snapshotId: null,
    committedAtMs: written.metadata['last-updated-ms'],
    addedRows: 0,
    removedRows: 0,
    totalRows: totalOf(currentSnapshot(base.metadata), 'total-records') ?? 0,
    addedBytes: written.sizeBytes,
    writeId: null,
  }
}

/** The one way to new metadata: check the requirements, apply the updates, write the file. */
async function stageUpdates(
  context: Context,
  base: TableState | null,
  before: TableMetadata,
  requirements: readonly TableRequirement[],
  updates: readonly TableUpdate[],
): Promise<{ location: string; sizeBytes: number; metadata: TableMetadata }> {
  checkRequirements(base === null ? null : before, requirements)
  const metadata = applyUpdates(before, updates, context.nowMs, isToBegin(base) ? null : (base?.location ?? null))
  const version = base === null ? 0 : versionOf(base.location) + 1
  const location = context.files.metadataUri(`${String(version).padStart(5, '0')}-${randomUUID()}.metadata.json`)
  const body = Buffer.from(stringifyJsonExactly(metadata), 'utf8')
  await context.files.write(location, body)
  return { location, sizeBytes: body.length, metadata }
}

function versionOf(location: string): number {
  return Number(/\/(\d{1,9})-[^/]*$/.exec(location)?.[1] ?? 0)
}

function requirementsOf(base: TableState | null): readonly TableRequirement[] {
  if (base === null) return [{ type: 'assert-create' }]
  return [
    { type: 'assert-table-uuid', uuid: base.metadata['table-uuid'] },
    {
      type: 'assert-ref-snapshot-id',
      ref: MAIN,
      'snapshot-id': base.snapshotId === null ? null : parseInt64(base.snapshotId),
    },
  ]
}

function setRef(name: string, ref: SnapshotRef): TableUpdate {
  return { action: 'set-snapshot-ref', 'ref-name': name, ...ref }
}

function shapeUpdates(files: TableFiles, request: CommitRequest): readonly TableUpdate[] {
  const { plan, properties = {} } = request
  const base = isToBegin(request.base) ? null : request.base
  if (base === null && plan === undefined) throw new Error(`${files.root}: a new table needs a plan`)
  const updates: TableUpdate[] = []
  if (plan?.schema.isNew) {
    const schema = toIceberg(plan.schema.schema)
    updates.push({ action: 'add-schema', schema, 'last-column-id': plan.schema.lastColumnId })
  }
  if (plan !== undefined) updates.push({ action: 'set-current-schema', 'schema-id': plan.schema.schema.schemaId })
  if (plan?.spec.isNew) updates.push({ action: 'add-spec', spec: plan.spec.spec })
  if (plan !== undefined) updates.push({ action: 'set-default-spec', 'spec-id': plan.spec.spec['spec-id'] })
  if (base === null) updates.push({ action: 'add-sort-order', 'sort-order': UNSORTED })
  if (plan !== undefined) updates.push(...orderUpdates(base, plan.order))
  const set = base === null ? { ...DEFAULT_PROPERTIES, ...properties } : properties
  if (Object.keys(set).length > 0) updates.push({ action: 'set-properties', updates: set })
  return updates
}

function orderUpdates(base: TableState | null, { order, isNew }: PlannedSortOrder): readonly TableUpdate[] {
  const id = order['order-id']
  const isKept = (base?.metadata['default-sort-order-id'] ?? UNSORTED['order-id']) === id
  return [
    ...(isNew && (base !== null || id !== UNSORTED['order-id'])
      ? [{ action: 'add-sort-order', 'sort-order': order } as const]
      : []),
    ...(isKept ? [] : [{ action: 'set-default-sort-order', 'sort-order-id': id } as const]),
  ]
}

interface MadeSnapshot {
  readonly snapshot: Snapshot
  readonly schemaId: number
  readonly totalRows: number
  readonly writtenBytes: number
}

async function makeSnapshot(context: Context, request: CommitRequest, metadata: TableMetadata): Promise<MadeSnapshot> {
  const id = newSnapshotId()
  const sequenceNumber = Number(metadata['last-sequence-number']) + 1
  const parent = currentSnapshot(metadata)
  const restored = request.operation === 'restore' ? chooseSnapshot(metadata, restoreChoice(request)) : null
  const schemaId = restored?.['schema-id'] ?? metadata['current-schema-id']
  const content =
    restored === null
      ? await newContent(context, request, metadata, { id, sequenceNumber, parent })
      : await oldContent(context, restored, parent)
  const uri = context.files.metadataUri(`snap-${id}-${randomUUID()}.avro`)
  const listBytes = await context.manifests.writeList(
    context.files,
    uri,
    { id, parentId: parent?.['snapshot-id'] ?? null, sequenceNumber },
    content.manifests,
  )
  const snapshot: Snapshot = {
    'snapshot-id': id,
    ...(parent === null ? {} : { 'parent-snapshot-id': parent['snapshot-id'] }),
    'sequence-number': sequenceNumber,
    'timestamp-ms': Math.max(context.nowMs, metadata['last-updated-ms']),
    'manifest-list': uri,
    summary: { ...request.summary, ...content.summary },
    'schema-id': schemaId,
  }
  const totalRows = liveRows(content.manifests)
  return { snapshot, schemaId, totalRows, writtenBytes: content.writtenBytes + listBytes }
}

function restoreChoice(request: CommitRequest): { readonly snapshotId: SnapshotId } {
  if (request.snapshotId === undefined) throw new Error('restore needs a snapshot')
  return { snapshotId: request.snapshotId }
}

/** Random, within what a double holds exactly: other languages' JSON readers see it too. */
function newSnapshotId(): number {
  return Number(randomBytes(8).readBigUInt64BE() >> 11n) || 1
}

interface Content {
  readonly manifests: readonly ManifestFile[]
  readonly summary: Snapshot['summary']
  readonly writtenBytes: number
}

async function newContent(
  context: Context,
  request: CommitRequest,
  metadata: TableMetadata,
  made: { readonly id: Int64; readonly sequenceNumber: Int64; readonly parent: Snapshot | null },
): Promise<Content> {
  const change = fileChange(request)
  const current = schemaById(metadata, metadata['current-schema-id'])
  if (current === null) throw new Error('the current schema is missing')
  const written = await writeManifests(
    context.manifests,
    context.files,
    { ...made, metadata, schema: fromIceberg(current) },
    change,
    context.signal,
  )
  return { ...written, summary: summaryOf(change, written, made.parent, request.operation === 'rewrite') }
}

function fileChange({ operation, files, removed, removedFrom, leavesNoTrace = false }: CommitRequest): FileChange {
  if (operation === 'replace') return { added: files, removed: 'all', removedFrom: [], leavesNoTrace }
  const gone = operation === 'append' ? [] : (removed ?? [])
  return { added: files, removed: gone, removedFrom: removedFrom ?? [], leavesNoTrace }
}

/** The manifests of an older snapshot serve again as they are: they name their own sequence numbers. */
async function oldContent(context: Context, restored: Snapshot, parent: Snapshot | null): Promise<Content> {
  const manifests = await context.manifests.readList(context.files, restored['manifest-list'], context.signal)
  const totals = Object.entries(restored.summary).filter(([name]) => name.startsWith('total-'))
  const before = totalOf(parent, 'total-records')
  const summary = {
    operation: 'overwrite',
    ...Object.fromEntries(totals),
    ...(before === null ? {} : { 'deleted-records': String(before), 'added-records': String(liveRows(manifests)) }),
    'sluice.restored-snapshot-id': String(restored['snapshot-id']),
  }
  return { manifests, summary, writtenBytes: 0 }
}

/** Of a file that goes, its rows that were deleted before are gone already. */
function removedRows(summary: Snapshot['summary']): number {
  const count = (name: string) => Number(summary[name] ?? 0)
  return count('deleted-records') + count('added-position-deletes') - count('removed-position-deletes')
}

function liveRows(manifests: readonly ManifestFile[]): number {
  const rows = (content: number) =>
    manifests
      .filter((manifest) => manifest.content === content)
      .reduce((sum, manifest) => sum + Number(manifest.added_rows_count) + Number(manifest.existing_rows_count), 0)
  return Math.max(0, rows(0) - rows(1))
}

function summaryOf(
  change: FileChange,
  written: { readonly manifests: readonly ManifestFile[]; readonly removed: readonly DataFile[] },
  parent: Snapshot | null,
  isRewrite: boolean,
): Snapshot['summary'] {
  const added = sizes(change.added)
  const removed = sizes(written.removed)
  const isAppend = change.removed !== 'all' && change.removed.length === 0 && added.deleteFiles === 0
  const total = (name: string, plus: number, minus: number) => {
    const before = parent === null || change.removed === 'all' ? 0 : totalOf(parent, name)
    return before === null ? {} : { [name]: String(before + plus - (change.removed === 'all' ? 0 : minus)) }
  }
  return {
    operation: isRewrite
      ? 'replace'
      : isAppend
        ? 'append'
        : added.files === 0 && removed.files + added.deleteFiles > 0
          ? 'delete'
          : 'overwrite',
    'added-data-files': String(added.files),
    'added-records': String(added.rows),
    'added-files-size': String(added.bytes),
    'deleted-data-files': String(removed.files),
    'deleted-records': String(removed.rows),
    'removed-files-size': String(removed.bytes),
    ...(added.deleteFiles === 0
      ? {}
      : {
          'added-delete-files': String(added.deleteFiles),
          'added-position-delete-files': String(added.deleteFiles),
          'added-position-deletes': String(added.deletes),
        }),
    ...(removed.deleteFiles === 0
      ? {}
      : {
          'removed-delete-files': String(removed.deleteFiles),
          'removed-position-delete-files': String(removed.deleteFiles),
          'removed-position-deletes': String(removed.deletes),
        }),
    ...total('total-data-files', added.files, removed.files),
    ...total('total-records', added.rows, removed.rows),
    ...total('total-files-size', added.bytes, removed.bytes),
    ...total('total-delete-files', added.deleteFiles, removed.deleteFiles),
    ...total('total-position-deletes', added.deletes, removed.deletes),
    ...total('total-equality-deletes', 0, 0),
  }
}

function totalOf(snapshot: Snapshot | null, name: string): number | null {
  const total = Number(snapshot?.summary[name] ?? Number.NaN)
  return Number.isSafeInteger(total) ? total : null
}

function sizes(all: readonly DataFile[]) {
  const files = all.filter(({ content }) => content === 'data')
  const deletes = all.filter(({ content }) => content === 'deletes')
  const rows = (some: readonly DataFile[]) => some.reduce((sum, file) => sum + file.rows, 0)
  const bytes = all.reduce((sum, file) => sum + file.sizeBytes, 0)
  return { files: files.length, rows: rows(files), bytes, deleteFiles: deletes.length, deletes: rows(deletes) }
}
