import type { DataFile } from './data-file.ts'
import type { Int64 } from './int64.ts'

export type EntryStatus = 'existing' | 'added' | 'deleted'

export interface ManifestEntry {
  readonly status: EntryStatus
  readonly snapshotId: Int64
  readonly sequenceNumber: Int64
  readonly fileSequenceNumber: Int64
  readonly file: DataFile
}

/** One line of a manifest list, with Iceberg's names. */
export interface ManifestFile {
  readonly manifest_path: string
  readonly manifest_length: number
  readonly partition_spec_id: number
  readonly content: 0 | 1
  readonly sequence_number: Int64
  readonly min_sequence_number: Int64
  readonly added_snapshot_id: Int64
  readonly added_files_count: number
  readonly existing_files_count: number
  readonly deleted_files_count: number
  readonly added_rows_count: number
  readonly existing_rows_count: number
  readonly deleted_rows_count: number
  readonly partitions: readonly PartitionSummary[] | null
  readonly key_metadata: Uint8Array | null
}

/** Of one partition field, over all files of the manifest. */
export interface PartitionSummary {
  readonly contains_null: boolean
  readonly contains_nan: boolean | null
  readonly lower_bound: Uint8Array | null
  readonly upper_bound: Uint8Array | null
}
