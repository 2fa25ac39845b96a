/**
 * Apache Iceberg tables: written, read, compared, kept in order, and changed by others through the REST catalog's protocol.
 *
 * Glossary. A *table* is a folder of files and a pointer in the catalog. A *commit* is staged (written, invisible) and
 * published (the pointer moves). A *snapshot* is what the table held after a commit. A *scan* is a snapshot to read. A
 * *warehouse* is a place with tables of its own; their names are of a *namespace* in it.
 */

export { namingBrokenFiles } from './broken-files.ts'
export type { BucketOwner, BucketRecords, BucketState, Catalog, CatalogEntry } from './catalog.ts'
export type { Changes } from './changes.ts'
export type { LakeProblem } from './checker.ts'
export type { CleanResult, TableTraces } from './cleaner.ts'
export type { CommitRequest, StagedCommit, TablePlan } from './commit.ts'
export type { CompactionOptions } from './compaction.ts'
export type { DataFile } from './format/data-file.ts'
export { type Int64, parseJsonExactly, stringifyJsonExactly } from './format/int64.ts'
export { hasMarks, MARKED_COLUMNS, MARKS } from './format/marks.ts'
export type { TableMetadata } from './format/metadata.ts'
export type { PartitionColumn } from './format/partitioning.ts'
export { fromIceberg, type LakeField, type LakeSchema, toTableSchema } from './format/table-schema.ts'
export { commitConflict, type TableRequirement, type TableUpdate } from './format/table-updates.ts'
export { type ChangedFiles, type FilesToPurge, Lake, type LakeOptions, type SnapshotInfo } from './lake.ts'
export { Manifests } from './manifests.ts'
export type { DeleteRequest, MergeRequest, PresentKeys } from './merge.ts'
export { type Belonging, BUCKET_PROBLEMS } from './owners.ts'
export { commented } from './protocol/column-comments.ts'
export {
  type CreateRequest,
  type IdentifierOf,
  parseChange,
  parseCreate,
  parseNamespace,
  parseProperties,
  parseRename,
  parseSigning,
  parseTransaction,
  type TableChange,
} from './protocol/commit-request.ts'
export { changedMetadata, type ForeignCommit, locationRefused, stageForeign } from './protocol/foreign-commit.ts'
export { creationUpdates } from './protocol/new-table.ts'
export { type Page, pageOf } from './protocol/page.ts'
export { ReachableFiles } from './protocol/reachable-files.ts'
export { referencedOnly, type VisibleMetadata, visibleMetadata } from './protocol/visible-metadata.ts'
export { engineTable, type Scan, type ScanFile } from './scan.ts'
export { BucketStore, type BucketStoreOptions } from './store/bucket-store.ts'
export { FolderStore } from './store/folder-store.ts'
export { withObjects } from './store/object-cache.ts'
export type {
  AdoptOptions,
  GetOptions,
  ObjectStat,
  ObjectStore,
  PutOptions,
  Workspace,
} from './store/object-store.ts'
export { StoreCatalog } from './store-catalog.ts'
export { inSnapshot, isUnreadable, lakeDamage, TableFiles } from './table-files.ts'
export { type Layout, type TableRef, tablePath } from './table-ref.ts'
export {
  isToBegin,
  type NamedColumn,
  type SnapshotChoice,
  type SnapshotId,
  schemaHistory,
  type TableState,
} from './table-state.ts'
export { type Reading, Table, Warehouse, type WarehouseOptions } from './warehouse.ts'
export {
  type JobRunner,
  planRestore,
  planTable,
  type WriteJob,
  type WriteRun,
  type WriteTarget,
  type WrittenData,
} from './write.ts'
