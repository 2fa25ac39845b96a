import type { Int64 } from './int64.ts'
import type { PartitionSpec } from './partitioning.ts'
import type { IcebergSchema } from './table-schema.ts'

/**
 * Table metadata of format version 2, named as in the file: https://iceberg.apache.org/spec/#table-metadata-fields.
 * Fields that we do not know of are kept when the metadata is written anew.
 */
export interface TableMetadata {
  readonly 'format-version': 2
  readonly 'table-uuid': string
  readonly location: string
  readonly 'last-sequence-number': Int64
  readonly 'last-updated-ms': number
  readonly 'last-column-id': number
  readonly schemas: readonly IcebergSchema[]
  readonly 'current-schema-id': number
  readonly 'partition-specs': readonly PartitionSpec[]
  readonly 'default-spec-id': number
  readonly 'last-partition-id': number
  readonly properties: Readonly<Record<string, string>>
  /** Absent or -1 where the table has no snapshot. */
  readonly 'current-snapshot-id'?: Int64 | null
  readonly snapshots: readonly Snapshot[]
  readonly 'snapshot-log': readonly { readonly 'snapshot-id': Int64; readonly 'timestamp-ms': number }[]
  readonly 'metadata-log': readonly { readonly 'metadata-file': string; readonly 'timestamp-ms': number }[]
  readonly 'sort-orders': readonly SortOrder[]
  readonly 'default-sort-order-id': number
  readonly refs: Readonly<Record<string, SnapshotRef>>
  readonly [other: string]: unknown
}

export interface SortOrder {
  readonly 'order-id': number
  readonly fields: readonly unknown[]
}

export interface Snapshot {
  readonly 'snapshot-id': Int64
  readonly 'parent-snapshot-id'?: Int64
  readonly 'sequence-number': Int64
  readonly 'timestamp-ms': number
  readonly 'manifest-list': string
  readonly summary: { readonly operation: string; readonly [key: string]: string }
  readonly 'schema-id'?: number
}

export interface SnapshotRef {
  readonly 'snapshot-id': Int64
  readonly type: 'branch' | 'tag'
  readonly 'min-snapshots-to-keep'?: number
  readonly 'max-snapshot-age-ms'?: number
  readonly 'max-ref-age-ms'?: number
}

export const MAIN = 'main'

/** Names of table properties that have a meaning to us or to every Iceberg engine. */
export const PROPERTIES = {
  previousVersionsMax: 'write.metadata.previous-versions-max',
  deleteAfterCommit: 'write.metadata.delete-after-commit.enabled',
} as const

export function snapshotById(metadata: TableMetadata, id: Int64): Snapshot | null {
  return metadata.snapshots.find((snapshot) => snapshot['snapshot-id'] === id) ?? null
}

export function currentSnapshot(metadata: TableMetadata): Snapshot | null {
  const id = metadata['current-snapshot-id']
  return id === undefined || id === null ? null : snapshotById(metadata, id)
}

export function schemaById(metadata: TableMetadata, id: number): IcebergSchema | null {
  return metadata.schemas.find((schema) => schema['schema-id'] === id) ?? null
}

export function specById(metadata: TableMetadata, id: number): PartitionSpec | null {
  return metadata['partition-specs'].find((spec) => spec['spec-id'] === id) ?? null
}

/**
 * The shape that reading relies on. Null where the value is no metadata of version 2; what the references in it point
 * to is checked where they are followed.
 */
export function asTableMetadata(value: unknown): TableMetadata | null {
  if (typeof value !== 'object' || value === null) return null
  const found = value as Record<string, unknown>
  const numbers = ['last-updated-ms', 'last-column-id', 'current-schema-id', 'default-spec-id', 'last-partition-id']
  const good =
    found['format-version'] === 2 &&
    typeof found['table-uuid'] === 'string' &&
    typeof found.location === 'string' &&
    numbers.every((name) => Number.isSafeInteger(found[name])) &&
    Array.isArray(found.schemas) &&
    Array.isArray(found['partition-specs'])
  return good ? withDefaults(found) : null
}

/** The specification lets writers leave these out. */
function withDefaults(found: Record<string, unknown>): TableMetadata {
  const current = found['current-snapshot-id']
  return {
    'last-sequence-number': 0,
    properties: {},
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    'default-sort-order-id': 0,
    refs: typeof current === 'number' && current >= 0 ? { [MAIN]: { 'snapshot-id': current, type: 'branch' } } : {},
    ...found,
  } as unknown as TableMetadata
}
