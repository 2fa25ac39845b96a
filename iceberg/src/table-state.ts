import { randomUUID } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import { LRUCache } from 'lru-cache'
import type { Catalog } from './catalog.ts'
import { type Int64, parseInt64, parseJsonExactly } from './format/int64.ts'
import {
  asTableMetadata,
  currentSnapshot,
  type Snapshot,
  schemaById,
  snapshotById,
  specById,
  type TableMetadata,
} from './format/metadata.ts'
import type { PartitionSpec } from './format/partitioning.ts'
import { fromIceberg, type LakeField, type LakeSchema, logicalType } from './format/table-schema.ts'
import { emptyMetadata } from './format/table-updates.ts'
import type { ObjectStore } from './store/object-store.ts'
import { TableFiles } from './table-files.ts'
import { checkTableRef, type Layout, type TableRef, tablePath } from './table-ref.ts'

/** A snapshot's id in decimal digits: up to 63 bits, so that a JavaScript number cannot hold each of them. */
export type SnapshotId = string

/** A table as its pointer showed it at one moment. Commits are made against such a state. */
export interface TableState {
  readonly ref: TableRef
  readonly files: TableFiles
  /** The address of the metadata file that was current. */
  readonly location: string
  readonly metadata: TableMetadata
  /** The current schema, with field ids. */
  readonly schema: LakeSchema
  readonly spec: PartitionSpec
  /** Null where the table has no snapshot yet. */
  readonly snapshotId: SnapshotId | null
}

const MAX_CACHED_BYTES = 32 * 1024 * 1024

/** Reads table metadata. The files never change, so what was read is kept, within a bound. */
export class TableReader {
  readonly #store: ObjectStore
  readonly #catalog: Catalog
  readonly #cache = new LRUCache<string, { metadata: TableMetadata; sizeBytes: number }>({
    maxSize: MAX_CACHED_BYTES,
    sizeCalculation: (entry) => entry.sizeBytes,
  })

  constructor(store: ObjectStore, catalog: Catalog) {
    this.#store = store
    this.#catalog = catalog
  }

  files(ref: TableRef): TableFiles {
    return new TableFiles(this.#store, ref, tablePath(this.#catalog.layout, ref))
  }

  /** See the function of that name. */
  filesAt(ref: TableRef, location: string): TableFiles {
    return filesAt(this.#store, this.#catalog.layout, ref, location)
  }

  /** Null where the catalog has no such table. Throws INTERNAL `lake_file_corrupted`, TRANSIENT `lake_catalog_unavailable`. */
  async load(ref: TableRef, signal?: AbortSignal, catalog: Catalog = this.#catalog): Promise<TableState | null> {
    checkTableRef(ref)
    const location = await catalog.pointer(ref)
    return location === null ? null : this.stateAt(this.filesAt(ref, location), location, signal)
  }

  async stateAt(files: TableFiles, location: string, signal?: AbortSignal): Promise<TableState> {
    const metadata = await this.metadataAt(files, location, signal)
    return files.parse(location, () => toState(files, location, metadata))
  }

  /** As `load`, from the files themselves, whatever was read before. */
  async loadAnew(ref: TableRef, signal?: AbortSignal): Promise<TableState | null> {
    const location = await this.#catalog.pointer(ref)
    if (location !== null) this.#cache.delete(location)
    return this.load(ref, signal)
  }

  async metadataAt(files: TableFiles, location: string, signal?: AbortSignal): Promise<TableMetadata> {
    files.pathOf(location)
    const cached = this.#cache.get(location)
    if (cached !== undefined) return cached.metadata
    const bytes = await files.read(location, signal)
    const metadata = files.parse(location, () => parseMetadata(files, bytes))
    this.#cache.set(location, { metadata, sizeBytes: bytes.length })
    return metadata
  }
}

/**
 * The files of a table whose pointer is `location`. Where tables can be renamed their folders have names of their own,
 * which only the pointer tells; a pointer elsewhere gives the table's own folder, where it will not be found.
 */
export function filesAt(store: ObjectStore, layout: Layout, ref: TableRef, location: string): TableFiles {
  const own = new TableFiles(store, ref, tablePath(layout, ref))
  if (!layout.canRename(ref.namespace)) return own
  const parent = own.root.slice(0, -ref.table.length)
  const path = store.pathOf(location)
  const folder = path?.startsWith(parent)
    ? /^([^/]+)\/metadata\/[^/]+$/.exec(path.slice(parent.length))?.[1]
    : undefined
  return folder === undefined ? own : new TableFiles(store, ref, parent + folder)
}

function parseMetadata(files: TableFiles, bytes: Uint8Array): TableMetadata {
  const metadata = asTableMetadata(parseJsonExactly(Buffer.from(bytes).toString('utf8')))
  if (metadata === null) throw new Error('not table metadata of format version 2')
  // A location elsewhere would let its next writer put files there.
  if (files.store.pathOf(metadata.location.replace(/\/$/, '')) !== files.root)
    throw new Error('the metadata belongs to another place')
  return metadata
}

function toState(files: TableFiles, location: string, metadata: TableMetadata): TableState {
  const schema = schemaById(metadata, metadata['current-schema-id'])
  const spec = specById(metadata, metadata['default-spec-id'])
  if (schema === null || spec === null) throw new Error('the current schema or partition spec is missing')
  const snapshot = currentSnapshot(metadata)
  return {
    ref: files.ref,
    files,
    location,
    metadata,
    schema: fromIceberg(schema),
    spec,
    snapshotId: snapshot === null ? null : String(snapshot['snapshot-id']),
  }
}

/**
 * In place of a state that cannot be read: no columns, rows or history, at the pointer that leads to it. What is committed
 * against it begins the table anew, where nobody has moved the pointer meanwhile.
 */
export function stateToBegin(files: TableFiles, location: string): TableState {
  return {
    ref: files.ref,
    files,
    location,
    metadata: emptyMetadata(randomUUID(), files.location),
    schema: { schemaId: -1, fields: [], identifierFieldIds: [] },
    spec: { 'spec-id': -1, fields: [] },
    snapshotId: null,
  }
}

/** Whether it is one of `stateToBegin`: no table has metadata without a schema. */
export function isToBegin(state: TableState | null): boolean {
  return state !== null && state.metadata.schemas.length === 0
}

/** Which snapshot to read; none of the three means the current one. */
export interface SnapshotChoice {
  readonly snapshotId?: SnapshotId
  /** The snapshot that was current then. */
  readonly asOf?: Date
  /** A branch or tag. */
  readonly tag?: string
}

/** Throws INVALID_DATA `snapshot_not_found`; null where the current one is asked for and there is none yet. */
export function chooseSnapshot(metadata: TableMetadata, choice: SnapshotChoice): Snapshot | null {
  if (choice.snapshotId !== undefined) return found(snapshotById(metadata, idOf(choice.snapshotId)))
  if (choice.tag !== undefined) {
    const ref = metadata.refs[choice.tag]
    return found(ref === undefined ? null : snapshotById(metadata, ref['snapshot-id']))
  }
  if (choice.asOf === undefined) return currentSnapshot(metadata)
  const atMs = choice.asOf.getTime()
  const entry = metadata['snapshot-log'].findLast((logged) => logged['timestamp-ms'] <= atMs)
  return found(entry === undefined ? null : snapshotById(metadata, entry['snapshot-id']))
}

function idOf(text: string): Int64 {
  try {
    return parseInt64(text)
  } catch {
    throw notFound()
  }
}

function found(snapshot: Snapshot | null): Snapshot {
  if (snapshot === null) throw notFound()
  return snapshot
}

function notFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the lake table has no such snapshot, or it has expired', {
    code: 'snapshot_not_found',
    remedy: 'List the snapshots of the product and choose one of them, or a later moment.',
  })
}

/** The columns that the table has had in each of its schemas, the current one last. */
export function schemaHistory({ metadata, schema }: TableState): readonly (readonly NamedColumn[])[] {
  const former = metadata.schemas.filter((one) => one['schema-id'] !== schema.schemaId)
  const columns = former.map(({ fields }) =>
    // Of other engines' tables, what is no column of ours is none that a manifest names.
    fields.flatMap(({ name, type, doc }) => (typeof type === 'string' ? [{ name, type: logicalType(type, doc) }] : [])),
  )
  return [...columns, schema.fields]
}

export type NamedColumn = Pick<LakeField, 'name' | 'type'>
