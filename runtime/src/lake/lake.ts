import { SluiceError } from '@sluice/sdk'
import * as catalog from './catalog.ts'
import { type Changes, describeChanges } from './changes.ts'
import { type CleanResult, cleanTable } from './cleaner.ts'
import { type CommitRequest, type StagedCommit, stageChanges, stageCommit } from './commit.ts'
import { expiryUpdates, tagUpdates } from './maintenance-updates.ts'
import { Manifests } from './manifests.ts'
import type { ObjectStore } from './object-store.ts'
import { publishAll } from './publish.ts'
import { type Scan, scanTable } from './scan.ts'
import { bucketName, checkPart, describeTable, type TableRef } from './table-ref.ts'
import { type SnapshotChoice, type SnapshotId, TableReader, type TableState } from './table-state.ts'
import { type JobRunner, type WriteJob, type WriteRun, type WriteTarget, writeData } from './write.ts'

export type { Changes } from './changes.ts'
export type { CleanResult } from './cleaner.ts'
export type { CommitRequest, StagedCommit } from './commit.ts'
export type { DataFile } from './data-file.ts'
export { LAKE_MIGRATIONS } from './migrations.ts'
export type { PartitionColumn } from './partitioning.ts'
export { engineTable, type Scan, type ScanFile } from './scan.ts'
export type { TableRef } from './table-ref.ts'
export { type LakeField, type LakeSchema, toTableSchema } from './table-schema.ts'
export type { SnapshotChoice, SnapshotId, TableState } from './table-state.ts'
export type { WriteJob, WriteRun, WriteTarget, WrittenData } from './write.ts'

/**
 * Glossary. A *table* is a folder of files and a pointer in the catalog. A *commit* is staged (written, invisible) and
 * published (the pointer moves). A *snapshot* is what the table held after a commit. A *scan* is a snapshot to read.
 */

export interface SnapshotInfo {
  readonly snapshotId: SnapshotId
  readonly parentId: SnapshotId | null
  readonly committedAtMs: number
  /** Iceberg's counts, and what the commit said of itself (epoch, run, version …). */
  readonly summary: Readonly<Record<string, string>>
  /** Tags and branches that name it. */
  readonly refs: readonly string[]
}

export interface LakeOptions {
  readonly store: ObjectStore
  /** The registry database. */
  readonly db: catalog.Queryable
  readonly engine: JobRunner
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly clock?: () => number
}

export class Lake {
  readonly #options: LakeOptions
  readonly #reader: TableReader
  readonly #manifests = new Manifests()
  readonly #now: () => number

  constructor(options: LakeOptions) {
    this.#options = options
    this.#reader = new TableReader(options.store, options.db)
    this.#now = options.clock ?? Date.now
  }

  /**
   * The table as it is now; null where there is none. `db` lets a transaction see its own publications. Throws INTERNAL
   * `lake_file_corrupted` or `lake_path_foreign` (the file is named in the cause), TRANSIENT.
   */
  load(
    ref: TableRef,
    options: { readonly db?: catalog.Queryable; readonly signal?: AbortSignal } = {},
  ): Promise<TableState | null> {
    return this.#reader.load(ref, options.signal, options.db)
  }

  /** Tables of a tenant by name, at most 10,000. */
  async tables(tenant: string, domain?: string): Promise<readonly TableRef[]> {
    const entries = await catalog.listTables(this.#options.db, tenant, domain)
    return entries.map((entry) => entry.ref)
  }

  /** Oldest first. */
  snapshots(state: TableState): readonly SnapshotInfo[] {
    return state.metadata.snapshots.map((snapshot) => ({
      snapshotId: String(snapshot['snapshot-id']),
      parentId: snapshot['parent-snapshot-id'] === undefined ? null : String(snapshot['parent-snapshot-id']),
      committedAtMs: snapshot['timestamp-ms'],
      summary: snapshot.summary,
      refs: Object.entries(state.metadata.refs)
        .filter(([, ref]) => ref['snapshot-id'] === snapshot['snapshot-id'])
        .map(([name]) => name),
    }))
  }

  /**
   * The files of a snapshot. Throws INVALID_DATA `lake_table_not_found` and `snapshot_not_found`, INTERNAL
   * `lake_file_corrupted` and `lake_path_foreign`.
   */
  async scan(table: TableRef | TableState, choice: SnapshotChoice = {}, signal?: AbortSignal): Promise<Scan> {
    return scanTable(this.#manifests, await this.#state(table, signal), choice, signal)
  }

  /** How to compute the difference of two snapshots; see `Changes`. `from` null: everything is new. */
  async changes(
    table: TableRef | TableState,
    from: SnapshotId | null,
    to: SnapshotId,
    key: readonly string[],
    signal?: AbortSignal,
  ): Promise<Changes> {
    const state = await this.#state(table, signal)
    const before = from === null ? null : await this.scan(state, { snapshotId: from }, signal)
    return describeChanges(before, await this.scan(state, { snapshotId: to }, signal), key)
  }

  /**
   * Runs one engine job that writes the data files of all targets (a product and its twins, say) from the same input.
   * The files lie in the object store afterwards, in no snapshot. Throws what the engine throws, and INVALID_DATA for
   * rows that do not fit. May be repeated: files have new names each time.
   */
  write(job: WriteJob, targets: readonly WriteTarget[], signal: AbortSignal): Promise<WriteRun> {
    return writeData(this.#options, job, targets, signal)
  }

  /** Writes manifests and metadata of a new snapshot, invisible until it is published. */
  stage(ref: TableRef, request: CommitRequest, signal?: AbortSignal): Promise<StagedCommit> {
    return stageCommit(this.#context(ref, signal), request)
  }

  /**
   * Makes staged commits visible in the transaction of the caller, all of them with its COMMIT or none. Repeatable.
   * Throws CONFLICT `lake_commit_conflict`.
   */
  publish(client: catalog.Queryable, staged: readonly StagedCommit[]): Promise<void> {
    return publishAll(client, this.#reader, staged)
  }

  /** Stages tags: name → snapshot, or null to remove it. A tagged snapshot does not expire. */
  stageTags(state: TableState, tags: Readonly<Record<string, SnapshotId | null>>): Promise<StagedCommit> {
    return stageChanges(this.#context(state.ref), state, tagUpdates(state, tags))
  }

  /** Stages the removal of snapshots from the history. None of them may be current or tagged. */
  stageExpiry(state: TableState, snapshotIds: readonly SnapshotId[]): Promise<StagedCommit> {
    return stageChanges(this.#context(state.ref), state, expiryUpdates(state, snapshotIds))
  }

  /** Makes the tenant's bucket. Idempotent. */
  async provision(tenant: string): Promise<void> {
    checkPart(tenant, 'tenant')
    await this.#options.store.ensureBucket(bucketName(tenant))
  }

  /** Removes all that the lake has of a tenant: first the pointers, then the files. Idempotent. */
  async drop(tenant: string): Promise<void> {
    checkPart(tenant, 'tenant')
    await catalog.deleteCatalog(this.#options.db, tenant)
    await this.#options.store.dropBucket(bucketName(tenant))
  }

  /** Removes the pointer, in the caller's transaction. Its files go with `purgeTable`. Idempotent. */
  dropTable(client: catalog.Queryable, ref: TableRef): Promise<void> {
    return catalog.deleteTable(client, ref)
  }

  /** Removes the files of a table that was dropped. Idempotent; a table that has a pointer is left alone (CONFLICT). */
  async purgeTable(ref: TableRef): Promise<void> {
    const files = this.#reader.files(ref)
    if ((await catalog.metadataLocation(this.#options.db, ref)) !== null) {
      throw new SluiceError('CONFLICT', `the lake table ${describeTable(ref)} is in use`, {
        code: 'lake_table_in_use',
        remedy: 'Drop the table first.',
      })
    }
    await this.#options.store.removeAll(files.root)
  }

  /** Bytes that the tenant's tables take, all snapshots together: one query, exact after `clean`. */
  storageBytes(tenant: string): Promise<number> {
    return catalog.storageBytes(this.#options.db, tenant)
  }

  /** Removes files that nothing reaches any more, and corrects the count of bytes. See `cleanTable`. */
  clean(ref: TableRef, options: { readonly minAgeMs: number }, signal: AbortSignal): Promise<CleanResult> {
    const context = { db: this.#options.db, reader: this.#reader, manifests: this.#manifests }
    return cleanTable(context, this.#reader.files(ref), { ...options, nowMs: this.#now() }, signal)
  }

  #context(ref: TableRef, signal?: AbortSignal) {
    return { manifests: this.#manifests, files: this.#reader.files(ref), nowMs: this.#now(), signal }
  }

  async #state(table: TableRef | TableState, signal?: AbortSignal): Promise<TableState> {
    if ('metadata' in table) return table
    const state = await this.load(table, signal === undefined ? {} : { signal })
    if (state !== null) return state
    throw new SluiceError('INVALID_DATA', `there is no lake table ${describeTable(table)} yet`, {
      code: 'lake_table_not_found',
      remedy: 'Materialize the product, or sync the connection, first.',
    })
  }
}
