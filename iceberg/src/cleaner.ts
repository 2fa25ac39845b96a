import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from './catalog.ts'
import type { TableMetadata } from './format/metadata.ts'
import { statisticsOf } from './format/statistics-updates.ts'
import { logLimit } from './format/table-updates.ts'
import type { Manifests } from './manifests.ts'
import { notePath, readNote } from './newest-note.ts'
import { isMark, marksAmong, readMark, writeMark } from './reached-marks.ts'
import type { ObjectStat } from './store/object-store.ts'
import { isMissing, type TableFiles } from './table-files.ts'
import type { TableReader, TableState } from './table-state.ts'

export interface CleanResult {
  readonly removedFiles: number
  readonly removedBytes: number
  /** What the table has in the object store afterwards; null where it was left alone. */
  readonly storedBytes: number | null
}

const LEFT_ALONE: CleanResult = { removedFiles: 0, removedBytes: 0, storedBytes: null }
const HOUR_MS = 60 * 60 * 1000
const LOOK_MS = 100

export interface CleanOptions {
  /** At least one hour. */
  readonly minAgeMs: number
  readonly nowMs: number
  /** How long a moment is waited for in which nobody writes to the table. Default: not at all. */
  readonly patienceMs?: number
}

/**
 * Removes files of the table that no metadata reaches: leftovers of failed writes and of expired snapshots. A file
 * stays when it is younger than `minAgeMs`, or when metadata that was current within that time reaches it, so that
 * readers which began on it can end. Where there were so many commits that the table does not tell what was current then, a
 * file stays until a cleaning that is as long ago has found it out of use, too. A table with an open write is left alone.
 */
export async function cleanTable(
  context: CleanContext,
  files: TableFiles,
  { minAgeMs, nowMs, patienceMs = 0 }: CleanOptions,
  signal: AbortSignal,
): Promise<CleanResult> {
  const keepSinceMs = nowMs - Math.max(minAgeMs, HOUR_MS)
  // What is written from here on is young; the listing comes before the metadata, so that it lacks whatever a commit adds later.
  if (!(await isQuiet(context.catalog, files, patienceMs, signal))) return LEFT_ALONE
  const listed = await Array.fromAsync(files.store.list(files.root, signal))
  const state = await context.reader.load(files.ref, signal)
  if (await isOlderThanNoted(files, state)) return LEFT_ALONE
  const marks = marksAmong(files, listed)
  if (state === null || tellsOf(state.metadata, keepSinceMs)) {
    const isSpent = (path: string) => marks.some((mark) => mark.path === path)
    return removeUnreached(context, files, state, { listed, keepSinceMs, nowMs, isSpent }, signal)
  }
  const mark = marks.findLast(({ atMs }) => atMs < keepSinceMs)
  const isSpent = (path: string) => marks.some((one) => one.path === path && one.atMs < (mark?.atMs ?? 0))
  const then = mark === undefined ? null : { beforeMs: mark.atMs - HOUR_MS, reached: await readMark(files, mark) }
  return removeUnreached(context, files, state, { listed, keepSinceMs, nowMs, isSpent, then }, signal)
}

/** Whether there was a moment without an open write. */
async function isQuiet(
  catalog: Catalog,
  { ref }: TableFiles,
  patienceMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const untilMs = performance.now() + patienceMs
  while (await catalog.hasOpenWrites(ref)) {
    if (performance.now() >= untilMs) return false
    await sleep(LOOK_MS, undefined, { signal })
  }
  return true
}

/** Whether the metadata log reaches back to that moment. */
function tellsOf(metadata: TableMetadata, sinceMs: number): boolean {
  const [first] = metadata['metadata-log']
  return metadata['metadata-log'].length < logLimit(metadata) || (first?.['timestamp-ms'] ?? 0) <= sinceMs
}

/**
 * Removes all that the table as it is now does not reach, however young: readers that began on a former snapshot find files
 * missing. Writers that began before `movePointer` publish nothing, since they have to find the table as it was; so their
 * files go, too, and nobody has to wait for the leases of those that died.
 *
 * @param movePointer publishes a commit
 */
export async function cleanTableAtOnce(
  context: CleanContext,
  files: TableFiles,
  movePointer: () => Promise<void>,
  signal: AbortSignal,
): Promise<CleanResult> {
  const listed = await Array.fromAsync(files.store.list(files.root, signal))
  await movePointer()
  const state = await context.reader.load(files.ref, signal)
  const all = { listed, keepSinceMs: Number.POSITIVE_INFINITY, nowMs: 0, isSpent: () => true }
  return removeUnreached(context, files, state, all, signal)
}

export interface TableTraces {
  /** In the table's metadata. */
  readonly snapshots: number
  /** Entries of their manifests that say that a file is gone. */
  readonly goneEntries: number
  /** Objects in the table's folder that its metadata does not reach. */
  readonly unreachedFiles: number
}

/** What a table still has of what it was. */
export async function tracesOf(context: CleanContext, files: TableFiles, signal: AbortSignal): Promise<TableTraces> {
  const state = await context.reader.load(files.ref, signal)
  const reached = state === null ? new Set<string>() : await reachable(context, state, Number.POSITIVE_INFINITY, signal)
  let unreachedFiles = 0
  for await (const { path } of files.store.list(files.root, signal)) {
    if (!reached.has(path) && path !== notePath(files) && !isMark(files, path)) unreachedFiles += 1
  }
  const snapshots = state?.metadata.snapshots ?? []
  let goneEntries = 0
  for (const { 'manifest-list': list } of snapshots) {
    const manifests = await context.manifests.readList(files, list, signal)
    goneEntries += manifests.reduce((sum, { deleted_files_count: gone }) => sum + gone, 0)
  }
  return { snapshots: snapshots.length, goneEntries, unreachedFiles }
}

interface CleanContext {
  readonly catalog: Catalog
  readonly reader: TableReader
  readonly manifests: Manifests
}

interface Sweep {
  readonly listed: readonly ObjectStat[]
  readonly keepSinceMs: number
  readonly nowMs: number
  /** Of a mark: that no later cleaning needs it. */
  isSpent(path: string): boolean
  /** What an earlier cleaning has found, and of files how old; null: there was none long enough ago. Absent: it is not asked. */
  readonly then?: { readonly beforeMs: number; readonly reached: ReadonlySet<string> } | null
}

async function removeUnreached(
  context: CleanContext,
  files: TableFiles,
  state: TableState | null,
  { listed, keepSinceMs, nowMs, isSpent, then }: Sweep,
  signal: AbortSignal,
): Promise<CleanResult> {
  const reached = state === null ? new Set<string>() : await reachable(context, state, keepSinceMs, signal)
  const wasFree = (path: string, atMs: number) =>
    then === undefined || (then !== null && atMs < then.beforeMs && !then.reached.has(path))
  const isFree = (path: string, atMs: number) =>
    isMark(files, path) ? isSpent(path) : !reached.has(path) && atMs < keepSinceMs && wasFree(path, atMs)
  let [removedFiles, removedBytes, storedBytes] = [0, 0, 0]
  for (const { path, sizeBytes, modifiedAt } of listed) {
    signal.throwIfAborted()
    if (path === notePath(files)) continue
    if (!isFree(path, modifiedAt.getTime())) {
      storedBytes += sizeBytes
      continue
    }
    await files.store.remove(path)
    removedFiles += 1
    removedBytes += sizeBytes
  }
  const markBytes = then === undefined ? 0 : await writeMark(files, nowMs, reached)
  if (state !== null)
    await count(context.catalog, state, { all: storedBytes + markBytes, change: markBytes - removedBytes })
  return { removedFiles, removedBytes, storedBytes: storedBytes + markBytes }
}

/** Of a table that has moved on meanwhile, only what the cleaning has changed is known. */
async function count(
  catalog: Catalog,
  { ref, location }: TableState,
  bytes: { readonly all: number; readonly change: number },
): Promise<void> {
  if ((await catalog.setBytes?.(ref, location, bytes.all)) === false) await catalog.addBytes?.(ref, bytes.change)
}

/** The catalog is one from before the newest commit: what it does not reach may be all that there is of that. */
async function isOlderThanNoted(files: TableFiles, state: TableState | null): Promise<boolean> {
  const noted = (await readNote(files))?.location ?? null
  if (noted === null || noted === state?.location) return false
  return state === null || !state.metadata['metadata-log'].some((entry) => entry['metadata-file'] === noted)
}

/**
 * Paths of all files that the current metadata, or metadata current since then, leads to. What the table still has has to be
 * there. Manifests that former metadata alone needs may have been removed: with the history that an erasure ended, or by a
 * cleaning that was to keep them for less long. Nobody reads on from there.
 */
async function reachable(
  context: Omit<CleanContext, 'catalog'>,
  state: TableState,
  sinceMs: number,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const { files } = state
  const paths = new Set<string>([files.pathOf(state.location)])
  const lists = new Set<string>()
  for (const { 'metadata-file': uri } of state.metadata['metadata-log']) paths.add(files.pathOf(uri))
  const recent = currentSince(state.metadata, sinceMs)
  for (const location of [null, ...recent]) {
    const metadata = location === null ? state.metadata : await context.reader.metadataAt(files, location, signal)
    for (const snapshot of metadata.snapshots) lists.add(snapshot['manifest-list'])
    for (const kind of ['statistics', 'partition-statistics'] as const) {
      for (const file of statisticsOf(metadata, kind)) paths.add(files.pathOf(file['statistics-path']))
    }
  }
  const needed = new Set(state.metadata.snapshots.map((snapshot) => snapshot['manifest-list']))
  const seen = new Set<string>()
  // Those of the current metadata come first.
  for (const list of lists) {
    const found = <Item>(read: Promise<readonly Item[]>) => (needed.has(list) ? read : noneIfGone(read))
    paths.add(files.pathOf(list))
    for (const manifest of await found(context.manifests.readList(files, list, signal))) {
      if (seen.has(manifest.manifest_path)) continue
      seen.add(manifest.manifest_path)
      paths.add(files.pathOf(manifest.manifest_path))
      const entries = await found(context.manifests.readEntries(files, manifest, signal))
      for (const entry of entries) if (entry.status !== 'deleted') paths.add(files.pathOf(entry.file.uri))
    }
  }
  return paths
}

async function noneIfGone<Item>(read: Promise<readonly Item[]>): Promise<readonly Item[]> {
  try {
    return await read
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/** Older metadata files that were current at the moment or later: all but those that had a successor by then. */
function currentSince(metadata: TableMetadata, sinceMs: number): readonly string[] {
  const log = metadata['metadata-log']
  const endOf = (at: number) => log[at + 1]?.['timestamp-ms'] ?? metadata['last-updated-ms']
  return log.filter((_, at) => endOf(at) > sinceMs).map((entry) => entry['metadata-file'])
}
