import type { StoredValue } from './stored-value.ts'

/** One data file of a table (or file of position deletes), as a manifest describes it. */
export interface DataFile {
  /** `deletes`: positions of rows of other files that are gone. */
  readonly content: 'data' | 'deletes'
  /** As the metadata names it. */
  readonly uri: string
  readonly rows: number
  readonly sizeBytes: number
  readonly specId: number
  /** In the order of the fields of the partition spec. */
  readonly partition: readonly (StoredValue | null)[]
  /** By field id. A field that is missing is not known; none of them may be relied on to be complete. */
  readonly columnSizes: ReadonlyMap<number, number>
  readonly valueCounts: ReadonlyMap<number, number>
  readonly nullCounts: ReadonlyMap<number, number>
  readonly nanCounts: ReadonlyMap<number, number>
  /** In Iceberg's single-value serialisation. No row has a value outside, but the bounds need not be reached. */
  readonly lowerBounds: ReadonlyMap<number, Uint8Array>
  readonly upperBounds: ReadonlyMap<number, Uint8Array>
  readonly sortOrderId: number | null
}
