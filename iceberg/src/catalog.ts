import type { Layout, TableRef } from './table-ref.ts'

/**
 * Where the pointers of tables are kept: which metadata file of each table is current. That one step, from a file to the
 * next one, is all that makes a commit visible, so it must be atomic; the files themselves are written once and stay.
 * Every method but `movePointer` may be repeated. What cannot be reached is TRANSIENT.
 */
export interface Catalog {
  /** Where its tables lie in the object store. */
  readonly layout: Layout

  /** The address of the table's current metadata file; null where there is no such table. */
  pointer(ref: TableRef): Promise<string | null>

  /** Moves the pointer from one file to the next, or makes it where `from` is null. False where it was not `from`. */
  movePointer(ref: TableRef, from: string | null, to: string): Promise<boolean>

  /** The table's files stay. */
  dropPointer(ref: TableRef): Promise<void>

  /** In the order of their names, at most 10,000. */
  tables(warehouse: string, namespace?: string): Promise<readonly CatalogEntry[]>

  /** Forgets all that it knows of a warehouse. */
  dropWarehouse(warehouse: string): Promise<void>

  /** Of catalogs that know which bucket is theirs; others believe that it is the one that they find. */
  readonly owners?: BucketRecords

  /** Begins or prolongs a writer's lease: while it lasts, the table may have files that no snapshot names yet. */
  leaseWrite(ref: TableRef, writeId: string, leaseMs: number): Promise<void>

  endWrite(ref: TableRef, writeId: string): Promise<void>

  hasOpenWrites(ref: TableRef): Promise<boolean>

  /** Adds to what the table is counted with, as its pointer moves. Left out by catalogs that count nothing. */
  addBytes?(ref: TableRef, bytes: number): Promise<void>

  /** Sets what the table is counted with, provided that its pointer is still `location`; false where it is not. */
  setBytes?(ref: TableRef, location: string, bytes: number): Promise<boolean>
}

/** What the last look at a bucket has found; `dropping`: it is being removed with all that it holds. */
export type BucketState = 'own' | 'emptied' | 'foreign' | 'dropping'

/** `mark` null: of a bucket that has none yet. */
export interface BucketOwner {
  readonly mark: string | null
  readonly state: BucketState
}

/** What is kept of each warehouse's bucket. */
export interface BucketRecords {
  /** Null of a bucket that was made before there were marks. */
  find(warehouse: string): Promise<BucketOwner | null>
  /** A mark that is there stays. */
  keep(warehouse: string, owner: Partial<BucketOwner> & Pick<BucketOwner, 'state'>): Promise<void>
  drop(warehouse: string): Promise<void>
}

export interface CatalogEntry {
  readonly ref: TableRef
  readonly metadataLocation: string
}
