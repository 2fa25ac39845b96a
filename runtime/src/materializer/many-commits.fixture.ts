/**
 * A table under a commit a second, by a clock that runs as fast as commits are made: each commit expires what the ladder lets go, the
 * table is cleaned every six hours, and readers keep hold of what they have begun with. Its rows are one parquet file, copied
 * under a new name for each commit, so that no engine stands between the commits.
 */

import { mkdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createEngine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { FolderStore, Lake, StoreCatalog, type TableRef, type TableState } from '@sluice/iceberg'
import type { SnapshotLadder } from '../manifest/manifest-set.ts'
import { keptByLadder, MOST_SNAPSHOTS } from './snapshot-ladder.ts'

const SECOND_MS = 1000
const HOUR_MS = 3_600_000
const LIMITS = { memoryBytes: 1024 ** 3, timeoutMs: 600_000, threads: 1 }
const REF: TableRef = { warehouse: 'acme', namespace: 'sales', table: 'orders' }

/** Files are as old as the clock of the commits says. */
class TimedStore extends FolderStore {
  nowMs: number
  /** Of what was written: all, and of metadata files alone. */
  writtenBytes = 0
  metadataBytes = 0
  readonly #times = new Map<string, number>()

  constructor(root: string, nowMs: number) {
    super(root)
    this.nowMs = nowMs
  }

  /** Nothing here is about power that fails: the disk is not waited for. */
  override async put(...[path, body, options]: Parameters<FolderStore['put']>): ReturnType<FolderStore['put']> {
    const file = this.localPath(path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, body, { flag: options?.ifAbsent === true ? 'wx' : 'w' })
    const { size: sizeBytes } = await stat(file)
    this.#times.set(path, this.nowMs)
    this.writtenBytes += sizeBytes
    if (path.endsWith('.metadata.json')) this.metadataBytes += sizeBytes
    return { path, sizeBytes, modifiedAt: new Date(this.nowMs) }
  }

  override async remove(path: string): Promise<void> {
    await super.remove(path)
    this.#times.delete(path)
  }

  override async *list(...given: Parameters<FolderStore['list']>): ReturnType<FolderStore['list']> {
    for await (const found of super.list(...given)) {
      yield { ...found, modifiedAt: new Date(this.#times.get(found.path) ?? this.nowMs) }
    }
  }
}

/** Nothing here is about pointers, and a commit would take its time for them. */
class PointersInMemory extends StoreCatalog {
  readonly #pointers = new Map<string, string>()

  override async pointer({ table }: TableRef): Promise<string | null> {
    return this.#pointers.get(table) ?? null
  }

  override async movePointer({ table }: TableRef, from: string | null, to: string): Promise<boolean> {
    if ((this.#pointers.get(table) ?? null) !== from) return false
    this.#pointers.set(table, to)
    return true
  }
}

export interface CommitFigures {
  /** That the commit wrote, its data file included. */
  readonly bytes: number
  readonly metadataBytes: number
  readonly snapshots: number
}

export class ManyCommits {
  readonly #store: TimedStore
  readonly #catalog: StoreCatalog
  readonly #lake: Lake
  readonly #ladder: SnapshotLadder
  #state: TableState | null = null
  #file: {
    readonly bytes: Uint8Array
    readonly request: Omit<Parameters<Lake['stage']>[1], 'base' | 'summary'>
  } | null = null
  #made = 0

  private constructor(store: TimedStore, catalog: StoreCatalog, lake: Lake, ladder: SnapshotLadder) {
    this.#store = store
    this.#catalog = catalog
    this.#lake = lake
    this.#ladder = ladder
  }

  static async begin(dir: string, ladder: SnapshotLadder): Promise<ManyCommits> {
    const store = new TimedStore(join(dir, 'store'), Date.UTC(2026, 0, 1))
    const catalog = new PointersInMemory(store, () => store.nowMs)
    const children = { maxChildren: 1, warmChildren: 0, maxQueued: 10, ...(await testEngineProgram()) }
    const engine = createEngine({ scratchDir: join(dir, 'scratch'), ...children })
    const lake = new Lake({ store, catalog, engine, clock: () => store.nowMs })
    const made = new ManyCommits(store, catalog, lake, ladder)
    try {
      await made.#writeFile()
    } finally {
      await engine.close()
    }
    return made
  }

  async #writeFile(): Promise<void> {
    await this.#lake.provision(REF.warehouse)
    const columns = [{ name: 'id', type: 'integer', nullable: false } as const]
    const schema = { columns, primaryKey: ['id'] }
    const target = { ref: REF, base: null, select: 'SELECT 1 AS id', schema, rows: 'rewrite' } as const
    const { written } = await this.#lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(LIMITS.timeoutMs))
    const [data] = written
    const [file] = data?.files ?? []
    if (data === undefined || file === undefined) throw new Error('nothing was written')
    const bytes = await this.#store.get(this.#store.pathOf(file.uri) as string)
    const { plan, writeId } = data
    await this.#catalog.endWrite(REF, writeId)
    this.#file = { bytes, request: { plan, operation: 'replace', files: [file] } }
  }

  /** A second later: the content anew, in a file of its own. */
  async commit(): Promise<CommitFigures> {
    if (this.#file === null) throw new Error('there is no file to commit')
    this.#store.nowMs += SECOND_MS
    const { bytes, request } = this.#file
    const [beforeBytes, beforeMetadata] = [this.#store.writtenBytes, this.#store.metadataBytes]
    const uri = this.#lake.dataUri(REF, `${String(this.#made).padStart(8, '0')}.parquet`)
    await this.#store.put(this.#store.pathOf(uri) as string, bytes)
    const base = this.#state
    const [file] = request.files
    const files = file === undefined ? [] : [{ ...file, uri }]
    const change = base === null ? request : { operation: request.operation }
    const summary = { 'sluice.epoch': String(this.#made), 'sluice.run': `run_${this.#made}` }
    const staged = await this.#lake.stage(REF, { ...change, base, files, summary, expired: this.#expired(base) })
    await this.#lake.publish(this.#catalog, [staged])
    this.#state = await this.#lake.load(REF)
    this.#made += 1
    return {
      bytes: this.#store.writtenBytes - beforeBytes,
      metadataBytes: this.#store.metadataBytes - beforeMetadata,
      snapshots: this.#state?.metadata.snapshots.length ?? 0,
    }
  }

  #expired(base: TableState | null): readonly string[] {
    if (base === null) return []
    const snapshots = this.#lake.snapshots(base)
    const kept = new Set(keptByLadder(this.#ladder, snapshots, this.#store.nowMs, MOST_SNAPSHOTS - 1))
    return snapshots.filter((one) => !kept.has(one)).map(({ snapshotId }) => snapshotId)
  }

  /** Time goes by without a commit. */
  pass(ms: number): void {
    this.#store.nowMs += ms
  }

  /** As upkeep does it by the clock, with the grace that readers have: a day. */
  clean(): ReturnType<Lake['clean']> {
    return this.#lake.clean(REF, { minAgeMs: 24 * HOUR_MS }, AbortSignal.timeout(LIMITS.timeoutMs))
  }

  /** Files that the current snapshot leads to, and that there are. */
  async files(): Promise<{ readonly live: number; readonly stored: number; readonly storedBytes: number }> {
    const { live } = await this.reader()
    const all = await Array.fromAsync(this.#store.list(this.#root))
    return {
      live: live.length,
      stored: all.length,
      storedBytes: all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    }
  }

  /** Somebody who has loaded the table now, as any Iceberg reader does, and comes to its manifests and files later. */
  async reader(): Promise<{ readonly live: readonly string[]; missing(): Promise<readonly string[]> }> {
    const state = this.#state
    if (state === null) throw new Error('there is no commit yet')
    const list = state.metadata.snapshots.find((one) => String(one['snapshot-id']) === state.snapshotId)?.[
      'manifest-list'
    ]
    const scan = await this.#lake.scan(state)
    const live = scan.files.map((file) => this.#store.pathOf(file.uri) as string)
    const manifests = scan.files.map((file) => this.#store.pathOf(file.manifest) as string)
    const paths = [...live, ...manifests, this.#store.pathOf(list as string) as string]
    const missing = async () => {
      const found = await Promise.all(
        paths.map(async (path) => ((await this.#store.stat(path)) === null ? [path] : [])),
      )
      return found.flat()
    }
    return { live, missing }
  }

  get state(): TableState {
    if (this.#state === null) throw new Error('there is no commit yet')
    return this.#state
  }

  /** Reads every snapshot that the table still names, down to its files; which it cannot. */
  async unreadable(): Promise<readonly string[]> {
    const fresh = this.#lake.fresh()
    const broken: string[] = []
    for (const { snapshotId } of this.#lake.snapshots(this.state)) {
      const scan = await fresh.scan(this.state, { snapshotId })
      for (const file of scan.files) {
        if ((await this.#store.stat(this.#store.pathOf(file.uri) as string)) === null) broken.push(snapshotId)
      }
    }
    return broken
  }

  get #root(): string {
    return this.#store.pathOf(this.state.metadata.location) as string
  }
}
