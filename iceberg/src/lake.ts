/** The tables of a lake behind one door: all that others ask of it, each method a call of the file that does it. */
import { SluiceError } from '@sluice/sdk'
import type { Catalog } from './catalog.ts'
import { type Changes, describeChanges } from './changes.ts'
import { checkTable, type LakeProblem } from './checker.ts'
import {
  type CleanOptions,
  type CleanResult,
  cleanTable,
  cleanTableAtOnce,
  type TableTraces,
  tracesOf,
} from './cleaner.ts'
import { type CommitRequest, type StagedCommit, stageChanges, stageCommit } from './commit.ts'
import { type CompactionOptions, compactionCommit, compactionJob, smallFiles } from './compaction.ts'
import { expiryUpdates, forgettingUpdates, tagUpdates } from './maintenance-updates.ts'
import { Manifests } from './manifests.ts'
import { type DeleteRequest, type MergeRequest, planDelete, planMerge, type TouchedFiles } from './merge.ts'
import { notePath, readNote } from './newest-note.ts'
import { type Belonging, LakeOwners } from './owners.ts'
import { adoptPositions } from './position-deletes.ts'
import { publishAll } from './publish.ts'
import { type Scan, scanTable, sharedManifests } from './scan.ts'
import type { ObjectStore } from './store/object-store.ts'
import { elsewhere, inSnapshot, isUnreadable, lakeDamage, type TableFiles } from './table-files.ts'
import { checkPart, describeTable, type TableRef } from './table-ref.ts'
import { type SnapshotChoice, type SnapshotId, stateToBegin, TableReader, type TableState } from './table-state.ts'
import { type JobRunner, type WriteJob, type WriteRun, type WriteTarget, type WrittenData, writeData } from './write.ts'
import { HeldLeases, type WriteLeases } from './write-leases.ts'

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
  /** Keys that other states are present of than those that came: newer ones than came, or older ones than the table has. */
  readonly outdated: number
}

/** Of a table that is to be dropped: paths in the object store. */
export interface FilesToPurge {
  readonly ref: TableRef
  readonly paths: readonly string[]
}

const PURGED_AT_ONCE = 16

export interface LakeOptions {
  readonly store: ObjectStore
  readonly catalog: Catalog
  readonly engine: JobRunner
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly clock?: () => number
}

/** All tables of a catalog, in an object store. */
export class Lake {
  readonly #options: LakeOptions
  #reader: TableReader
  #manifests = new Manifests()
  #owners: LakeOwners
  readonly #now: () => number
  /** Of the piece of work that this one is for; null where it is for all. */
  #held: HeldLeases | null = null

  constructor(options: LakeOptions) {
    this.#options = options
    this.#reader = new TableReader(options.store, options.catalog)
    this.#owners = new LakeOwners(options.store, options.catalog)
    this.#now = options.clock ?? Date.now
  }

  /**
   * Does a piece of work with a lake of its own over the same tables. When it ends, well or not, so do the leases of what it
   * wrote and did not publish: no commit will name these files, and cleaning and compaction need not wait until the leases
   * are over. What it stages has to be published within it.
   */
  async writing<Result>(work: (lake: Lake) => Promise<Result>): Promise<Result> {
    const held = new HeldLeases(this.#leases)
    const lake = new Lake(this.#options)
    lake.#held = held
    lake.#reader = this.#reader
    lake.#manifests = this.#manifests
    lake.#owners = this.#owners
    try {
      const result = await work(lake)
      await held.end('succeeded')
      return result
    } catch (error) {
      await held.end('failed')
      throw error
    }
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
   * The table as it is now; null where there is none. `catalog` lets a transaction see its own publications. Throws INTERNAL
   * `lake_file_corrupted` or `lake_path_foreign` (the file is named in the cause), CONFLICT `lake_emptied` or
   * `lake_foreign` where it is the whole bucket that is gone or another's, TRANSIENT.
   */
  async load(
    ref: TableRef,
    options: { readonly catalog?: Catalog; readonly signal?: AbortSignal } = {},
  ): Promise<TableState | null> {
    try {
      return await this.#reader.load(ref, options.signal, options.catalog)
    } catch (error) {
      throw await this.#owners.explain(ref.warehouse, error)
    }
  }

  /**
   * As `load`, for who writes everything anew and can do without what was: a table whose metadata is broken or missing is given as
   * one that is to begin (`isToBegin`). Throws CONFLICT where it is the bucket that is gone or another's, and INTERNAL
   * `lake_path_foreign` where it lies in another object store, which may have it whole.
   */
  async loadToReplace(ref: TableRef, signal?: AbortSignal): Promise<TableState | null> {
    const { catalog } = this.#options
    const location = await catalog.pointer(ref)
    try {
      return await this.load(ref, signal === undefined ? {} : { signal })
    } catch (error) {
      if (!isUnreadable(error)) throw error
      // Where somebody has moved it meanwhile, what it leads to now may be whole.
      if ((await catalog.pointer(ref)) !== location) return this.loadToReplace(ref, signal)
      if (location === null) return null
      if (this.#options.store.pathOf(location) === null) throw elsewhere(ref, error)
      return stateToBegin(this.#reader.filesAt(ref, location), location)
    }
  }

  /** Tables of a warehouse by name, at most 10,000. */
  async tables(warehouse: string, namespace?: string): Promise<readonly TableRef[]> {
    const entries = await this.#options.catalog.tables(warehouse, namespace)
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
   * that the catalog does not have: it was there when that snapshot became known; CONFLICT `lake_emptied` or `lake_foreign`
   * as `load`.
   */
  async scan(table: TableRef | TableState, choice: SnapshotChoice = {}, signal?: AbortSignal): Promise<Scan> {
    try {
      return await scanTable(this.#manifests, await this.#state(table, signal, choice.snapshotId), choice, signal)
    } catch (error) {
      throw await this.#owners.explain(('ref' in table ? table.ref : table).warehouse, error)
    }
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
  async write(job: WriteJob, targets: readonly WriteTarget[], signal: AbortSignal): Promise<WriteRun> {
    for (const warehouse of new Set(targets.map(({ ref }) => ref.warehouse))) await this.#owners.requireNow(warehouse)
    const { store, catalog, engine } = this.#options
    return writeData({ store, layout: catalog.layout, leases: this.#leases, engine }, job, targets, signal)
  }

  /**
   * Writes the files that a merge by key needs: new rows, the files that are written anew, and lists of rows that are gone. Throws
   * as `write` does. May be repeated, unless its job has an input that streams.
   */
  async merge(request: MergeRequest, signal: AbortSignal): Promise<ChangedFiles> {
    const { store, catalog } = this.#options
    const workspace = await store.workspace(catalog.layout.bucketOf(request.base.ref.warehouse))
    try {
      const context = { store, engine: this.#options.engine, dir: workspace.dir }
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
    const deletes = await adoptPositions(this.#reader.files(plan.target.ref), plan.marked, run.results)
    const leaving = [...plan.files, ...plan.deletes]
    const { results, gone, unexplained, outdated } = plan
    return {
      written: {
        ...written,
        files: [...written.files, ...deletes],
        sizeBytes: deletes.reduce((sum, file) => sum + file.sizeBytes, written.sizeBytes),
      },
      removed: leaving.map((file) => file.uri),
      removedFrom: [...new Set(leaving.map((file) => file.manifest))],
      results,
      gone,
      unexplained,
      outdated,
    }
  }

  /** Writes manifests and metadata of a new snapshot, invisible until it is published. */
  async stage(ref: TableRef, request: CommitRequest, signal?: AbortSignal): Promise<StagedCommit> {
    await this.requireOwn(ref.warehouse)
    return stageCommit(this.#context(request.base?.files ?? this.#reader.files(ref), signal), request)
  }

  /** The table as the commit leaves it, for who looks at it before anybody else can. */
  stagedState({ ref, to }: StagedCommit): Promise<TableState> {
    return this.#reader.stateAt(this.#reader.filesAt(ref, to), to)
  }

  /**
   * Makes staged commits visible. Where the catalog is a transaction of the caller's, all of them with its COMMIT or none;
   * else one after the other. Repeatable. Throws CONFLICT `lake_commit_conflict`.
   */
  async publish(catalog: Catalog, staged: readonly StagedCommit[]): Promise<void> {
    await publishAll(catalog, this.#reader, staged)
    for (const { writeId } of staged) if (writeId !== null) this.#held?.notePublished(writeId)
  }

  /** Stages tags: name → snapshot, or null to remove it. A tagged snapshot does not expire. */
  async stageTags(state: TableState, tags: Readonly<Record<string, SnapshotId | null>>): Promise<StagedCommit> {
    await this.requireOwn(state.ref.warehouse)
    return stageChanges(this.#context(state.files), state, tagUpdates(state, tags))
  }

  /** Stages the removal of snapshots from the history. None of them may be current or tagged. */
  async stageExpiry(state: TableState, snapshotIds: readonly SnapshotId[]): Promise<StagedCommit> {
    await this.requireOwn(state.ref.warehouse)
    return stageChanges(this.#context(state.files), state, expiryUpdates(state, snapshotIds))
  }

  /**
   * Writes the rows of small files into fewer, and stages their exchange: the same content in a new snapshot. Null where
   * there is nothing to win, and where somebody else writes to the table now.
   */
  async stageCompaction(ref: TableRef, options: CompactionOptions, signal: AbortSignal): Promise<StagedCommit | null> {
    const state = await this.load(ref, { signal })
    if (state === null || (await this.#options.catalog.hasOpenWrites(ref))) return null
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
    return this.#options.catalog.hasOpenWrites(ref)
  }

  /**
   * Says that somebody may have files in the table's folder that no snapshot names yet: it is not cleaned until the
   * lease ends, or a commit with that `writeId` is published. Repeatable.
   */
  leaseWrite(ref: TableRef, writeId: string, leaseMs: number): Promise<void> {
    return this.#leases.leaseWrite(ref, writeId, leaseMs)
  }

  /** Makes the warehouse's bucket. Idempotent. Throws CONFLICT `lake_foreign` where one is there that has files of others. */
  provision(warehouse: string): Promise<void> {
    return this.#owners.claim(warehouse)
  }

  /**
   * Whose the warehouse's bucket is, from the bucket itself; noted in the catalog. One that was made before there were marks
   * is given its mark.
   */
  look(warehouse: string): Promise<Exclude<Belonging, 'unclaimed'>> {
    return this.#owners.look(warehouse)
  }

  /** For who writes to the bucket past this class. Throws CONFLICT `lake_emptied`, `lake_foreign`. */
  requireOwn(warehouse: string): Promise<void> {
    return this.#owners.require(warehouse)
  }

  /** How many buckets of warehouses the object store has, whoever made them; as far as this login may see. */
  async bucketCount(): Promise<number> {
    const { store, catalog } = this.#options
    return (await store.buckets()).filter((name) => name.startsWith(catalog.layout.bucketOf(''))).length
  }

  /**
   * Removes all that there is of a warehouse: first the pointers, then the files. Those of a bucket that is not its own
   * stay. Idempotent.
   */
  async drop(warehouse: string): Promise<void> {
    const isToGo = await this.#owners.beginDrop(warehouse)
    const { store, catalog } = this.#options
    await catalog.dropWarehouse(warehouse)
    if (isToGo) await store.dropBucket(catalog.layout.bucketOf(warehouse))
    await catalog.owners?.drop(warehouse)
  }

  /**
   * Notes beside the table where its pointer is after the newest commit, and what the caller adds: for a catalog that is
   * put back from an older dump. `clean` leaves a table alone whose pointer is not where its note, or its history, has it.
   */
  async noteNewest(ref: TableRef, location: string | null, note: object): Promise<void> {
    await this.requireOwn(ref.warehouse)
    const body = Buffer.from(JSON.stringify({ ...note, location }), 'utf8')
    await this.#options.store.put(notePath(this.#reader.files(ref)), body)
  }

  /** As `noteNewest` was given it; null where there is none. */
  newestNote(ref: TableRef): Promise<unknown> {
    return readNote(this.#reader.files(ref))
  }

  /** Idempotent. */
  async forgetNewest(ref: TableRef): Promise<void> {
    await this.requireOwn(ref.warehouse)
    return this.#options.store.remove(notePath(this.#reader.files(ref)))
  }

  /** Brings the pointer to a metadata file of the table, wherever it is. */
  async movePointer(catalog: Catalog, ref: TableRef, location: string): Promise<void> {
    const state = await this.#reader.stateAt(this.#reader.files(ref), location)
    const from = await catalog.pointer(ref)
    if (from !== location) await catalog.movePointer(ref, from, state.location)
  }

  /**
   * What a table that is about to be dropped has in the object store, for `purge`. To be asked while nobody else can have a table of
   * that name. The note of its newest epoch goes at once: left behind by a purge that died, it would say that the catalog is too old,
   * and keep the files from ever being cleaned. Nothing of a bucket that is not the warehouse's.
   */
  async filesToPurge(ref: TableRef): Promise<FilesToPurge> {
    if (!(await this.#owners.mayRemove(ref.warehouse))) return { ref, paths: [] }
    const { store } = this.#options
    const files = this.#reader.files(ref)
    await store.remove(notePath(files))
    return { ref, paths: (await Array.fromAsync(store.list(files.root))).map(({ path }) => path) }
  }

  /**
   * Removes them, once the table was dropped, and no others: by now another table may have the name and be written to, and what a
   * former writer adds later is that of a lost table. Idempotent.
   */
  async purge({ ref, paths }: FilesToPurge): Promise<void> {
    if (!(await this.#owners.mayRemove(ref.warehouse))) return
    for (let at = 0; at < paths.length; at += PURGED_AT_ONCE) {
      await Promise.all(paths.slice(at, at + PURGED_AT_ONCE).map((path) => this.#options.store.remove(path)))
    }
  }

  /** Both, of a table that was dropped and whose name nobody else can have yet. A table that has a pointer is left alone (CONFLICT). */
  async purgeTable(ref: TableRef): Promise<void> {
    if ((await this.#options.catalog.pointer(ref)) !== null) {
      throw new SluiceError('CONFLICT', `the lake table ${describeTable(ref)} is in use`, {
        code: 'lake_table_in_use',
        remedy: 'Drop the table first.',
      })
    }
    await this.purge(await this.filesToPurge(ref))
  }

  /**
   * Removes files that nothing reaches any more, and corrects the count of bytes. See `cleanTable`.
   * @param options `nowMs` where another clock is to be believed than that of this lake
   */
  async clean(
    ref: TableRef,
    options: Omit<CleanOptions, 'nowMs'> & { readonly nowMs?: number },
    signal: AbortSignal,
  ): Promise<CleanResult> {
    await this.requireOwn(ref.warehouse)
    return cleanTable(this.#cleanContext, await this.#filesOf(ref), { nowMs: this.#now(), ...options }, signal)
  }

  /**
   * The table is no more than it is now: other snapshots go, tagged ones, too, and with them at once all files that they alone
   * had, without the time that readers are given otherwise. Writers that have begun lose. Repeatable.
   *
   * @param publish makes the commit visible; throws CONFLICT `lake_commit_conflict`
   */
  async forgetHistory(
    ref: TableRef,
    publish: (staged: StagedCommit) => Promise<void>,
    signal: AbortSignal,
  ): Promise<CleanResult> {
    await this.requireOwn(ref.warehouse)
    const move = async () => {
      const state = await this.#state(ref, signal)
      await publish(await stageChanges(this.#context(state.files), state, forgettingUpdates(state, this.#now())))
    }
    return cleanTableAtOnce(this.#cleanContext, await this.#filesOf(ref), move, signal)
  }

  /** What the table still has of what it was. */
  async traces(ref: TableRef, signal: AbortSignal): Promise<TableTraces> {
    return tracesOf(this.#cleanContext, await this.#filesOf(ref), signal)
  }

  /** Everything that keeps the table, or a snapshot of it, from being read. See `checkTable`. */
  async check(ref: TableRef, signal: AbortSignal): Promise<readonly LakeProblem[]> {
    const context = { reader: this.#reader, manifests: this.#manifests, engine: this.#options.engine }
    return checkTable(context, await this.#filesOf(ref), signal)
  }

  /** Tables that have files in the warehouse's folder and no pointer: dropped ones, and first writes that failed. */
  async lostTables(warehouse: string, signal?: AbortSignal): Promise<readonly TableRef[]> {
    checkPart(warehouse, 'warehouse')
    const { catalog } = this.#options
    const prefix = catalog.layout.folderOf(warehouse)
    const entries = await catalog.tables(warehouse)
    const roots = entries.map(({ ref, metadataLocation }) => this.#reader.filesAt(ref, metadataLocation).root)
    const known = new Set(roots.map((root) => root.slice(prefix.length + 1)))
    const lost = new Map<string, TableRef>()
    for await (const { path } of this.#options.store.list(prefix, signal)) {
      const [namespace, table] = path.slice(prefix.length + 1).split('/')
      if (namespace === undefined || table === undefined || known.has(`${namespace}/${table}`)) continue
      lost.set(`${namespace}/${table}`, { warehouse, namespace, table })
    }
    return [...lost.values()]
  }

  get #cleanContext() {
    return { catalog: this.#options.catalog, reader: this.#reader, manifests: this.#manifests }
  }

  get #leases(): WriteLeases {
    return this.#held ?? this.#options.catalog
  }

  #context(files: TableFiles, signal?: AbortSignal) {
    return { manifests: this.#manifests, files, nowMs: this.#now(), signal }
  }

  async #filesOf(ref: TableRef): Promise<TableFiles> {
    const location = await this.#options.catalog.pointer(ref)
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
