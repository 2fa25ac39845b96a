import { SluiceError } from '@sluice/sdk'
import * as catalog from './catalog.ts'
import { type Changes, describeChanges } from './changes.ts'
import { checkTable, type LakeProblem } from './checker.ts'
import { type CleanResult, cleanTable } from './cleaner.ts'
import { type CommitRequest, type StagedCommit, stageChanges, stageCommit } from './commit.ts'
import { type CompactionOptions, compactionCommit, compactionJob, smallFiles } from './compaction.ts'
import { expiryUpdates, tagUpdates } from './maintenance-updates.ts'
import { Manifests } from './manifests.ts'
import { type DeleteRequest, type MergeRequest, planDelete, planMerge, type TouchedFiles } from './merge.ts'
import { notePath, readNote } from './newest-note.ts'
import type { ObjectStore } from './object-store.ts'
import { publishAll } from './publish.ts'
import { type Scan, scanTable, sharedManifests } from './scan.ts'
import { inSnapshot, lakeDamage, type TableFiles } from './table-files.ts'
import { bucketName, checkPart, describeTable, type TableRef } from './table-ref.ts'
import { type SnapshotChoice, type SnapshotId, TableReader, type TableState } from './table-state.ts'
import { type JobRunner, type WriteJob, type WriteRun, type WriteTarget, type WrittenData, writeData } from './write.ts'

export type { Changes } from './changes.ts'
export type { LakeProblem } from './checker.ts'
export type { CleanResult } from './cleaner.ts'
export type { CommitRequest, StagedCommit } from './commit.ts'
export type { CompactionOptions } from './compaction.ts'
export type { DataFile } from './data-file.ts'
export type { DeleteRequest, MergeRequest, PresentKeys } from './merge.ts'
export { LAKE_MIGRATIONS } from './migrations.ts'
export type { PartitionColumn } from './partitioning.ts'
export { engineTable, type Scan, type ScanFile } from './scan.ts'
export type { TableRef } from './table-ref.ts'
export { type LakeField, type LakeSchema, toTableSchema } from './table-schema.ts'
export {
  type NamedColumn,
  type SnapshotChoice,
  type SnapshotId,
  schemaHistory,
  type TableState,
} from './table-state.ts'
export { planRestore, type WriteJob, type WriteRun, type WriteTarget, type WrittenData } from './write.ts'

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

/** Files that take the place of others; `stage` them as `overwrite`. */
export interface ChangedFiles {
  readonly written: WrittenData
  /** Addresses of the files that go. */
  readonly removed: readonly string[]
  /** The manifests that list them. */
  readonly removedFrom: readonly string[]
  /** Of the request's own job. */
  readonly results: WriteRun['results']
  /** Rows that went because their key is not among those that a merge was told to be present. */
  readonly gone: number
  /** Keys that were told to be present, and are neither in the table as they are told nor among the changed rows. */
  readonly unexplained: number
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

  /** The same lake, as a process sees it that has read nothing yet. */
  fresh(): Lake {
    return new Lake(this.#options)
  }

  /** The address of a data file of that name. */
  dataUri(ref: TableRef, name: string): string {
    return this.#reader.files(ref).dataUri(name)
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
   * `lake_file_corrupted`, `lake_path_foreign`, and `lake_pointer_missing` where a snapshot is asked for of a table
   * that the catalog does not have: it was there when that snapshot became known.
   */
  async scan(table: TableRef | TableState, choice: SnapshotChoice = {}, signal?: AbortSignal): Promise<Scan> {
    return scanTable(this.#manifests, await this.#state(table, signal, choice.snapshotId), choice, signal)
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
    // Manifests that both list name the same files for both: nothing of them is read.
    const shared = from === null ? new Set<string>() : await sharedManifests(this.#manifests, state, from, to, signal)
    const scanOf = (snapshotId: SnapshotId) => scanTable(this.#manifests, state, { snapshotId }, signal, shared)
    return describeChanges(from === null ? null : await scanOf(from), await scanOf(to), key)
  }

  /**
   * Runs one engine job that writes the data files of all targets (a product and its twins, say) from the same input.
   * The files lie in the object store afterwards, in no snapshot. Throws what the engine throws, and INVALID_DATA for
   * rows that do not fit. May be repeated: files have new names each time.
   */
  write(job: WriteJob, targets: readonly WriteTarget[], signal: AbortSignal): Promise<WriteRun> {
    return writeData(this.#options, job, targets, signal)
  }

  /**
   * Writes the files that a merge by key needs: those that hold a changed row are written anew, the others stay. Throws
   * as `write` does. May be repeated, unless its job has an input that streams.
   */
  async merge(request: MergeRequest, signal: AbortSignal): Promise<ChangedFiles> {
    const workspace = await this.#options.store.workspace()
    try {
      const context = { store: this.#options.store, engine: this.#options.engine, dir: workspace.dir }
      return await this.#changed(await planMerge(context, request, signal), signal)
    } finally {
      await workspace.dispose()
    }
  }

  /** The same for rows that are to go; null where no row is among them. */
  async deleteWhere(request: DeleteRequest, signal: AbortSignal): Promise<ChangedFiles | null> {
    const plan = await planDelete({ engine: this.#options.engine }, request, signal)
    return plan.files.length === 0 ? null : this.#changed(plan, signal)
  }

  async #changed(plan: TouchedFiles, signal: AbortSignal): Promise<ChangedFiles> {
    const run = await this.write(plan.job, [plan.target], signal)
    const [written] = run.written
    if (written === undefined) throw new Error('nothing was written')
    const removedFrom = [...new Set(plan.files.map((file) => file.manifest))]
    const { results, gone, unexplained } = plan
    return { written, removed: plan.files.map((file) => file.uri), removedFrom, results, gone, unexplained }
  }

  /** Writes manifests and metadata of a new snapshot, invisible until it is published. */
  stage(ref: TableRef, request: CommitRequest, signal?: AbortSignal): Promise<StagedCommit> {
    return stageCommit(this.#context(request.base?.files ?? this.#reader.files(ref), signal), request)
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
    return stageChanges(this.#context(state.files), state, tagUpdates(state, tags))
  }

  /** Stages the removal of snapshots from the history. None of them may be current or tagged. */
  stageExpiry(state: TableState, snapshotIds: readonly SnapshotId[]): Promise<StagedCommit> {
    return stageChanges(this.#context(state.files), state, expiryUpdates(state, snapshotIds))
  }

  /**
   * Writes the rows of small files into fewer, and stages their exchange: the same content in a new snapshot. Null where
   * there is nothing to win, and where somebody else writes to the table now.
   */
  async stageCompaction(ref: TableRef, options: CompactionOptions, signal: AbortSignal): Promise<StagedCommit | null> {
    const state = await this.load(ref, { signal })
    if (state === null || (await catalog.hasOpenWrites(this.#options.db, ref))) return null
    const scan = await this.scan(state, {}, signal)
    const files = smallFiles(state, scan, options)
    if (files.length === 0) return null
    const { job, target } = compactionJob(state, scan, files, options)
    const { written } = await this.write(job, [target], signal)
    const [data] = written
    if (data === undefined) throw new Error('nothing was written')
    return this.stage(ref, compactionCommit(state, scan, files, data), signal)
  }

  /** True where a writer has, or may have, files of the table that no snapshot names yet. */
  hasOpenWrites(ref: TableRef): Promise<boolean> {
    return catalog.hasOpenWrites(this.#options.db, ref)
  }

  /**
   * Says that somebody may have files in the table's folder that no snapshot names yet: it is not cleaned until the
   * lease ends, or a commit with that `writeId` is published. Repeatable.
   */
  leaseWrite(ref: TableRef, writeId: string, leaseMs: number): Promise<void> {
    return catalog.leaseWrite(this.#options.db, ref, writeId, leaseMs)
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

  /**
   * Notes beside the table where its pointer is after the newest commit, and what the caller adds: for a catalog that is
   * put back from an older dump. `clean` leaves a table alone whose pointer is not where its note, or its history, has it.
   */
  async noteNewest(ref: TableRef, location: string | null, note: object): Promise<void> {
    const body = Buffer.from(JSON.stringify({ ...note, location }), 'utf8')
    await this.#options.store.put(notePath(this.#reader.files(ref)), body)
  }

  /** As `noteNewest` was given it; null where there is none. */
  newestNote(ref: TableRef): Promise<unknown> {
    return readNote(this.#reader.files(ref))
  }

  /** Idempotent. */
  forgetNewest(ref: TableRef): Promise<void> {
    return this.#options.store.remove(notePath(this.#reader.files(ref)))
  }

  /** Brings the pointer to a metadata file of the table, wherever it is, in the caller's transaction. */
  async movePointer(client: catalog.Queryable, ref: TableRef, location: string): Promise<void> {
    const state = await this.#reader.stateAt(this.#reader.files(ref), location)
    await catalog.ensureNamespace(client, ref.tenant, ref.domain)
    const from = await catalog.metadataLocation(client, ref)
    if (from !== location) await catalog.moveTable(client, ref, from, state.location)
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
    await this.#options.store.remove(notePath(files))
    await this.#options.store.removeAll(files.root)
  }

  /** Bytes that the tenant's tables take, all snapshots together: one query, exact after `clean`. */
  storageBytes(tenant: string): Promise<number> {
    return catalog.storageBytes(this.#options.db, tenant)
  }

  /** Removes files that nothing reaches any more, and corrects the count of bytes. See `cleanTable`. */
  async clean(ref: TableRef, options: { readonly minAgeMs: number }, signal: AbortSignal): Promise<CleanResult> {
    const context = { db: this.#options.db, reader: this.#reader, manifests: this.#manifests }
    return cleanTable(context, await this.#filesOf(ref), { ...options, nowMs: this.#now() }, signal)
  }

  /** Everything that keeps the table, or a snapshot of it, from being read. See `checkTable`. */
  async check(ref: TableRef, signal: AbortSignal): Promise<readonly LakeProblem[]> {
    const context = { reader: this.#reader, manifests: this.#manifests, engine: this.#options.engine }
    return checkTable(context, await this.#filesOf(ref), signal)
  }

  /** Tables that have files in the tenant's bucket and no pointer: dropped ones, and first writes that failed. */
  async lostTables(tenant: string, signal?: AbortSignal): Promise<readonly TableRef[]> {
    checkPart(tenant, 'tenant')
    const prefix = `${bucketName(tenant)}/${tenant}`
    const entries = await catalog.listTables(this.#options.db, tenant)
    const roots = entries.map(({ ref, metadataLocation }) => this.#reader.filesAt(ref, metadataLocation).root)
    const known = new Set(roots.map((root) => root.slice(prefix.length + 1)))
    const lost = new Map<string, TableRef>()
    for await (const { path } of this.#options.store.list(prefix, signal)) {
      const [domain, table] = path.slice(prefix.length + 1).split('/')
      if (domain === undefined || table === undefined || known.has(`${domain}/${table}`)) continue
      lost.set(`${domain}/${table}`, { tenant, domain, table })
    }
    return [...lost.values()]
  }

  #context(files: TableFiles, signal?: AbortSignal) {
    return { manifests: this.#manifests, files, nowMs: this.#now(), signal }
  }

  async #filesOf(ref: TableRef): Promise<TableFiles> {
    const location = await catalog.metadataLocation(this.#options.db, ref)
    return location === null ? this.#reader.files(ref) : this.#reader.filesAt(ref, location)
  }

  async #state(table: TableRef | TableState, signal?: AbortSignal, snapshotId?: SnapshotId): Promise<TableState> {
    if ('metadata' in table) return table
    const state = await this.load(table, signal === undefined ? {} : { signal }).catch((error: unknown) => {
      throw inSnapshot(error, snapshotId ?? null)
    })
    if (state !== null) return state
    if (snapshotId !== undefined) throw lakeDamage('lake_pointer_missing', table, { path: null, snapshotId })
    throw new SluiceError('INVALID_DATA', `there is no lake table ${describeTable(table)} yet`, {
      code: 'lake_table_not_found',
      remedy: 'Materialize the product, or sync the connection, first.',
    })
  }
}
